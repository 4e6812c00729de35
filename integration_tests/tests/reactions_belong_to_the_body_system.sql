-- The equality beside the AI condition holds for every pair that came out.
select answers.report_id, answers.term_id
from {{ ref('report_reactions') }} as answers
inner join {{ ref('stg_reports') }} as reports on answers.report_id = reports.report_id
inner join {{ ref('stg_reaction_terms') }} as terms on answers.term_id = terms.term_id
where reports.body_system != terms.body_system
