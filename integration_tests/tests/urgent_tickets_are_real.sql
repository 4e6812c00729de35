{{ config(severity='warn') }}

-- A data test may ask, too: it is told of every urgent ticket that only says thank you. Their answers decide, so it warns.
select tickets.ticket_id
from {{ ref('urgent_tickets') }} as tickets
inner join {{ ref('ticket_topics') }} as topics on tickets.ticket_id = topics.ticket_id
where
    topics.topic = 'praise'
    and AI_FILTER('Does the customer only say thank you?', tickets.ticket_text)
