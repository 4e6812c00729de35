select
    ticket_id,
    product_id,
    AI_CLASSIFY(
        ticket_text,
        ['billing', 'delivery', 'product defect', 'account access', 'feature request', 'praise'],
        {'examples': {{ ai_examples(ref('stg_labelled_tickets'), text='ticket_text', label='topic') }}}
    ) as topic
from {{ ref('stg_tickets') }}
