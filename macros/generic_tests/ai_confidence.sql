{#
    At least `share` of the answers are given with a confidence of `at_least` or more; below it the failing rows are the unsure ones.

    Under a column, of AI_SCORE or AI_CLASSIFY_SCORES; or with `call`, the SQL of such a call on the model's columns. The confidence of a
    score p is the larger of p and 1 - p; that of scores is the largest one. NULL has no confidence and is not counted.
#}
{% test ai_confidence(model, column_name=none, call=none, at_least=none, share=none) %}
{%- do quail_need('ai_confidence', 'call', column_name or call, "call: AI_SCORE('Is it urgent?', body), or put the test under a column") -%}
{%- do quail_need_share('ai_confidence', 'at_least', at_least) -%}
{%- do quail_need_share('ai_confidence', 'share', share) -%}
with answers as (
    select
        *,
        {{ call or column_name }} as ai_answer
    from {{ model }}
),

sure as (
    select
        *,
        -- Through JSON, because the same text has to bind for a number and for a map.
        coalesce(
            list_max(map_values(try_cast(to_json(ai_answer) as map(varchar, double)))),
            greatest(try_cast(to_json(ai_answer) as double), 1 - try_cast(to_json(ai_answer) as double))
        ) as ai_confidence
    from answers
    where ai_answer is not null
),

counted as (
    select
        count(*) as n,
        count(*) filter (where ai_confidence >= {{ at_least }}) as confident
    from sure
)

select
    sure.*,
    counted.confident / counted.n as confident_share
from counted
inner join sure on sure.ai_confidence < {{ at_least }}
where counted.confident < {{ share }} * counted.n
{% endtest %}
