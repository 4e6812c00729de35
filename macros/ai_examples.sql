{#
    Labelled rows for the option `examples`, read from a relation while dbt compiles.

        AI_FILTER('Is it spam?', body, {'examples': {{ ai_examples(ref('gold'), text='body', label='is_spam') }}})
        {{ ai_filter('Is it spam?', 'body', options={'examples': ai_examples(ref('gold'), text='body', label='is_spam')}) }}
#}

{% macro ai_examples(relation, text, label, limit=none) -%}
    {#- A unit test's relations are fixtures inside its own statement: nothing can be read from them before it runs. -#}
    {%- if not execute or (model is defined and model.resource_type == 'unit_test') -%}
        {{ return('null') }}
    {%- endif -%}
    {%- set texts = [text] if text is string else text | list -%}
    {%- set columns = texts + [label] -%}
    {%- set rows = run_query(quail_examples_query(relation, columns, limit)).rows -%}
    {%- if not rows and not flags.EMPTY -%}
        {{ exceptions.raise_compiler_error("ai_examples: " ~ relation ~ " has no row in which " ~ columns | join(', ')
            ~ " all have a value. Build it before this node, or name other columns.") }}
    {%- endif -%}
    {{ return(adapter.ai_rows(rows, config) if rows else 'null') }}
{%- endmacro %}

{# Texts and label of the different rows that have all of them, a list of labels as JSON, and whether it is one. With a limit those whose hashes come first, so that always the
   same are taken, and neither the first letters of the alphabet nor the oldest rows. #}
{% macro quail_examples_query(relation, columns, limit) -%}
    with labelled as (
        select distinct
            {% for column in columns[:-1] %}cast({{ column }} as varchar) as c{{ loop.index }}, {% endfor %}
            {%- set label = columns[-1] %}
            case when typeof({{ label }}) like '%[]' then to_json({{ label }})::varchar else cast({{ label }} as varchar) end as label,
            typeof({{ label }}) like '%[]' as is_list
        from {{ relation }}
        where {% for column in columns %}{{ column }} is not null{{ ' and ' if not loop.last }}{% endfor %}
    )
    select * from (select * from labelled as row_ order by md5(row_::varchar){% if limit is not none %} limit {{ limit }}{% endif %})
    order by all
{%- endmacro %}
