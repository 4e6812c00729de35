select
    ticket_id,
    customer_id,
    product_id,
    opened_at,
    channel,
    -- Chats have no subject and some mails no body: one text a ticket, of what there is.
    concat_ws(chr(10), nullif(trim(subject), ''), nullif(trim(body), '')) as ticket_text
from {{ ref('support_tickets') }}
