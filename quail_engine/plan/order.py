"""In which order to ask conditions of which all must be TRUE: the least expected cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

_EXHAUSTIVE = 6  # conditions of which every order is tried: 720 orders
TIE = 1.05  # estimates are no more exact: where so little is gained the conditions stay as they come


@dataclass(frozen=True)
class Asked:
    """What it takes to ask one condition of all rows."""

    cost: float  # of one request; the unit is the caller's
    inputs: float  # distinct inputs among the rows


def cheapest(conditions: Sequence[Asked], rows: float, share: Callable[[Sequence[int]], float]) -> tuple[int, ...]:
    """The conditions' numbers in the cheapest order; as they come where none is cheaper.

    `share` tells the share of rows for which all conditions of these numbers are TRUE.

    >>> alone = (0.9, 0.1)
    >>> cheapest([Asked(1, 100), Asked(1, 100)], 100, lambda done: alone[done[0]] if done else 1.0)
    (1, 0)
    """
    numbers = range(len(conditions))
    if len(conditions) <= _EXHAUSTIVE:
        candidates = list(permutations(numbers))
    else:
        by_rank = tuple(sorted(numbers, key=lambda i: _rank(conditions[i], share([i]))))
        candidates = [tuple(numbers), *((first, *(i for i in by_rank if i != first)) for first in by_rank)]
    costs = [expected_cost(order, conditions, rows, share) for order in candidates]
    best = min(range(len(costs)), key=costs.__getitem__)
    return candidates[0] if costs[0] <= costs[best] * TIE else candidates[best]


def expected_cost(
    order: Sequence[int], conditions: Sequence[Asked], rows: float, share: Callable[[Sequence[int]], float]
) -> float:
    """What an order costs, in the unit of `Asked.cost`."""
    return sum(conditions[i].cost * distinct(conditions[i].inputs, rows, share(order[:place])) for place, i in enumerate(order))


def _rank(condition: Asked, selectivity: float) -> float:
    """Cost of dropping all rows at the rate at which this condition drops them."""
    return condition.cost * condition.inputs / max(1e-9, 1 - selectivity)


def distinct(inputs: float, rows: float, share: float) -> float:
    """Distinct inputs expected among a random share of rows (Cardenas)."""
    if inputs <= 0:
        return 0.0
    return float(inputs * (1 - (1 - min(1.0, share)) ** max(1.0, rows / inputs)))
