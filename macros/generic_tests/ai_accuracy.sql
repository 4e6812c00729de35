{#
    The share of answers that equal their gold is at least `at_least`; below it the failing rows are the disagreements.

    Judged are the rows of the model that have gold, joined by `key` (one column, or a list). A NULL answer is a wrong one; a NULL gold
    is no gold. No row to judge is a failure, except with --empty. Each failing row carries n, the accuracy and its 95 % interval
    (Wilson's); the same is logged when the test runs, passed or not. `text` and `score` are for `quail report` alone: SQL on the
    model's columns of what the rows say, and of the probability that the answer is right (of TRUE, where the answer is BOOLEAN).
#}
{% test ai_accuracy(model, column_name, gold, key=none, at_least=none, gold_column=none, on=none, text=none, score=none) %}
{%- do quail_need('ai_accuracy', 'column_name', column_name, 'put the test under the column that holds the answers') -%}
{%- do quail_need('ai_accuracy', 'gold', gold, "gold: ref('gold_tickets')") -%}
{%- set keys = quail_keys('ai_accuracy', key or on) -%}
{%- do quail_need_share('ai_accuracy', 'at_least', at_least) -%}
{%- set judged %}
{{ quail_judged(model, column_name, gold, keys, gold_column) }},

counted as (
    select
        count(*) as n,
        count(*) filter (where answer = gold) as correct
    from judged
),

measured as (
    select
        n,
        correct,
        correct / nullif(n, 0) as accuracy,
        {{ quail_wilson('correct', 'n') }}
    from counted
)
{% endset -%}
{%- set told -%}
{{ judged }}
select printf('accuracy %.3f (95 %%: %.3f to %.3f), n = %d, at least {{ at_least }} is wanted', accuracy, low, high, n)
from measured where n > 0
{%- endset -%}
{%- do quail_tell('ai_accuracy', column_name, told) -%}
{{ judged }}
select
    {{ quail_columns('judged', keys) }},
    judged.answer,
    judged.gold,
    measured.n,
    measured.accuracy,
    measured.low,
    measured.high
from measured
left join judged on judged.answer is distinct from judged.gold
where {% if not flags.EMPTY %}measured.n = 0 or {% endif %}measured.correct < {{ at_least }} * measured.n
{% endtest %}


{# CTEs up to `judged`: the rows of the model that have gold, by `keys`, with columns answer and gold, and text and score if given. #}
{% macro quail_judged(model, column, gold, keys, gold_column=none, text=none, score=none) -%}
with answers as (
    select
        *
        {%- if text %},
        {{ text }} as quail_text{% endif %}
        {%- if score %},
        {{ score }} as quail_score{% endif %}
    from {{ model }}
),

gold_rows as (
    select * from {{ gold }}
),

judged as (
    select
        {{ quail_columns('answers', keys) }},
        {%- if text %}
        answers.quail_text,{% endif %}
        {%- if score %}
        answers.quail_score,{% endif %}
        answers.{{ column }} as answer,
        gold_rows.{{ gold_column or column }} as gold
    from answers
    inner join gold_rows on {{ quail_same_keys('answers', 'gold_rows', keys) }}
    where gold_rows.{{ gold_column or column }} is not null
)
{%- endmacro %}


{# The rows that a test judges, as `quail report` reads them: its arguments are the test's. #}
{% macro quail_judged_rows(model, column_name, gold, key=none, at_least=none, gold_column=none, on=none, text=none, score=none) %}
{{ quail_judged(model, column_name, gold, quail_keys('ai_accuracy', key or on), gold_column, text, score) }}
select
    {% if text %}quail_text as text,
    {% endif -%}
    {% if score %}quail_score as score,
    {% endif -%}
    answer,
    gold
from judged
{% endmacro %}
