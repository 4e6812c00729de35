select
    term_id,
    body_system,
    term
from {{ ref('reaction_terms') }}
