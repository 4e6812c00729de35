{# What the vendors' macros share: options, questions cut at their placeholders, and literals. #}

{#
    The options, checked. `instructions`, `examples`, `output_mode` and `max_error_ratio` are said in the vendor's words; the others tune
    how dbt-quail asks its own model, and are left out.
#}
{% macro known_options(macro, options) -%}
    {%- set known = ['threshold', 'selectivity', 'anchor', 'model', 'examples', 'instructions', 'on_overlong', 'max_error_ratio',
        'output_mode', 'symmetric', 'order', 'rewrite'] -%}
    {%- for name in options if name not in known -%}
        {{ exceptions.raise_compiler_error(macro ~ ' has no option ' ~ name ~ '. Known options: ' ~ known | join(', ') ~ '.') }}
    {%- endfor -%}
    {{ return(options) }}
{%- endmacro %}

{# Refuses an option that changes what is asked and that the vendor's function cannot be told. #}
{% macro lacks_option(function, options) -%}
    {%- for name in varargs if options.get(name) -%}
        {{ exceptions.raise_compiler_error(function ~ " cannot be given '" ~ name ~ "'. Say it in the question, or give the option on dbt-quail alone: "
            ~ "options={'" ~ name ~ "': ...} if target.type == 'quail' else {}.") }}
    {%- endfor -%}
{%- endmacro %}

{#
    The question as a list of texts and of numbers of columns, in order. {0}, {1}, … are columns and doubled braces are plain ones; a
    question without a placeholder gets all columns at its end. Instructions stand before it.
#}
{% macro prompt_pieces(macro, question, columns, options) -%}
    {%- set pieces, text = [], namespace(open=options['instructions'] ~ ' ' if options.get('instructions') else '', placed=false) -%}
    {%- for part in modules.re.findall('[{][{]|[}][}]|[{][0-9]+[}]|[^{}]+|[{}]', question) -%}
        {%- if modules.re.match('[{][0-9]', part) -%}
            {%- set number = part[1:-1] | int -%}
            {%- if number >= columns | length -%}
                {{ exceptions.raise_compiler_error(macro ~ ": the question has " ~ part ~ ", and " ~ columns | length ~ " columns follow it: " ~ question) }}
            {%- endif -%}
            {%- if text.open -%} {%- do pieces.append(text.open) -%} {%- endif -%}
            {%- do pieces.append(number) -%}
            {%- set text.open, text.placed = '', true -%}
        {%- elif part in ('{', '}') -%}
            {{ exceptions.raise_compiler_error(macro ~ ": a single " ~ part ~ " in the question stands for no column. Double it for a literal brace: " ~ question) }}
        {%- else -%}
            {%- set text.open = text.open ~ (part[0] if part in ('{{', '}}') else part) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for _ in columns if not text.placed -%}
        {%- do pieces.extend([text.open ~ ' ', loop.index0]) -%}
        {%- set text.open = '' -%}
    {%- endfor -%}
    {%- if text.open -%} {%- do pieces.append(text.open) -%} {%- endif -%}
    {{ return(pieces) }}
{%- endmacro %}

{# The labelled examples as pairs of a text and its answers. #}
{% macro examples_by_text(vendor, options) -%}
    {%- set found = {} -%}
    {%- for example in options['examples'] -%}
        {%- set texts = [example['input']] if example['input'] is string else example['input'] | list -%}
        {%- if texts | length != 1 -%}
            {{ exceptions.raise_compiler_error("An example of " ~ vendor ~ " is about one text, not " ~ texts | length ~ ". Say it in the question, or give "
                ~ "the option on dbt-quail alone: options={'examples': ...} if target.type == 'quail' else {}.") }}
        {%- endif -%}
        {%- set answers = [example['answer']] if example['answer'] is string or example['answer'] is boolean else example['answer'] -%}
        {%- do found.setdefault(texts[0], []).extend(answers) -%}
    {%- endfor -%}
    {{ return(found.items() | list) }}
{%- endmacro %}

{# A text between quotes. Both vendors read backslashes. #}
{% macro vendor_text(text) -%}
    {{ return("'" ~ text | replace('\\', '\\\\') | replace("'", "\\'") | replace('\n', '\\n') | replace('\r', '\\r') ~ "'") }}
{%- endmacro %}

{# A literal of a Jinja value: text, list or mapping, as Snowflake writes them; of BigQuery a text or a list. #}
{% macro vendor_literal(value) -%}
    {%- set members = [] -%}
    {%- if value is mapping -%}
        {%- for name, member in value.items() -%}
            {%- do members.append(dbt_quail.vendor_text(name) ~ ': ' ~ dbt_quail.vendor_literal(member)) -%}
        {%- endfor -%}
        {{ return('{' ~ members | join(', ') ~ '}') }}
    {%- elif value is string -%}
        {{ return(dbt_quail.vendor_text(value)) }}
    {%- endif -%}
    {%- for member in value -%} {%- do members.append(dbt_quail.vendor_literal(member)) -%} {%- endfor -%}
    {{ return('[' ~ members | join(', ') ~ ']') }}
{%- endmacro %}
