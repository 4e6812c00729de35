-- 1 filter_in_where: 3 answers [(1,), (6,)]
select id from {{ ref('tickets') }}
where region <> 'south' and AI_FILTER(PROMPT('Does it say \'broken\'? {0}', body))
-- 2 filter_as_a_column: 5 answers [(1, True), (2, False), (3, False), (4, None), (5, False), (6, True)]
select id, AI_FILTER('Does it say ''broken''?', body) as is_broken from {{ ref('tickets') }}
-- 3 label_by_path: 5 answers [(1, 'kettle'), (2, 'kettle'), (3, 'billing'), (4, None), (5, 'toaster'), (6, 'toaster')]
select id, AI_CLASSIFY(body, ['kettle', 'toaster', 'billing'], {'task_description': 'what is it about?'}):labels[0]::VARCHAR as topic
from {{ ref('tickets') }}
-- 4 labels_as_an_object: 5 answers [(1, 1), (2, 2), (3, 1), (4, None), (5, 0), (6, 1)]
with answered as (
    select id, AI_CLASSIFY(body, ['broken', 'billing', 'kettle leaks', 'question'], {'output_mode': 'multi'}) as answer
    from {{ ref('tickets') }}
)
select id, array_size(answer:labels) - iff(id = 1, 1, 0) as n from answered
-- 5 flattened_labels: 5 answers [('billing', 2), ('broken', 2), ('kettle', 2), ('toaster', 2)]
select f.value::string as label, count(*) as n
from {{ ref('tickets') }} t,
lateral flatten(input => AI_CLASSIFY(t.body, ['kettle', 'toaster', 'billing', 'broken'], {'output_mode': 'multi'}):labels) f
group by 1
-- 6 flatten_outer: 0 answers [(1, 'a'), (1, 'b'), (2, None)]
select v.id, f.value::varchar as tag
from (select 1 as id, parse_json('["a", "b"]') as tags union all select 2, null) v, lateral flatten(input => v.tags, outer => true) f
-- 7 first_by_region: 3 answers [(1, True), (3, False), (6, True)]
select id, AI_FILTER(PROMPT('First: does it say \'broken\'? {0}', body)) as is_broken
from {{ ref('tickets') }}
qualify row_number() over (partition by region order by created_at) = 1
-- 8 joined_by_meaning: 15 answers [(1, 'shiny kettle'), (2, 'shiny kettle'), (5, 'red toaster'), (6, 'red toaster')]
select t.id, p.name
from {{ ref('tickets') }} t
join {{ ref('products') }} p on AI_FILTER(PROMPT('{0} shares {1}', t.body, p.name))
-- 9 joined_in_a_region: 1 answers [(1, 2)]
select a.id, b.id as other
from {{ ref('tickets') }} a
join {{ ref('tickets') }} b
  on a.region = b.region and a.id < b.id and AI_FILTER(PROMPT('{0} shares {1}', a.body, b.body)) and a.customer_id = b.customer_id
where a.region = 'north'
-- 10 counted_by_answer: 5 answers [(False, 3), (True, 2), (None, 1)]
select AI_FILTER(PROMPT('Is {0} \'toaster\'?', body)) as is_toaster, count(*) as n from {{ ref('tickets') }} group by 1
-- 11 case_asks_only_its_branch: 2 answers [(1, 'n'), (2, 'n'), (3, 'billing'), (4, None), (5, 'other'), (6, 'n')]
select id, case when region <> 'south' then 'n'
    when body is not null then iff(AI_FILTER(PROMPT('Case: \'billing\'? {0}', body)), 'billing', 'other') end as kind
from {{ ref('tickets') }}
-- 12 chain_of_ctes: 5 answers [('c1', 1), ('c3', 1)]
with broken as (
    select * from {{ ref('tickets') }} where AI_FILTER('Chain: is it ''broken''?', body)
), per_customer as (
    select customer_id, count(*) as n from broken group by customer_id
)
select customer_id, n from per_customer where n > 0
-- 13 shares_over_a_window: 5 answers [(1, 1), (2, 1), (3, 0), (4, 0), (5, 0), (6, 1)]
select id, sum(iff(AI_FILTER($$Window: is it "broken"? $$ || body), 1, 0)) over (partition by region) as broken_in_region
from {{ ref('tickets') }}
-- 14 old_classify_text: 5 answers [(1, 'kettle'), (2, 'kettle'), (3, 'billing'), (4, None), (5, 'toaster'), (6, 'toaster')]
select id, SNOWFLAKE.CORTEX.CLASSIFY_TEXT(body, ['kettle', 'toaster', 'billing']):label::string as topic from {{ ref('tickets') }}
-- 15 sentiment: 4 answers [('angry and negative', 'negative', 2), ('so positive', 'positive', 2), ('nothing', None, None)]
select said, AI_SENTIMENT(text, ['price']):categories[0]:sentiment::varchar as overall,
    array_size(AI_SENTIMENT(text, ['price']):categories) as n
from (select column1 as said, nullif(column1, 'nothing') as text from values ('angry and negative'), ('so positive'), ('nothing'))
-- 16 details: 1 answers [(4, None, True), (5, False, None)]
with answered as (
    select id, AI_FILTER(PROMPT('Details: \'broken\'? {0}', body), return_error_details => true) as answer from {{ ref('tickets') }}
)
select id, answer:value::boolean as is_broken, answer:error::varchar like '%NULL%' as has_error
from answered where id in (4, 5)
-- 17 exists_in_tickets: 3 answers [('desk lamp', False), ('red toaster', False), ('shiny kettle', True)]
select p.name, exists (
    select 1 from {{ ref('tickets') }} t where t.id = 1 and AI_FILTER(PROMPT('{0} shares {1}', t.body, p.name))
) as has_ticket
from {{ ref('products') }} p
-- 18 descriptions_and_examples: 5 answers [('billing', 1), ('kettle', 2), ('toaster', 2), (None, 1)]
select AI_CLASSIFY(
    PROMPT('What is this about? {0}', body),
    [{'label': 'kettle', 'description': 'a thing that boils'}, {'label': 'toaster'}, {'label': 'billing', 'description': 'money'}],
    {'examples': [{'input': 'it boils', 'labels': ['kettle'], 'explanation': 'a kettle boils'}]}
):labels[0]::text as topic, count(*) as n
from {{ ref('tickets') }} group by all
-- 19 the_worst_two: 2 answers [(1, True), (2, False)]
select id, AI_FILTER(PROMPT('Worst: \'broken\'? {0}', body)) as is_broken
from {{ ref('tickets') }} where body is not null order by created_at limit 2
-- 20 grows: 3 answers [(1, True), (2, False), (3, False), (4, None)]
{{ config(materialized='incremental', unique_key='id') }}
select id, AI_FILTER('Grows: is it ''broken''?', body) as is_broken
from {{ ref('tickets') }}
where id <= {{ var('upto', 4) }}
{% if is_incremental() %} and id > (select max(id) from {{ this }}) {% endif %}
