"""Conditions of one AND one after the other, the cheapest order first: a row that one of them refuses is asked no other.

Where the AND stands over one relation, its look-ups wait for each other. Beside joins the conditions on one relation take the
places that they have among all conditions, in the order of their ranks. Where the query stops at its LIMIT each row is asked
one condition at a time anyway: this is then the order of its questions, until answers speak for another.

Calls with the option `order: as_written` keep the order of the text, and are asked one after the other, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quail_engine.plan.logical import AiFilter, AiJoin, LogicalPlan
from quail_engine.plan.order import Asked, cheapest
from quail_engine.plan.statistics import ConjunctionStatistics
from quail_engine.sql import Order


def order_conjuncts(plan: LogicalPlan) -> LogicalPlan:
    stop, is_free = plan.stop, False
    if stop is not None and len(stop.conjuncts) > 1:
        is_free = not _as_written(plan, stop.conjuncts)
        stop = replace(stop, conjuncts=ordered_conjuncts(plan, stop.conjuncts, plan.statistics.of_order(stop.conjuncts)))
    rest = replace(plan.rest, orders=orders_of(plan, whole=True))
    return replace(plan, conditions=_ordered_filters(plan), stop=stop, stop_is_free=is_free, rest=rest)


def orders_of(plan: LogicalPlan, whole: bool) -> tuple[Order, ...]:
    """The orders of ANDs that are `whole` conditions, or of ORs and ANDs inside of one, whose calls are answered in rounds."""
    free = set(plan.rest.calls)
    return tuple(
        ordered_conjuncts(plan, conjunction.conjuncts, known)
        for conjunction, known in zip(plan.query.conjunctions, plan.statistics.conjunctions, strict=True)
        if conjunction.whole is whole and free.issuperset(i for conjunct in conjunction.conjuncts for i in conjunct.calls)
    )


def ordered_conjuncts(plan: LogicalPlan, order: Order, known: ConjunctionStatistics) -> Order:
    """Conditions of one AND in the order in which they are to be asked; `known` has them in the order in which they come."""
    if _as_written(plan, order):
        return order
    conditions = [asked(plan, conjunct.calls) for conjunct in order]
    rows = known.rows.value if known.rows else max(condition.inputs for condition in conditions)
    return tuple(order[i] for i in cheapest(conditions, rows, known.share))


def _as_written(plan: LogicalPlan, order: Order) -> bool:
    return any(plan.call(i).options.order == "as_written" for conjunct in order for i in conjunct.calls)


def asked(plan: LogicalPlan, calls: Sequence[int]) -> Asked:
    """What it takes to ask a condition that holds these calls; the unit of its cost is a byte."""
    statistics = [plan.statistics.calls[i] for i in calls]
    inputs = max((s.inputs.value for s in statistics if s.inputs), default=1.0)
    return Asked(sum(plan.request_bytes(i) for i in calls), inputs)


def _ordered_filters(plan: LogicalPlan) -> tuple[AiFilter | AiJoin, ...]:
    """The conditions with those that read one and the same relation in the order of their ranks, in each other's places."""
    conditions = list(plan.conditions)
    if any(plan.call(condition.call).options.order == "as_written" for condition in conditions):
        return plan.conditions
    places: dict[object, list[int]] = {}
    for place, condition in enumerate(conditions):
        if isinstance(condition, AiFilter):
            places.setdefault(frozenset(name for names in condition.space.relations for name in names), []).append(place)
    for same in places.values():
        filters = [plan.conditions[place] for place in same]
        known = plan.statistics.of_calls([condition.call for condition in filters])
        each = [asked(plan, [condition.call]) for condition in filters]
        for place, i in zip(same, cheapest(each, max(a.inputs for a in each), known.share), strict=True):
            conditions[place] = filters[i]
    return tuple(conditions)
