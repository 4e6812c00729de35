{#
    The AI functions of a project that runs on dbt-quail, dbt-snowflake or dbt-bigquery: each call is written in the SQL of the target.
    On dbt-quail the adapter writes it, as it does for its own macros of the same names, which this package leaves as they are.

        where {{ dbt_quail.ai_filter('Is this message urgent?', 'body') }}
#}

{% macro ai_filter(question) -%}
    {{ return(adapter.dispatch('ai_filter', 'dbt_quail')(question, varargs, dbt_quail.keyword_options('ai_filter', kwargs))) }}
{%- endmacro %}

{% macro quail__ai_filter(question, columns, options) -%}
    {{ return(adapter.ai_question('AI_FILTER', question, columns, options, config)) }}
{%- endmacro %}

{% macro default__ai_filter(question, columns, options) -%}
    {{ return(dbt_quail.unsupported('ai_filter')) }}
{%- endmacro %}


{% macro ai_score(question) -%}
    {{ return(adapter.dispatch('ai_score', 'dbt_quail')(question, varargs, dbt_quail.keyword_options('ai_score', kwargs))) }}
{%- endmacro %}

{% macro quail__ai_score(question, columns, options) -%}
    {{ return(adapter.ai_question('AI_SCORE', question, columns, options, config)) }}
{%- endmacro %}

{% macro default__ai_score(question, columns, options) -%}
    {{ return(dbt_quail.unsupported('ai_score')) }}
{%- endmacro %}


{% macro ai_join(question, left, right, options={}) -%}
    {{ return(adapter.dispatch('ai_join', 'dbt_quail')(question, left, right, options)) }}
{%- endmacro %}

{% macro quail__ai_join(question, left, right, options) -%}
    {{ return(adapter.ai_question('AI_JOIN', question, [left, right], options, config)) }}
{%- endmacro %}

{% macro default__ai_join(question, left, right, options) -%}
    {{ return(dbt_quail.unsupported('ai_join')) }}
{%- endmacro %}


{% macro ai_classify(column, labels, options={}) -%}
    {{ return(adapter.dispatch('ai_classify', 'dbt_quail')(column, labels, options)) }}
{%- endmacro %}

{% macro quail__ai_classify(column, labels, options) -%}
    {{ return(adapter.ai_choice('AI_CLASSIFY', column, labels, options, config)) }}
{%- endmacro %}

{% macro default__ai_classify(column, labels, options) -%}
    {{ return(dbt_quail.unsupported('ai_classify')) }}
{%- endmacro %}


{% macro ai_classify_scores(column, labels, options={}) -%}
    {{ return(adapter.dispatch('ai_classify_scores', 'dbt_quail')(column, labels, options)) }}
{%- endmacro %}

{% macro quail__ai_classify_scores(column, labels, options) -%}
    {{ return(adapter.ai_choice('AI_CLASSIFY_SCORES', column, labels, options, config)) }}
{%- endmacro %}

{% macro default__ai_classify_scores(column, labels, options) -%}
    {{ return(dbt_quail.unsupported('ai_classify_scores')) }}
{%- endmacro %}


{% macro ai_sentiment(column, options={}) -%}
    {{ return(adapter.dispatch('ai_sentiment', 'dbt_quail')(column, options)) }}
{%- endmacro %}

{% macro quail__ai_sentiment(column, options) -%}
    {{ return(adapter.ai_sentiment(column, options, config)) }}
{%- endmacro %}

{% macro default__ai_sentiment(column, options) -%}
    {{ return(dbt_quail.unsupported('ai_sentiment')) }}
{%- endmacro %}


{# A macro that takes any number of columns gets its options by keyword, where Jinja would let a misspelt one pass. #}
{% macro keyword_options(macro, keywords) -%}
    {%- for name in keywords if name != 'options' -%}
        {{ exceptions.raise_compiler_error(
            macro ~ " has no argument '" ~ name ~ "'. It takes the question, columns, and options={'instructions': '...', ...}.") }}
    {%- endfor -%}
    {{ return(keywords.get('options') or {}) }}
{%- endmacro %}

{% macro unsupported(macro) -%}
    {{ exceptions.raise_compiler_error("dbt_quail." ~ macro ~ " is written for dbt-quail, dbt-snowflake and dbt-bigquery, and this target is of type "
        ~ target.type ~ ". Set type: quail in the profile of this target.") }}
{%- endmacro %}
