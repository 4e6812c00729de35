{#
    The AI functions as macros. Columns are SQL text, questions are plain text: the macro quotes them.

        where {{ ai_filter('Is this message urgent?', 'body') }}
        join b on a.k = b.k and {{ ai_join('Report {0} mentions reaction {1}', 'a.text', 'b.term') }}

    Why macros beside the functions: they spare the quoting, and a dbt unit test can override a macro.
#}

{% macro ai_filter(question) -%}
    {%- do quail_check_keywords('ai_filter', kwargs) -%}
    {{ return(adapter.dispatch('ai_filter', 'dbt')(question, varargs, kwargs.get('options', {}))) }}
{%- endmacro %}

{% macro default__ai_filter(question, columns, options) -%}
    {{ return(quail_unsupported('ai_filter')) }}
{%- endmacro %}

{% macro quail__ai_filter(question, columns, options) -%}
    {{ return(quail_call('AI_FILTER', quail_prompt(question, columns), options)) }}
{%- endmacro %}


{% macro ai_score(question) -%}
    {%- do quail_check_keywords('ai_score', kwargs) -%}
    {{ return(adapter.dispatch('ai_score', 'dbt')(question, varargs, kwargs.get('options', {}))) }}
{%- endmacro %}

{% macro default__ai_score(question, columns, options) -%}
    {{ return(quail_unsupported('ai_score')) }}
{%- endmacro %}

{% macro quail__ai_score(question, columns, options) -%}
    {{ return(quail_call('AI_SCORE', quail_prompt(question, columns), options)) }}
{%- endmacro %}


{% macro ai_join(question, left, right, options={}) -%}
    {{ return(adapter.dispatch('ai_join', 'dbt')(question, left, right, options)) }}
{%- endmacro %}

{% macro default__ai_join(question, left, right, options) -%}
    {{ return(quail_unsupported('ai_join')) }}
{%- endmacro %}

{% macro quail__ai_join(question, left, right, options) -%}
    {{ return(quail_call('AI_JOIN', quail_prompt(question, [left, right]), options)) }}
{%- endmacro %}


{% macro ai_classify(column, labels, options={}) -%}
    {{ return(adapter.dispatch('ai_classify', 'dbt')(column, labels, options)) }}
{%- endmacro %}

{% macro default__ai_classify(column, labels, options) -%}
    {{ return(quail_unsupported('ai_classify')) }}
{%- endmacro %}

{% macro quail__ai_classify(column, labels, options) -%}
    {{ return(quail_call('AI_CLASSIFY', column ~ ', ' ~ quail_labels(labels), options)) }}
{%- endmacro %}


{% macro ai_classify_scores(column, labels, options={}) -%}
    {{ return(adapter.dispatch('ai_classify_scores', 'dbt')(column, labels, options)) }}
{%- endmacro %}

{% macro default__ai_classify_scores(column, labels, options) -%}
    {{ return(quail_unsupported('ai_classify_scores')) }}
{%- endmacro %}

{% macro quail__ai_classify_scores(column, labels, options) -%}
    {{ return(quail_call('AI_CLASSIFY_SCORES', column ~ ', ' ~ quail_labels(labels), options)) }}
{%- endmacro %}
