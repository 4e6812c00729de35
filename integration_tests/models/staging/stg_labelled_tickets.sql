-- What decisions are fitted to. Its texts have the form of stg_tickets, and none of them is there.
select
    concat_ws(chr(10), nullif(trim(subject), ''), nullif(trim(body), '')) as ticket_text,
    topic,
    is_urgent,
    is_angry
from {{ ref('labelled_tickets') }}
