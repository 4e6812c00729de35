"""In which order to ask an abstract statement's conditions: dynamic programming over the sets of those that were asked.

What is left to ask after a set of conditions does not depend on their order, but for the KV that is still there. So a state is
a set, and the KV that the last one leaves; its candidates are what was spent on the way to it. A candidate is dropped only when
another one of its state has spent no more in any way: tokens, pairs, KV written, KV read, forks. Only the candidates that asked
everything are priced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import add, le
from typing import NamedTuple

import numpy as np

from quail_engine.plan.cost import levels
from quail_engine.plan.survival import Condition, Counts, Instance, Survival
from quail_engine.roofline import Work

MOST_CONDITIONS = 60
"""An instance has no more conditions than this."""

_BEAM = 1_000
"""States that are followed after as many conditions: all of them where there are 12 conditions or fewer."""

Price = Callable[[Work], float]

_State = tuple[int, int]
"""Conditions that were asked, as bits, and which KV the last one leaves; -1: none that another one reads."""

_Spent = Sequence[float]
"""A Work's counts."""


@dataclass(frozen=True)
class Ordered:
    order: tuple[int, ...]  # of the conditions
    work: Work
    price: float


class _Candidate(NamedTuple):  # a named tuple: there are thousands
    spent: _Spent
    order: tuple[int, ...]


def cheapest_order(instance: Instance, price: Price, asked: int = 0) -> Ordered:
    """The order with the lowest price; of equal ones that which is nearest to the order as it comes.

    The first `asked` conditions were asked already; they stay where they are, and cost nothing.
    """
    conditions = len(instance.conditions)
    assert conditions <= MOST_CONDITIONS, "too many conditions to number their sets"
    steps = _Steps(instance)
    layer: dict[_State, list[_Candidate]] = {((1 << asked) - 1, -1): [_Candidate(Work().counts, tuple(range(asked)))]}
    for _ in range(conditions - asked):
        after: dict[_State, list[_Candidate]] = {}
        costs = steps.costs(sorted({done for done, _ in layer}))
        for (done, kept), candidates in layer.items():
            for condition in range(conditions):
                if not done >> condition & 1:
                    spent = costs.of(condition, done, kept)
                    state = (done | 1 << condition, steps.leads[condition])
                    known = after.setdefault(state, [])
                    for candidate in candidates:
                        _keep(known, _Candidate(tuple(map(add, candidate.spent, spent)), (*candidate.order, condition)))
        layer = _best(after, price)
    finalists = [candidate for candidates in layer.values() for candidate in candidates]
    priced = [Ordered(c.order, Work(*c.spent), price(Work(*c.spent))) for c in finalists]
    return min(priced, key=lambda found: (found.price, found.order))


def price_of(instance: Instance, order: Iterable[int], price: Price, asked: int = 0) -> Ordered:
    """What a given order costs, without its first `asked` conditions."""
    steps, done, kept, total = _Steps(instance), 0, -1, Work()
    for place, condition in enumerate(order):
        if place >= asked:
            total += Work(*steps.costs([done]).of(condition, done, kept))
            kept = steps.leads[condition]
        done |= 1 << condition
    return Ordered(tuple(order), total, price(total))


def _keep(known: list[_Candidate], new: _Candidate) -> None:
    """Adds a candidate, unless another one dominates it; drops those that it dominates."""
    for other in known:
        if all(map(le, other.spent, new.spent)) and (other.spent != new.spent or other.order <= new.order):
            return
    if known:
        known[:] = [other for other in known if not all(map(le, new.spent, other.spent))]
    known.append(new)


def _best(layer: dict[_State, list[_Candidate]], price: Price) -> dict[_State, list[_Candidate]]:
    """The states that are followed: all, where they are not too many."""
    if len(layer) <= _BEAM:
        return layer
    cheapest = sorted(layer, key=lambda state: min(price(Work(*candidate.spent)) for candidate in layer[state]))
    return {state: layer[state] for state in cheapest[:_BEAM]}


class _Steps:
    """What does not change from set to set: the cost of a condition a text, and which conditions read the same KV."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.works = [[self._levels(condition, resident) for condition in instance.conditions] for resident in (False, True)]
        leading = [condition.leading for condition in instance.conditions]
        self.leads = [-1 if lead is None or leading.count(lead) == 1 else leading.index(lead) for lead in leading]

    def costs(self, asked: Sequence[int]) -> _Costs:
        return _Costs(self, asked)

    def _levels(self, condition: Condition, resident: bool) -> Counts:
        """[kinds of work, texts]."""
        texts = [self.instance.texts[text].length for text in condition.texts]
        works: Counts = np.array([work.counts for work in levels(condition.prompt, texts, resident)]).T
        return works


class _Costs:
    """What each condition costs after each of some sets of others."""

    def __init__(self, steps: _Steps, asked: Sequence[int]) -> None:
        self._steps = steps
        self._places = {mask: place for place, mask in enumerate(asked)}
        survival = Survival(steps.instance, np.array(asked, dtype=np.int64))
        inputs = [survival.inputs(condition) for condition in range(len(steps.instance.conditions))]
        counts = [np.vstack([np.ones_like(found[0]), *found]) for found in inputs]
        resident = (False, True) if max(steps.leads) >= 0 else (False,)
        self._spent: list[list[list[_Spent]]] = [
            [(work @ count).T.tolist() for work, count in zip(steps.works[there], counts, strict=True)] for there in resident
        ]

    def of(self, condition: int, asked: int, kept: int) -> _Spent:
        there = kept >= 0 and kept == self._steps.leads[condition]
        return self._spent[there][condition][self._places[asked]]
