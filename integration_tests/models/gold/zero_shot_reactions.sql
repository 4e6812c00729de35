-- As zero_shot_tickets. Here the call is a column, so that a pair that failed is NULL and not a row that is missing.
-- depends_on: {{ ref('report_reactions') }}
select
    reports.report_id,
    terms.term_id,
    {{ ai_filter(
        'Did the patient of report {0} have the reaction {1} after the medicine?', 'reports.narrative', 'terms.term'
    ) }} as has_reaction
from {{ ref('stg_reports') }} as reports
inner join {{ ref('stg_reaction_terms') }} as terms on reports.body_system = terms.body_system
