{{ config(materialized='external', location='target/urgent_tickets.parquet') }}

-- A file for the rota tool. It asks what urgent_tickets asks, of some of the same texts, so every answer is known already.
-- depends_on: {{ ref('urgent_tickets') }}
select
    tickets.ticket_id,
    tickets.opened_at,
    customers.customer_name,
    products.product_name
from {{ ref('stg_tickets') }} as tickets
inner join {{ ref('stg_customers') }} as customers on tickets.customer_id = customers.customer_id
inner join {{ ref('stg_products') }} as products on tickets.product_id = products.product_id
where
    customers.plan = 'business'
    and {{ is_urgent('tickets.ticket_text') }}
