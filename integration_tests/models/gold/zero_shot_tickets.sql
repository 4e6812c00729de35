-- What the model says without labelled rows. They only decide what becomes of its numbers, which are kept: nothing is asked
-- but the topics, where what was fitted to labelled rows reads none of their numbers.
-- depends_on: {{ ref('urgent_tickets') }}, {{ ref('ticket_topics') }}, {{ ref('mail_anger') }}
select
    tickets.ticket_id,
    case when customers.is_paying then {{ ai_filter('Does the customer need an answer today?', 'tickets.ticket_text') }} end as is_urgent,
    AI_CLASSIFY(
        tickets.ticket_text,
        ['billing', 'delivery', 'product defect', 'account access', 'feature request', 'praise']
    ) as topic,
    case when tickets.channel = 'email' then AI_FILTER('Is the customer angry with us?', tickets.ticket_text) end as is_angry
from {{ ref('stg_tickets') }} as tickets
inner join {{ ref('stg_customers') }} as customers on tickets.customer_id = customers.customer_id
