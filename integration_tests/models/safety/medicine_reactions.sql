select
    medicine,
    term,
    count(*) as reports
from {{ ref('report_reactions') }}
group by medicine, term
order by medicine, reports desc, term
