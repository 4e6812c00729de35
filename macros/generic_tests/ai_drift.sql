{#
    The answers are those of `previous`, an earlier or another table with a column of the same name, but for a share of `at_most`.

    With `key` (one column, or a list) the share of keys whose answer changed, among the keys in both; failing rows are the changed ones.
    Without, the distance of the two distributions of labels: the share of rows that would have to change their label (half the sum of the
    differences); failing rows are the labels. NULL is a label like any other. Passes where one of the two tables is empty.
#}
{% test ai_drift(model, column_name, previous=none, key=none, at_most=none, on=none) %}
{%- do quail_need('ai_drift', 'column_name', column_name, 'put the test under the column that holds the answers') -%}
{%- do quail_need('ai_drift', 'previous', previous, "previous: ref('topics_last_month')") -%}
{%- do quail_need_share('ai_drift', 'at_most', at_most) -%}
{%- set compared = quail_drift_of_keys(model, column_name, previous, quail_keys('ai_drift', key or on)) if key or on
    else quail_drift_of_labels(model, column_name, previous) -%}
{%- set told -%}
{{ compared }}
select printf('%.3f changed, n = %d, at most {{ at_most }} is wanted', drift, n) from measured where n > 0
{%- endset -%}
{%- do quail_tell('ai_drift', column_name, told) -%}
{{ compared }}
select
    changed.*,
    measured.n,
    measured.drift
from measured
left join changed on true
where
    measured.drift > {{ at_most }}
    or (measured.n = 0 and exists (select 1 from answers) and exists (select 1 from earlier))
{% endtest %}


{# CTEs `changed`, the keys with another answer, and `measured`, with n keys in both tables and the share that changed. #}
{% macro quail_drift_of_keys(model, column, previous, keys) %}
with answers as (
    select * from {{ model }}
),

earlier as (
    select * from {{ previous }}
),

compared as (
    select
        {{ quail_columns('answers', keys) }},
        earlier.{{ column }} as answer_before,
        answers.{{ column }} as answer_now
    from answers
    inner join earlier on {{ quail_same_keys('answers', 'earlier', keys) }}
),

changed as (
    select * from compared where answer_before is distinct from answer_now
),

measured as (
    select
        count(*) as n,
        count(*) filter (where answer_before is distinct from answer_now) / nullif(count(*), 0) as drift
    from compared
)
{% endmacro %}


{# The same two CTEs for labels: `changed` has the labels with another share, n is the rows now. #}
{% macro quail_drift_of_labels(model, column, previous) %}
with answers as (
    select {{ column }} as label from {{ model }}
),

earlier as (
    select {{ column }} as label from {{ previous }}
),

compared as (
    select
        coalesce(now_shares.label, earlier_shares.label) as label,
        coalesce(earlier_shares.share, 0) as share_before,
        coalesce(now_shares.share, 0) as share_now
    from (select label, count(*) / sum(count(*)) over () as share from answers group by label) as now_shares
    full join (select label, count(*) / sum(count(*)) over () as share from earlier group by label) as earlier_shares
        on now_shares.label is not distinct from earlier_shares.label
),

changed as (
    select * from compared where share_before != share_now
),

measured as (
    select
        (select count(*) from answers) as n,
        (select sum(abs(share_now - share_before)) / 2 from compared) as drift
    where exists (select 1 from answers) and exists (select 1 from earlier)
)
{% endmacro %}
