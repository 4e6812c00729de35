{#
    The AI functions as macros. Columns are SQL text, questions are plain text: the adapter quotes them.

        where {{ ai_filter('Is this message urgent?', 'body') }}
        join b on a.k = b.k and {{ ai_join('Report {0} mentions reaction {1}', 'a.text', 'b.term') }}

    Why macros beside the functions: they spare the quoting, a dbt unit test can override a macro, and the package in `portable` has
    macros of the same names for other adapters.
#}

{% macro ai_filter(question) -%}
    {%- do quail_check_keywords('ai_filter', kwargs) -%}
    {{ return(adapter.ai_question('AI_FILTER', question, varargs, kwargs.get('options'), config)) }}
{%- endmacro %}

{% macro ai_score(question) -%}
    {%- do quail_check_keywords('ai_score', kwargs) -%}
    {{ return(adapter.ai_question('AI_SCORE', question, varargs, kwargs.get('options'), config)) }}
{%- endmacro %}

{% macro ai_join(question, left, right, options={}) -%}
    {{ return(adapter.ai_question('AI_JOIN', question, [left, right], options, config)) }}
{%- endmacro %}

{% macro ai_classify(column, labels, options={}) -%}
    {{ return(adapter.ai_choice('AI_CLASSIFY', column, labels, options, config)) }}
{%- endmacro %}

{% macro ai_classify_scores(column, labels, options={}) -%}
    {{ return(adapter.ai_choice('AI_CLASSIFY_SCORES', column, labels, options, config)) }}
{%- endmacro %}

{% macro ai_sentiment(column, options={}) -%}
    {{ return(adapter.ai_sentiment(column, options, config)) }}
{%- endmacro %}


{# A macro that takes any number of columns gets its options by keyword, where Jinja would let a misspelt one pass. #}
{% macro quail_check_keywords(macro, keywords) -%}
    {%- for name in keywords if name != 'options' -%}
        {{ exceptions.raise_compiler_error(
            macro ~ " has no argument '" ~ name ~ "'. It takes the question, columns, and options={'threshold': 0.6, ...}.") }}
    {%- endfor -%}
{%- endmacro %}
