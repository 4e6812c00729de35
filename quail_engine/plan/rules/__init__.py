"""The planner's rewrites, one a file, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable

from quail_engine.plan.logical import LogicalPlan
from quail_engine.plan.rules.ask_together import ask_together
from quail_engine.plan.rules.choose_anchor import choose_anchor
from quail_engine.plan.rules.filters_before_joins import filters_before_joins
from quail_engine.plan.rules.order_conjuncts import order_conjuncts
from quail_engine.plan.rules.order_disjuncts import order_disjuncts
from quail_engine.plan.rules.order_joins import order_joins
from quail_engine.plan.rules.stay_with_answers import stay_with_answers

RULES: tuple[Callable[[LogicalPlan], LogicalPlan], ...] = (
    filters_before_joins,  # first: it only moves conditions, whatever else is known of them
    order_conjuncts,  # then the order among conditions of the same kind, which keeps the places of the kinds
    order_disjuncts,  # the same inside of these conditions; beside it, as neither looks at what the other orders
    order_joins,  # then all together, by counts and selectivities; where these say nothing, the order above stays
    stay_with_answers,  # after what weighs orders for somebody who begins: another order would ask anew about old rows
    ask_together,  # after the order that it follows: which neighbours in it share the KV of their text
    choose_anchor,  # last: it orders pairs, so everything that adds, drops or moves a join stands before it
)
