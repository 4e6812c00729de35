{{ config(materialized='incremental', unique_key='ticket_id') }}

-- Mails, as they come in: a later run asks about the new ones only.
select
    ticket_id,
    opened_at,
    AI_SCORE(
        PROMPT('Is the customer angry with us? {0}', ticket_text),
        {'examples': {{ ai_examples(ref('stg_labelled_tickets'), text='ticket_text', label='is_angry') }}}
    ) as anger
from {{ ref('stg_tickets') }}
where
    channel = 'email'
    {% if is_incremental() %}
    and opened_at > (select max(opened_at) from {{ this }})
    {% endif %}
