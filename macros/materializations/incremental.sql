{#-
  dbt-duckdb's incremental materialization. Before it, what this run would ask is compared with what the table's rows were asked;
  after it, and so only when it succeeded, what it asked is kept.
-#}
{% materialization incremental, adapter='quail', supported_languages=['sql', 'python'] -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set grows = existing is not none and not existing.is_view and not should_full_refresh() -%}
  {%- if model.language == 'sql' and grows and not flags.EMPTY and adapter.must_rebuild_for_prompts(config, existing) -%}
    {#- should_full_refresh() is true from here on, so the model's SQL reads differently, too. -#}
    {%- set rebuilt = adapter.compile_again(config) -%}
    {%- do context.update({'sql': rebuilt, 'compiled_code': rebuilt}) -%}
  {%- endif -%}
  {#- As one macro: dbt runs a Python model only where its statement stands directly in a materialization. -#}
  {%- set relations = materialization_incremental_duckdb.call_macro() -%}
  {%- if model.language == 'sql' and not flags.EMPTY -%}
    {%- do adapter.keep_prompts(config, this) -%}
  {%- endif -%}
  {{ return(relations) }}
{%- endmaterialization %}


{#- dbt's own rule, and a rebuild that quail_on_prompt_change asked for. -#}
{% macro should_full_refresh() -%}
  {%- if adapter.rebuilds() -%}
    {{ return(true) }}
  {%- endif -%}
  {%- set of_the_model = config.get('full_refresh') -%}
  {{ return(flags.FULL_REFRESH if of_the_model is none else of_the_model) }}
{%- endmacro %}
