select
    customer_id,
    customer_name,
    country,
    plan,
    plan in ('plus', 'business') as is_paying
from {{ ref('customers') }}
