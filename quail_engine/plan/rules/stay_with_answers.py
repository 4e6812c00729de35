"""Conditions in the order in which they were asked before, where the answers are still there.

A condition that came first was asked about all its inputs, the next ones about fewer; so the shares of inputs that are answered
tell that order. Another one might be cheaper for somebody who begins, but would ask anew about old rows. So a run over the same
rows, whatever the last one taught of selectivities, asks nothing, and one over a few more asks about these.

Calls with the option `order: as_written` keep the order of the text.
"""

from __future__ import annotations

from dataclasses import replace

from quail_engine.plan.logical import LogicalPlan


def stay_with_answers(plan: LogicalPlan) -> LogicalPlan:
    statistics = plan.statistics
    orders = tuple(
        tuple(sorted(order, key=lambda conjunct: -min(statistics.calls[i].answered_share for i in conjunct.calls)))
        if statistics.were_asked(calls := [i for conjunct in order for i in conjunct.calls]) and _is_free(plan, calls)
        else order
        for order in plan.rest.orders
    )
    conditions, calls = plan.conditions, [condition.call for condition in plan.conditions]
    if statistics.were_asked(calls) and _is_free(plan, calls):
        conditions = tuple(sorted(conditions, key=lambda condition: -statistics.calls[condition.call].answered_share))
    return replace(plan, conditions=conditions, rest=replace(plan.rest, orders=orders))


def _is_free(plan: LogicalPlan, calls: list[int]) -> bool:
    return all(plan.call(i).options.order is None for i in calls)
