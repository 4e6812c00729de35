-- The equality leaves a few terms a report; they share the report's tokens.
select
    reports.report_id,
    reports.medicine,
    terms.term_id,
    terms.term
from {{ ref('stg_reports') }} as reports
inner join {{ ref('stg_reaction_terms') }} as terms
    on
        reports.body_system = terms.body_system
        and {{ ai_join(
            'Did the patient of report {0} have the reaction {1} after the medicine?',
            'reports.narrative',
            'terms.term',
            {'examples': ai_examples(ref('labelled_reports'), text=['narrative', 'term'], label='has_reaction')}
        ) }}
