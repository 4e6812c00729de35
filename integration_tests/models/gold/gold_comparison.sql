-- Every answer beside its gold, with labelled rows and without, also where the answer is missing.
with urgency as (
    select
        'urgent' as task,
        gold.ticket_id as item,
        tickets.ticket_text as text,
        case when answers.ticket_id is null then 'no' else 'yes' end as answer,
        {{ yes_or_no('before.is_urgent') }} as zero_shot,
        {{ yes_or_no('gold.is_urgent') }} as gold,
        gold.is_hard
    from {{ ref('gold_tickets') }} as gold
    inner join {{ ref('stg_tickets') }} as tickets on gold.ticket_id = tickets.ticket_id
    inner join {{ ref('stg_customers') }} as customers on tickets.customer_id = customers.customer_id
    left join {{ ref('urgent_tickets') }} as answers on gold.ticket_id = answers.ticket_id
    left join {{ ref('zero_shot_tickets') }} as before on gold.ticket_id = before.ticket_id
    where customers.is_paying
),

topics as (
    select
        'topic' as task,
        gold.ticket_id as item,
        tickets.ticket_text as text,
        answers.topic as answer,
        before.topic as zero_shot,
        gold.topic as gold,
        gold.is_hard
    from {{ ref('gold_tickets') }} as gold
    inner join {{ ref('stg_tickets') }} as tickets on gold.ticket_id = tickets.ticket_id
    left join {{ ref('ticket_topics') }} as answers on gold.ticket_id = answers.ticket_id
    left join {{ ref('zero_shot_tickets') }} as before on gold.ticket_id = before.ticket_id
),

anger as (
    select
        'angry' as task,
        gold.ticket_id as item,
        tickets.ticket_text as text,
        {{ yes_or_no('answers.anger >= 0.5') }} as answer,
        {{ yes_or_no('before.is_angry') }} as zero_shot,
        {{ yes_or_no('gold.is_angry') }} as gold,
        gold.is_hard
    from {{ ref('gold_tickets') }} as gold
    inner join {{ ref('stg_tickets') }} as tickets on gold.ticket_id = tickets.ticket_id
    left join {{ ref('mail_anger') }} as answers on gold.ticket_id = answers.ticket_id
    left join {{ ref('zero_shot_tickets') }} as before on gold.ticket_id = before.ticket_id
    where tickets.channel = 'email'
),

reactions as (
    select
        'reaction' as task,
        reports.report_id * 100 + terms.term_id as item,
        terms.term || ' in: ' || reports.narrative as text,
        case when answers.term_id is null then 'no' else 'yes' end as answer,
        {{ yes_or_no('before.has_reaction') }} as zero_shot,
        case when gold.term_id is null then 'no' else 'yes' end as gold,
        hard.is_hard
    from {{ ref('stg_reports') }} as reports
    inner join {{ ref('stg_reaction_terms') }} as terms on reports.body_system = terms.body_system
    inner join {{ ref('gold_hard_reports') }} as hard on reports.report_id = hard.report_id
    left join {{ ref('gold_report_terms') }} as gold
        on reports.report_id = gold.report_id and terms.term_id = gold.term_id
    left join {{ ref('report_reactions') }} as answers
        on reports.report_id = answers.report_id and terms.term_id = answers.term_id
    left join {{ ref('zero_shot_reactions') }} as before
        on reports.report_id = before.report_id and terms.term_id = before.term_id
)

select * from urgency
union all
select * from topics
union all
select * from anger
union all
select * from reactions
