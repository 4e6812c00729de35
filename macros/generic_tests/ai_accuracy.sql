{#
    The share of answers that equal their gold is at least `at_least`; below it the failing rows are the disagreements.

    Judged are the rows of the model that have gold, joined by `key` (one column, or a list). A NULL answer is a wrong one; a NULL gold
    is no gold. No row to judge is a failure, except with --empty. Each failing row carries n, the accuracy and its 95 % interval
    (Wilson's); the same is logged when the test runs, passed or not.
#}
{% test ai_accuracy(model, column_name, gold, key=none, at_least=none, gold_column=none, on=none) %}
{%- do quail_need('ai_accuracy', 'column_name', column_name, 'put the test under the column that holds the answers') -%}
{%- do quail_need('ai_accuracy', 'gold', gold, "gold: ref('gold_tickets')") -%}
{%- set keys = quail_keys('ai_accuracy', key or on) -%}
{%- do quail_need_share('ai_accuracy', 'at_least', at_least) -%}
{%- set judged %}
with answers as (
    select * from {{ model }}
),

gold_rows as (
    select * from {{ gold }}
),

judged as (
    select
        {{ quail_columns('answers', keys) }},
        answers.{{ column_name }} as answer,
        gold_rows.{{ gold_column or column_name }} as gold
    from answers
    inner join gold_rows on {{ quail_same_keys('answers', 'gold_rows', keys) }}
    where gold_rows.{{ gold_column or column_name }} is not null
),

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
