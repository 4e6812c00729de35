{# What `dbt run-operation` and the command line do in a project. #}

{# The page of a run: what its nodes cost, and how right the answers are that an ai_accuracy test or the query `gold` judges. #}
{% macro quail_report(to='target/quail_report.html', invocation=none, gold=none) %}
    {%- do adapter.write_report(to, invocation, gold) -%}
{% endmacro %}

{# What the selected nodes would ask, before they run. Nothing is asked. `select` and `exclude` are those of `dbt build`. #}
{% macro quail_explain(select=none, exclude=none, json=none, html=none) %}
    {%- do adapter.explain_run(select, exclude, json, html) -%}
{% endmacro %}
