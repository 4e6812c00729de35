{# BigQuery's AI functions. #}

{% macro bigquery__ai_filter(question, columns, options) -%}
    {%- set options = dbt_quail.known_options('ai_filter', options) -%}
    {%- do dbt_quail.lacks_option('AI.IF of BigQuery', options, 'output_mode') -%}
    {%- set arguments = [dbt_quail.bigquery_prompt(dbt_quail.prompt_pieces('ai_filter', question, columns, options), columns)] -%}
    {%- if options.get('examples') -%}
        {%- set examples = [] -%}
        {%- for text, answers in dbt_quail.examples_by_text('BigQuery', options) -%}
            {%- do examples.append('(' ~ dbt_quail.vendor_text(text) ~ ', ' ~ (answers[0] | string | upper) ~ ')') -%}
        {%- endfor -%}
        {%- do arguments.append('examples => [' ~ examples | join(', ') ~ ']') -%}
    {%- endif -%}
    {{ return(dbt_quail.bigquery_call('AI.IF', arguments, options)) }}
{%- endmacro %}

{% macro bigquery__ai_join(question, left, right, options) -%}
    {{ return(dbt_quail.bigquery__ai_filter(question, [left, right], options)) }}
{%- endmacro %}

{# BigQuery grades on the scale that the prompt names. #}
{% macro bigquery__ai_score(question, columns, options) -%}
    {%- set options = dbt_quail.known_options('ai_score', options) -%}
    {%- do dbt_quail.lacks_option('AI.SCORE of BigQuery', options, 'examples', 'output_mode') -%}
    {%- set scale = 'Score from 0, surely no, to 1, surely yes: ' -%}
    {%- set pieces = dbt_quail.prompt_pieces('ai_score', scale ~ question, columns, options) -%}
    {{ return(dbt_quail.bigquery_call('AI.SCORE', [dbt_quail.bigquery_prompt(pieces, columns)], options)) }}
{%- endmacro %}

{% macro bigquery__ai_classify(column, labels, options) -%}
    {%- set options = dbt_quail.known_options('ai_classify', options) -%}
    {%- set multi = options.get('output_mode') == 'multi' -%}
    {%- set task = options.get('instructions') -%}
    {%- set arguments = ['(' ~ dbt_quail.vendor_text(task ~ ' ') ~ ', ' ~ column ~ ')' if task else column] -%}
    {%- do arguments.append('categories => ' ~ (labels if labels is string else dbt_quail.bigquery_categories(labels))) -%}
    {%- if options.get('examples') -%}
        {%- set examples = [] -%}
        {%- for text, answers in dbt_quail.examples_by_text('BigQuery', options) -%}
            {%- do examples.append('(' ~ dbt_quail.vendor_text(text) ~ ', ' ~ dbt_quail.vendor_literal(answers if multi else answers[0]) ~ ')') -%}
        {%- endfor -%}
        {%- do arguments.append('examples => [' ~ examples | join(', ') ~ ']') -%}
    {%- endif -%}
    {%- if multi -%} {%- do arguments.append("output_mode => 'multi'") -%} {%- endif -%}
    {{ return(dbt_quail.bigquery_call('AI.CLASSIFY', arguments, options)) }}
{%- endmacro %}

{% macro bigquery__ai_classify_scores(column, labels, options) -%}
    {{ exceptions.raise_compiler_error("BigQuery has no counterpart of ai_classify_scores: AI.CLASSIFY gives no probabilities. Write "
        ~ "dbt_quail.ai_classify(column, labels) for the label alone, or dbt_quail.ai_score(question, column) for each label.") }}
{%- endmacro %}

{% macro bigquery__ai_sentiment(column, options) -%}
    {%- set given = {'instructions': 'What sentiment does the text express? Judge the text as a whole.'} -%}
    {%- do given.update(options) -%}
    {{ return(dbt_quail.bigquery__ai_classify(column, ['positive', 'negative', 'neutral', 'mixed', 'unknown'], given)) }}
{%- endmacro %}

{% macro bigquery_call(function, arguments, options) -%}
    {%- if options.get('max_error_ratio') is not none -%} {%- do arguments.append('max_error_ratio => ' ~ options['max_error_ratio']) -%} {%- endif -%}
    {{ return(function ~ '(' ~ arguments | join(', ') ~ ')') }}
{%- endmacro %}

{# A struct of texts and columns in order; one alone is no struct. #}
{% macro bigquery_prompt(pieces, columns) -%}
    {%- set parts = [] -%}
    {%- for piece in pieces -%}
        {%- do parts.append(dbt_quail.vendor_text(piece) if piece is string else columns[piece]) -%}
    {%- endfor -%}
    {{ return(parts[0] if parts | length == 1 else '(' ~ parts | join(', ') ~ ')') }}
{%- endmacro %}

{# BigQuery wants texts alone, or a description for each of them. #}
{% macro bigquery_categories(labels) -%}
    {%- set described = labels | select('mapping') | list -%}
    {%- set categories = [] -%}
    {%- for label in labels -%}
        {%- set name = dbt_quail.vendor_text(label['label'] if label is mapping else label) -%}
        {%- set meaning = dbt_quail.vendor_text(label.get('description') or '' if label is mapping else '') -%}
        {%- do categories.append('(' ~ name ~ ', ' ~ meaning ~ ')' if described else name) -%}
    {%- endfor -%}
    {{ return('[' ~ categories | join(', ') ~ ']') }}
{%- endmacro %}
