"""Filters and AI joins of one FROM clause in the cheapest order: what is asked first leaves fewer inputs to the rest.

A join may come before a filter, where few pairs are left by what asks nothing and most of them are refused. The orders are
compared by the time of a usual model, by what is known of counts and selectivities; where that gains next to nothing, the
conditions stay as they are.

Calls with the option `order: as_written` keep the order of the text. Conditions of an outer join keep theirs, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from quail_engine.plan.cost import Length, PromptParts, Slot
from quail_engine.plan.join_counts import Side, ordered_freely
from quail_engine.plan.join_order import MOST_CONDITIONS, cheapest_order, price_of
from quail_engine.plan.logical import LogicalPlan
from quail_engine.plan.survival import Condition, Instance, Link, Text
from quail_engine.roofline import ASSUMED, ModelShape, Roofline, Work

_BYTES_A_TOKEN = 4
_HEAD_TOKENS, _BETWEEN_TOKENS, _CUE_TOKENS = 20.0, 8.0, 30.0  # of a usual layout, besides the question's own words
_CROSS_PRODUCT = 0.9  # from this share of all pairs on, two relations are not joined by anything that counts
_TIE = 1.05  # estimates are no more exact

# Plans are to be the same on every machine, so the time is that of one model on one machine.
_USUAL = Roofline(ModelShape(layers=24, hidden=896, heads=14, kv_heads=2, head_dim=64, mlp=4864), ASSUMED)
_TOKEN_BUDGET = 2_048


def order_joins(plan: LogicalPlan, asked: int = 0) -> LogicalPlan:
    """The plan with its conditions in the cheapest order; the first `asked` of them are answered, and stay."""
    sides = ordered_freely(plan.query)
    if sides is None or not 2 <= len(plan.conditions) <= MOST_CONDITIONS:
        return plan
    instance = instance_of(plan, sides)
    best = cheapest_order(instance, usual_seconds, asked)
    if price_of(instance, range(len(plan.conditions)), usual_seconds, asked).price <= best.price * _TIE:
        return plan
    return replace(plan, conditions=tuple(plan.conditions[i] for i in best.order))


def usual_seconds(work: Work) -> float:
    """On the usual model and machine."""
    return _USUAL.seconds(work, _TOKEN_BUDGET)


def instance_of(plan: LogicalPlan, sides: Mapping[int, tuple[Side, ...]]) -> Instance:
    """The abstract statement of a plan's conditions, in their order."""
    counts = plan.statistics.joins
    every = list(dict.fromkeys(side for of in sides.values() for side in of))
    relations = list(dict.fromkeys(side.relation for side in every))
    rows = {r: max(counts.of(side).distinct for side in every if side.relation == r) for r in relations}
    texts = tuple(
        Text(relations.index(s.relation), counts.of(s).distinct, Length(counts.of(s).text_bytes / _BYTES_A_TOKEN))
        for s in every
    )
    conditions = []
    for condition in plan.conditions:
        of = sides[condition.call]
        question = _CUE_TOKENS + len(plan.call(condition.call).question.title) / _BYTES_A_TOKEN
        partner = (_BETWEEN_TOKENS, Slot(1)) if len(of) == 2 else ()
        conditions.append(
            Condition(
                prompt=PromptParts((_HEAD_TOKENS, Slot(0), *partner, question)),
                texts=tuple(map(every.index, of)),
                selectivity=plan.statistics.calls[condition.call].selectivity.value,
                pairs=counts.of_pair(*of) if len(of) == 2 else 0.0,
                leading=plan.leading(condition),
            )
        )
    return Instance(tuple(rows[r] for r in relations), texts, tuple(conditions), _links(plan, relations))


def _links(plan: LogicalPlan, relations: list[str]) -> tuple[Link, ...]:
    """Relations that are joined without being asked about: fewer pairs than there could be."""
    counts = plan.statistics.joins
    found: dict[tuple[int, int], Link] = {}
    for (one, other), pairs in counts.pairs.items():
        ends = relations.index(one.relation), relations.index(other.relation)
        if pairs < _CROSS_PRODUCT * counts.of(one).distinct * counts.of(other).distinct:
            found.setdefault((min(ends), max(ends)), Link(*ends, pairs))
    return tuple(found.values())
