{#- dbt announces the node whose SQL it runs, except here: `dbt show` only puts a limit behind it. -#}
{% macro quail__get_limit_sql(sql, limit) -%}
  {%- do adapter.announce(config) -%}
  {{ default__get_limit_sql(sql, limit) }}
{%- endmacro %}
