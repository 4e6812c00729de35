{#
    A data test in words: the answer to `question` about the column is yes in every row. Or about `columns`, which stand for {0}, {1}, …

    A row with a NULL among them is not asked and passes. A row that failed or was too long has no answer, and fails.
#}
{% test ai_assert(model, question=none, column_name=none, columns=none, options={}) %}
{%- do quail_need('ai_assert', 'question', question, 'question: Is the tone of this reply polite?') -%}
{%- do quail_need('ai_assert', 'columns', columns or column_name, 'columns: [question, reply], or put the test under a column') -%}
{%- set columns = quail_list(columns or column_name) -%}
select *
from {{ model }}
where
    {% for column in columns -%}
    {{ column }} is not null
    and {% endfor -%}
    ({{ ai_filter(question, *columns, options=options) }}) is not true
{% endtest %}
