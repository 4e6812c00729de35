{#
    No row is without an answer though it could have been asked: the column is NULL and none of `inputs`, the SQL texts that the call reads,
    is. Such a row failed or was too long for the model.
#}
{% test ai_no_errors(model, column_name, inputs=none) %}
{%- do quail_need('ai_no_errors', 'column_name', column_name, 'put the test under the column that holds the answers') -%}
{%- do quail_need('ai_no_errors', 'inputs', inputs, 'inputs: [ticket_text]') -%}
select *
from {{ model }}
where
    {{ column_name }} is null
    {%- for input in quail_list(inputs) %}
    and {{ input }} is not null
    {%- endfor %}
{% endtest %}
