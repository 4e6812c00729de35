{#-
  A seed in one COPY, as in dbt-duckdb, except that the word `null` is NULL: dbt reads the file so when it infers the columns'
  types, and COPY would find a text in a column of numbers. `fast: false` inserts what dbt read.
-#}
{% macro quail__load_csv_rows(model, agate_table) %}
    {% if not config.get('fast', true) %}
        {{ return(duckdb__load_csv_rows(model, agate_table)) }}
    {% endif %}
    {% set sql %}
        COPY {{ this.render() }} FROM '{{ adapter.escape_sql_string(adapter.get_seed_file_path(model)) }}'
        (FORMAT CSV, HEADER TRUE, DELIMITER '{{ config.get('delimiter', ',') }}', NULLSTR ('', 'null', 'NULL', 'Null'))
    {% endset %}
    {% do adapter.add_query(sql, abridge_sql_log=True) %}
    {{ return(sql) }}
{% endmacro %}
