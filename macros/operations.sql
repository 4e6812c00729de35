{# What `dbt run-operation` and the command line do in a project. #}

{# The page of a run: what its nodes cost, and how right the answers are that an ai_accuracy test or the query `gold` judges. #}
{% macro quail_report(to='target/quail_report.html', invocation=none, gold=none) %}
    {%- do adapter.write_report(to, invocation, gold) -%}
{% endmacro %}
