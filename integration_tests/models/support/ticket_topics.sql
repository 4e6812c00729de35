select
    ticket_id,
    product_id,
    AI_CLASSIFY(
        ticket_text,
        ['billing', 'delivery', 'product defect', 'account access', 'feature request', 'praise']
    ) as topic
from {{ ref('stg_tickets') }}
