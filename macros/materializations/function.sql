{#-
  Function nodes (`functions/*.sql`, dbt 1.11). DuckDB's CREATE FUNCTION is a macro: its body is an expression that every caller
  expands, so it has no return type and no volatility. The cast gives it the declared type; a volatility is refused with dbt's
  own warning. A macro may aggregate, so aggregate functions take the same road.
-#}
{% macro quail__scalar_function_sql(target_relation) %}
    {%- set arguments = [] -%}
    {%- for argument in model.arguments -%}
        {%- set default = ' := ' ~ argument.default_value if 'default_value' in argument else '' -%}
        {%- do arguments.append(argument.name ~ ' ' ~ argument.data_type ~ default) -%}
    {%- endfor -%}
    {%- set volatility = model.config.get('volatility') -%}
    {%- if volatility is not none -%}
        {%- do unsupported_volatility_warning(volatility) -%}
    {%- endif -%}
    CREATE OR REPLACE FUNCTION {{ target_relation.render() }} ({{ arguments | join(', ') }}) AS CAST((
        {{ model.compiled_code.strip().rstrip(';') }}
    ) AS {{ model.returns.data_type }})
{% endmacro %}

{% macro quail__aggregate_function_sql(target_relation) %}
    {{ return(quail__scalar_function_sql(target_relation)) }}
{% endmacro %}

{% macro quail__scalar_function_python(target_relation) %}
    {% do quail__refuse_function('Python') %}
{% endmacro %}

{% macro quail__aggregate_function_python(target_relation) %}
    {% do quail__refuse_function('Python') %}
{% endmacro %}

{% macro quail__scalar_function_javascript(target_relation) %}
    {% do quail__refuse_function('JavaScript') %}
{% endmacro %}

{% macro quail__aggregate_function_javascript(target_relation) %}
    {% do quail__refuse_function('JavaScript') %}
{% endmacro %}

{% macro quail__refuse_function(language) %}
    {% do exceptions.raise_compiler_error(
        "The function " ~ model.name ~ " (" ~ model.original_file_path ~ ") is written in " ~ language ~ ". A DuckDB database "
        ~ "keeps functions in SQL only. Write it as an SQL expression in " ~ model.name ~ ".sql, or do the work in a Python model."
    ) %}
{% endmacro %}
