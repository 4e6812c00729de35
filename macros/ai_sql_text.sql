{# How the AI macros become SQL text: calls, prompts, labels and literals. #}

{% macro quail_call(function, arguments, options) -%}
    {{ function }}({{ arguments }}{% if options %}, {{ quail_literal(options) }}{% endif %})
{%- endmacro %}

{# PROMPT over the columns; a question without a placeholder gets all of them, in order, at its end. #}
{% macro quail_prompt(question, columns) -%}
    {%- set unescaped = question | replace('{{', '') | replace('}}', '') -%}
    {%- set template = namespace(text=question) -%}
    {%- if not modules.re.search('[{][0-9]+[}]', unescaped) -%}
        {%- for _ in columns -%}
            {%- set template.text = template.text ~ ' {' ~ loop.index0 ~ '}' -%}
        {%- endfor -%}
    {%- endif -%}
    PROMPT({{ ([quail_literal(template.text)] + (columns | list)) | join(', ') }})
{%- endmacro %}

{# A list of labels, each a text or a mapping with `label` and `description`; a text is a column of lists, taken as SQL. #}
{% macro quail_labels(labels) -%}
    {% if labels is string %}{{ labels }}{% else %}{{ quail_literal(labels) }}{% endif %}
{%- endmacro %}

{# A DuckDB literal of a Jinja value: text, number, boolean, none, list or mapping (a struct). #}
{% macro quail_literal(value) -%}
    {%- if value is none -%} null
    {%- elif value is string -%} '{{ value | replace("'", "''") }}'
    {%- elif value is boolean -%} {{ 'true' if value else 'false' }}
    {%- elif value is mapping -%}
        {%- set members = [] -%}
        {%- for name, member in value.items() -%}
            {%- do members.append(quail_literal(name) ~ ': ' ~ quail_literal(member)) -%}
        {%- endfor -%}
        {{ '{' ~ members | join(', ') ~ '}' }}
    {%- elif value is iterable -%}
        {%- set members = [] -%}
        {%- for member in value -%} {%- do members.append(quail_literal(member)) -%} {%- endfor -%}
        {{ '[' ~ members | join(', ') ~ ']' }}
    {%- else -%} {{ value }}
    {%- endif -%}
{%- endmacro %}

{# A macro that takes any number of columns gets its options by keyword, where Jinja would let a misspelt one pass. #}
{% macro quail_check_keywords(macro, keywords) -%}
    {%- for name in keywords if name != 'options' -%}
        {{ exceptions.raise_compiler_error(
            macro ~ " has no argument '" ~ name ~ "'. It takes the question, columns, and options={'threshold': 0.6, ...}.") }}
    {%- endfor -%}
{%- endmacro %}

{% macro quail_unsupported(macro) -%}
    {{ exceptions.raise_compiler_error(macro ~ ' runs on the quail adapter only. Set type: quail in the profile of this target.') }}
{%- endmacro %}
