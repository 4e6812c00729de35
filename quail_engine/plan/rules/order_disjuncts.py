"""Conditions of one OR one after the other, the cheapest order first: a row that one of them decides is asked no other.

The condition comes first that costs least for each row that it decides: TRUE decides an OR. The same for an AND inside an
expression, such as `cheap OR (AI_FILTER(a) AND AI_FILTER(b))`, which FALSE decides. NULL decides neither. Of a query that stops
at its LIMIT these are the next questions of a row, where one condition holds several.

Calls with the option `order: as_written` keep the order of the text, and are asked one after the other, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from quail_engine.plan.logical import LogicalPlan
from quail_engine.plan.rules.order_conjuncts import ordered_conjuncts, orders_of
from quail_engine.sql import Conjunct


def order_disjuncts(plan: LogicalPlan) -> LogicalPlan:
    rest = replace(plan.rest, orders=plan.rest.orders + orders_of(plan, whole=False))
    stop = plan.stop
    if stop is not None:
        conjuncts = (replace(conjunct, calls=tuple(_in_order(plan, conjunct))) for conjunct in stop.conjuncts)
        stop = replace(stop, conjuncts=tuple(conjuncts))
    return replace(plan, stop=stop, rest=rest)


def _in_order(plan: LogicalPlan, conjunct: Conjunct) -> Iterator[int]:
    """The calls of a condition in the order in which they are best asked about one row."""
    if not conjunct.operands:
        yield from conjunct.calls
        return
    known = plan.statistics.of_order(conjunct.operands)
    for operand in ordered_conjuncts(plan, conjunct.operands, known):
        yield from _in_order(plan, operand)
