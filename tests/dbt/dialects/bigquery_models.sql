-- 1 filter_in_where: 3 answers [(1,), (6,)]
select id from {{ ref('tickets') }} where region != 'south' and AI.IF(('Does it say "broken"? ', body))
-- 2 filter_as_a_column: 5 answers [(1, True), (2, False), (3, False), (4, None), (5, False), (6, True)]
select id, AI.IF(prompt => ("Does it say 'broken'? ", body), connection_id => 'p.us.c') as is_broken from {{ ref('tickets') }}
-- 3 label: 5 answers [(1, 'kettle'), (2, 'kettle'), (3, 'billing'), (4, None), (5, 'toaster'), (6, 'toaster')]
select id, AI.CLASSIFY(body, categories => ['kettle', 'toaster', 'billing'], endpoint => 'gemini') as topic from {{ ref('tickets') }}
-- 4 labels_in_a_list: 5 answers [(1, 2), (2, 2), (3, 1), (4, None), (5, 1), (6, 2)]
select id, array_length(AI.CLASSIFY(body, ['kettle', 'toaster', 'billing', 'broken'], output_mode => 'multi')) as n
from {{ ref('tickets') }}
-- 5 unnested_labels: 5 answers [('billing', 2), ('broken', 2), ('kettle', 2), ('toaster', 2)]
select label, count(*) as n
from {{ ref('tickets') }}, unnest(AI.CLASSIFY(body, ['kettle', 'toaster', 'billing', 'broken'], output_mode => 'multi')) as label
group by label
-- 6 offsets: 0 answers [('a', 0), ('b', 1)]
select letter, place from unnest(['a', 'b']) as letter with offset as place
-- 7 first_by_region: 3 answers [(1, True), (3, False), (6, True)]
select id, AI.IF(("First: does it say 'broken'? ", body)) as is_broken
from {{ ref('tickets') }}
qualify row_number() over (partition by region order by created_at) = 1
-- 8 joined_by_meaning: 15 answers [(1, 'shiny kettle'), (2, 'shiny kettle'), (5, 'red toaster'), (6, 'red toaster')]
select t.id, p.name
from {{ ref('tickets') }} as t
join {{ ref('products') }} as p on AI.IF((t.body, ' shares ', p.name))
-- 9 joined_in_a_region: 1 answers [(1, 2)]
select a.id, b.id as other
from {{ ref('tickets') }} a join {{ ref('tickets') }} b on a.region = b.region and a.id < b.id
where a.region = 'north' and AI.IF((a.body, ' shares ', b.body))
-- 10 counted_by_label: 5 answers [(False, 3), (None, 1), (True, 2)]
select AI.CLASSIFY(body, categories => [('broken', 'it does not work'), ('billing', 'money'), ('praise', 'joy')]) = 'broken' as is_broken,
    count(*) as n
from {{ ref('tickets') }} group by is_broken
-- 11 case_asks_only_its_branch: 2 answers [(1, 'n'), (2, 'n'), (3, 'billing'), (4, None), (5, 'other'), (6, 'n')]
select id, case when region != 'south' then 'n'
    when body is not null then if(AI.IF(("Case: 'billing'? ", body)), 'billing', 'other') end as kind
from {{ ref('tickets') }}
-- 12 chain_of_ctes: 5 answers [('c1', 1), ('c3', 1)]
with broken as (
    select * except (region) from {{ ref('tickets') }} where AI.IF(CONCAT("Chain: is it 'broken'? ", body))
), per_customer as (
    select customer_id, count(*) as n from broken group by customer_id
)
select customer_id, n from per_customer where n > 0
-- 13 counted_over_a_window: 5 answers [(1, 1), (2, 1), (3, 0), (4, 0), (5, 0), (6, 1)]
select id, countif(AI.IF(FORMAT("""Window: is it "broken"? %s""", body))) over (partition by region) as broken_in_region
from {{ ref('tickets') }}
-- 14 a_share: 5 answers [(0.3333,)]
select round(sum(case when AI.IF(("Share: 'broken'? ", body)) then 1 else 0 end) / count(*), 4) as share from {{ ref('tickets') }}
-- 15 the_best_two: 5 answers [(1, 0.95), (6, 0.95)]
select id, round(AI.SCORE(("How 'broken' is it? ", body)), 2) as score from {{ ref('tickets') }}
order by AI.SCORE(("How 'broken' is it? ", body)) desc, id limit 2
-- 16 in_mode_single: 1 answers [(1, 'kettle', 1), (4, None, None)]
with answered as (
    select id, AI.CLASSIFY(body, ['kettle', 'toaster', 'billing'], output_mode => 'single') as labels from {{ ref('tickets') }}
)
select id, labels[safe_offset(0)] as topic, array_length(labels) as n from answered where id in (1, 4)
-- 17 exists_in_tickets: 3 answers [('desk lamp', False), ('red toaster', False), ('shiny kettle', True)]
select p.name, exists (select 1 from {{ ref('tickets') }} t where t.id = 1 and AI.IF((t.body, ' shares ', p.name))) as has_ticket
from {{ ref('products') }} p
-- 18 examples: 5 answers [(1, True), (6, True)]
select id, AI.IF((r"Examples: is it 'broken'? ", body), examples => [('it works', false), ('it leaks', true)], max_error_ratio => 0.5) as b
from {{ ref('tickets') }} where SAFE.AI.IF((r"Examples: is it 'broken'? ", body), examples => [('it works', false), ('it leaks', true)])
-- 19 the_first_two: 2 answers [(1, True), (2, False)]
select id, AI.IF(("Worst: 'broken'? ", body)) as is_broken
from {{ ref('tickets') }} where body is not null order by created_at limit 2
-- 20 grows: 3 answers [(1, True), (2, False), (3, False), (4, None)]
{{ config(materialized='incremental', unique_key='id') }}
select id, AI.IF(("Grows: is it 'broken'? ", body)) as is_broken
from {{ ref('tickets') }}
where id <= {{ var('upto', 4) }}
{% if is_incremental() %} and id > (select max(id) from {{ this }}) {% endif %}
