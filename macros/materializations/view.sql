{#-
  DuckDB cannot evaluate an AI call when a view is read. A view model that contains one is stored as a table, or refused where
  `ai_views` is `error`; any other view is dbt's own.
-#}
{% materialization view, adapter='quail' -%}
  {%- if adapter.ai_view_becomes_table(config, sql) -%}
    {{ return(materialization_table_duckdb()) }}
  {%- endif -%}
  {{ return(materialization_view_default()) }}
{%- endmaterialization %}
