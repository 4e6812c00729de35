-- The model is asked about paying customers' tickets only: DuckDB applies the other conditions first.
select
    tickets.ticket_id,
    tickets.opened_at,
    tickets.channel,
    tickets.product_id,
    customers.customer_name,
    customers.plan,
    tickets.ticket_text
from {{ ref('stg_tickets') }} as tickets
inner join {{ ref('stg_customers') }} as customers
    on tickets.customer_id = customers.customer_id
where
    customers.is_paying
    and {{ is_urgent('tickets.ticket_text') }}
