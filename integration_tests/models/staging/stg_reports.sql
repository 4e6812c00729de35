select
    report_id,
    reported_on,
    medicine,
    age,
    sex,
    body_system,
    narrative
from {{ ref('event_reports') }}
