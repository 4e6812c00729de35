-- Nothing is asked here: an AI column is a column.
select
    products.product_name,
    count(*) as tickets,
    count(*) filter (where topics.topic = 'product defect') as defects,
    count(*) filter (where topics.topic = 'praise') as praise
from {{ ref('ticket_topics') }} as topics
inner join {{ ref('stg_products') }} as products on topics.product_id = products.product_id
group by products.product_name
order by defects desc, tickets desc, products.product_name
