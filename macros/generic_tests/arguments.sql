{# What the generic tests share: checks of their arguments, keys, the interval of a share, and the line that a test logs. #}

{# Fails while dbt parses, so before anything runs. #}
{% macro quail_need(test, argument, value, example) -%}
    {%- if not value -%}
        {{ exceptions.raise_compiler_error("The data test " ~ test ~ " needs the argument '" ~ argument ~ "'. Write under arguments: " ~ example) }}
    {%- endif -%}
{%- endmacro %}

{% macro quail_need_share(test, argument, value) -%}
    {%- if value is not number or value is boolean or value < 0 or value > 1 -%}
        {{ exceptions.raise_compiler_error("The data test " ~ test ~ " needs the argument '" ~ argument
            ~ "', a number from 0 to 1, not " ~ (value if value is not none else 'nothing') ~ ". Write under arguments: " ~ argument ~ ": 0.9") }}
    {%- endif -%}
{%- endmacro %}

{# `key`, or `on` for those who quote it: YAML reads a bare `on` as true, and dbt then fails before it comes here. #}
{% macro quail_keys(test, key) -%}
    {%- do quail_need(test, 'key', key, 'key: ticket_id, or a list of columns that tell one row') -%}
    {{ return(quail_list(key)) }}
{%- endmacro %}

{% macro quail_list(value) -%}
    {{ return([value] if value is string else value | list) }}
{%- endmacro %}

{% macro quail_columns(relation, columns) -%}
    {%- for column in columns %}{{ relation }}.{{ column }}{{ ', ' if not loop.last }}{% endfor -%}
{%- endmacro %}

{% macro quail_same_keys(left, right, columns) -%}
    {%- for column in columns %}{{ left }}.{{ column }} = {{ right }}.{{ column }}{{ ' and ' if not loop.last }}{% endfor -%}
{%- endmacro %}

{# Select items `low` and `high`: the 95 % Wilson interval of the share correct / n; NULL of nothing. #}
{% macro quail_wilson(correct, n) -%}
    {%- set z = 1.959964 -%}
    {%- set z2 = z * z -%}
    {%- set centre = '(' ~ correct ~ ' + ' ~ (z2 / 2) ~ ')' -%}
    {%- set half = z ~ ' * sqrt(' ~ correct ~ ' * (' ~ n ~ ' - ' ~ correct ~ ') / ' ~ n ~ ' + ' ~ (z2 / 4) ~ ')' -%}
    greatest(0, ({{ centre }} - {{ half }}) / ({{ n }} + {{ z2 }})) as low,
        least(1, ({{ centre }} + {{ half }}) / ({{ n }} + {{ z2 }})) as high
{%- endmacro %}

{# Logs the one text that `sql` gives, when the test itself is run. It must hold no AI call: a log line is not worth a question. #}
{% macro quail_tell(test, column, sql) -%}
    {%- if execute and flags.WHICH in ('test', 'build', 'retry') -%}
        {%- for row in run_query(sql) -%}
            {%- do log(test ~ ' of ' ~ (context['model'].get('attached_node') or '').split('.')[-1] ~ '.' ~ column ~ ': ' ~ row[0], info=true) -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro %}
