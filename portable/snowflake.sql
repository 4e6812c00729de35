{# Snowflake's Cortex AI functions. #}

{% macro snowflake__ai_filter(question, columns, options) -%}
    {%- set options = dbt_quail.known_options('ai_filter', options) -%}
    {%- do dbt_quail.lacks_option('AI_FILTER of Snowflake', options, 'examples', 'output_mode') -%}
    {{ return('AI_FILTER(' ~ dbt_quail.snowflake_prompt(dbt_quail.prompt_pieces('ai_filter', question, columns, options), columns) ~ ')') }}
{%- endmacro %}

{% macro snowflake__ai_join(question, left, right, options) -%}
    {{ return(dbt_quail.snowflake__ai_filter(question, [left, right], options)) }}
{%- endmacro %}

{% macro snowflake__ai_score(question, columns, options) -%}
    {{ exceptions.raise_compiler_error("Snowflake has no counterpart of ai_score: Cortex gives no probabilities. Write dbt_quail.ai_filter(question, column) "
        ~ "for yes or no, or dbt_quail.ai_classify(column, ['low', 'medium', 'high']) for an order.") }}
{%- endmacro %}

{% macro snowflake__ai_classify(column, labels, options) -%}
    {%- set options = dbt_quail.known_options('ai_classify', options) -%}
    {%- set config = {} -%}
    {%- if options.get('instructions') -%} {%- do config.update({'task_description': options['instructions']}) -%} {%- endif -%}
    {%- if options.get('output_mode') == 'multi' -%} {%- do config.update({'output_mode': 'multi'}) -%} {%- endif -%}
    {%- if options.get('examples') -%}
        {%- set examples = [] -%}
        {%- for text, answers in dbt_quail.examples_by_text('Snowflake', options) -%}
            {%- do examples.append({'input': text, 'labels': answers, 'explanation': 'labelled by hand'}) -%}
        {%- endfor -%}
        {%- do config.update({'examples': examples}) -%}
    {%- endif -%}
    {%- set arguments = [column, labels if labels is string else dbt_quail.snowflake_categories(labels)] -%}
    {%- if config -%} {%- do arguments.append(dbt_quail.vendor_literal(config)) -%} {%- endif -%}
    {%- set path = ':labels::array' if options.get('output_mode') == 'multi' else ':labels[0]::varchar' -%}
    {{ return('AI_CLASSIFY(' ~ arguments | join(', ') ~ ')' ~ path) }}
{%- endmacro %}

{% macro snowflake__ai_classify_scores(column, labels, options) -%}
    {{ exceptions.raise_compiler_error("Snowflake has no counterpart of ai_classify_scores: Cortex gives no probabilities. "
        ~ "Write dbt_quail.ai_classify(column, labels) for the label alone.") }}
{%- endmacro %}

{% macro snowflake__ai_sentiment(column, options) -%}
    {%- set options = dbt_quail.known_options('ai_sentiment', options) -%}
    {%- do dbt_quail.lacks_option('AI_SENTIMENT of Snowflake', options, 'examples', 'instructions', 'output_mode') -%}
    {{ return('AI_SENTIMENT(' ~ column ~ '):categories[0]:sentiment::varchar') }}
{%- endmacro %}

{# Snowflake wants texts alone, or objects alone. #}
{% macro snowflake_categories(labels) -%}
    {%- set described = labels | select('mapping') | list -%}
    {%- set categories = [] -%}
    {%- for label in labels -%}
        {%- do categories.append({'label': label} if described and label is string else label) -%}
    {%- endfor -%}
    {{ return(dbt_quail.vendor_literal(categories)) }}
{%- endmacro %}

{#
    PROMPT over the columns. Snowflake documents no way to write a brace in a template, so a question that has one is put together by
    CONCAT; a question without columns is a text.
#}
{% macro snowflake_prompt(pieces, columns) -%}
    {%- set template = namespace(text='', braces=false, arguments=0) -%}
    {%- set parts = [] -%}
    {%- for piece in pieces -%}
        {%- if piece is string -%}
            {%- set template.text = template.text ~ piece -%}
            {%- set template.braces = template.braces or '{' in piece or '}' in piece -%}
            {%- do parts.append(dbt_quail.vendor_text(piece)) -%}
        {%- else -%}
            {%- set template.text = template.text ~ '{' ~ piece ~ '}' -%}
            {%- set template.arguments = template.arguments + 1 -%}
            {%- do parts.append(columns[piece]) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not template.arguments -%}
        {{ return(dbt_quail.vendor_text(template.text)) }}
    {%- elif template.braces -%}
        {{ return('CONCAT(' ~ parts | join(', ') ~ ')') }}
    {%- endif -%}
    {{ return('PROMPT(' ~ ([dbt_quail.vendor_text(template.text)] + (columns | list)) | join(', ') ~ ')') }}
{%- endmacro %}
