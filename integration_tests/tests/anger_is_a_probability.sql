select ticket_id, anger
from {{ ref('mail_anger') }}
where not anger between 0 and 1
