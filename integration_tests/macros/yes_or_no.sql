{% macro yes_or_no(condition) %}case when {{ condition }} then 'yes' when not ({{ condition }}) then 'no' end{% endmacro %}
