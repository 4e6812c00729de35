{# Asked in three models: written once, it is one question, and its answers are asked for once. #}
{% macro is_urgent(text) -%}
    {{ return(ai_filter(
        'Does the customer need an answer today?',
        text,
        options={'examples': ai_examples(ref('stg_labelled_tickets'), text='ticket_text', label='is_urgent')}
    )) }}
{%- endmacro %}
