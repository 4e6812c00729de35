"""What the plan chose between: orders of conditions, with what others than the chosen one are expected to cost.

The figures of the chosen order are those of its forecast. Another order is counted as the planner counts when it chooses: by
the different inputs of each condition, and the share of rows that the conditions before it leave. A request of a condition
costs there what it costs in the forecast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations

import numpy as np

from quail_engine.plan.join_counts import ordered_freely
from quail_engine.plan.join_order import MOST_CONDITIONS, price_of
from quail_engine.plan.logical import LogicalPlan
from quail_engine.plan.order import distinct, expected_cost
from quail_engine.plan.rules.order_conjuncts import asked
from quail_engine.plan.rules.order_joins import instance_of, usual_seconds
from quail_engine.plan.statistics import ConjunctionStatistics, Estimate, Source
from quail_engine.plan.survival import Survival
from quail_engine.plan.tree import Alternative, Choice, Figures, total, weakest
from quail_engine.sql import Order

_EXHAUSTIVE = 4  # conditions of which every order is priced; of more, those that swap two neighbours, and the one as written
_TOLD = 5  # orders that were rejected, beside the one as written
_LETTERS = 40  # of a question

_Places = tuple[int, ...]
"""An order of conditions, by their places in the text."""


@dataclass(frozen=True)
class _Weighed:
    """Conditions whose order is the planner's."""

    calls: tuple[tuple[int, ...], ...]  # of each condition, in the order of the text
    chosen: _Places
    price: Callable[[_Places], float]
    requests: Callable[[_Places], Mapping[int, float]]  # by call, were nothing answered yet


def choices(plan: LogicalPlan, figures: Mapping[int, Figures]) -> tuple[Choice, ...]:
    """The orders of a plan that is forecast to cost `figures`, by call, and the orders that it rejected.

    Calls that ask the same have one and the same `Figures`.
    """
    weighed = [*_conjunct_orders(plan), *_join_orders(plan)]
    found = (_choice(plan, one, figures) for one in weighed if figures.keys() >= {i for calls in one.calls for i in calls})
    return tuple(choice for choice in found if choice.chosen.requests and choice.chosen.requests.value)


def _conjunct_orders(plan: LogicalPlan) -> Iterator[_Weighed]:
    """Of ANDs over one relation. What is asked together with others has no order among them."""
    found = list(zip(plan.query.conjunctions, plan.statistics.conjunctions, strict=True))
    together = {conjunct for step in plan.rest.together for conjunct in step.conditions}
    for order in plan.rest.orders:
        conjuncts, known = next((c.conjuncts, known) for c, known in found if set(c.conjuncts) == set(order))
        if len(order) > 1 and known.rows is not None and together.isdisjoint(order):
            conditions, rows = [asked(plan, conjunct.calls) for conjunct in conjuncts], known.rows.value
            price = partial(expected_cost, conditions=conditions, rows=rows, share=known.share)
            requests = partial(_inputs_in_turn, plan, conjuncts, known)
            chosen = tuple(map(conjuncts.index, order))
            yield _Weighed(tuple(conjunct.calls for conjunct in conjuncts), chosen, price, requests)


def _inputs_in_turn(plan: LogicalPlan, conjuncts: Order, known: ConjunctionStatistics, places: _Places) -> Mapping[int, float]:
    """Of each call of an AND: the different inputs on the rows that the conditions before it leave."""
    assert known.rows is not None, "rows are counted first"
    left: dict[int, float] = {}
    for place, i in enumerate(places):
        for call in conjuncts[i].calls:
            counted = plan.statistics.calls[call].inputs
            left[call] = distinct(counted.value if counted else 0.0, known.rows.value, known.share(places[:place]))
    return left


def _join_orders(plan: LogicalPlan) -> Iterator[_Weighed]:
    """Of filters and AI joins of one FROM clause."""
    sides = ordered_freely(plan.query)
    if sides is None or not plan.statistics.joins.sides or not 2 <= len(plan.conditions) <= MOST_CONDITIONS:
        return
    instance = instance_of(plan, sides)
    planned = [condition.call for condition in plan.conditions]
    written = sorted(planned)
    numbers = [planned.index(call) for call in written]  # of the instance's conditions, by their places in the text

    def price(places: _Places) -> float:
        return price_of(instance, [numbers[i] for i in places], usual_seconds).price

    def requests(places: _Places) -> Mapping[int, float]:
        masks = np.cumsum([0, *(1 << numbers[i] for i in places[:-1])], dtype=np.int64)
        survival = Survival(instance, masks)
        return {written[i]: float(survival.inputs(numbers[i])[-1][place]) for place, i in enumerate(places)}

    yield _Weighed(tuple((call,) for call in written), tuple(map(written.index, planned)), price, requests)


def _choice(plan: LogicalPlan, weighed: _Weighed, figures: Mapping[int, Figures]) -> Choice:
    written = tuple(range(len(weighed.calls)))
    others = [places for places in _candidates(weighed.chosen) if places != weighed.chosen]
    others.sort(key=lambda places: (weighed.price(places), places))
    told = [*others[:_TOLD], *(places for places in others[_TOLD:] if places == written)]
    calls = [i for condition in weighed.calls for i in condition]
    summed = total({id(figures[i]): figures[i] for i in calls}.values())

    def way(places: _Places, requests: Estimate | None, tokens: Estimate | None, seconds: Estimate | None) -> Alternative:
        order = tuple(weighed.calls[i] for i in places)
        words = ", then ".join(" and ".join(_shortened(plan.call(i).question.title) for i in calls) for calls in order)
        return Alternative(words, requests, tokens, seconds, order)

    chosen = way(weighed.chosen, summed.requests, summed.tokens_fresh, summed.seconds)
    rejected = tuple(way(places, *_costs(weighed.requests(places), figures)) for places in told)
    return Choice(chosen, rejected, _why(plan, calls, weighed, others[0]))


def _candidates(chosen: _Places) -> list[_Places]:
    if len(chosen) <= _EXHAUSTIVE:
        return list(permutations(range(len(chosen))))
    swapped = [(*chosen[:i], chosen[i + 1], chosen[i], *chosen[i + 2 :]) for i in range(len(chosen) - 1)]
    return list(dict.fromkeys([*swapped, tuple(range(len(chosen)))]))


def _why(plan: LogicalPlan, calls: Sequence[int], weighed: _Weighed, runner_up: _Places) -> str:
    if any(plan.call(i).options.order == "as_written" for i in calls):
        return "the option order says so"
    if plan.statistics.were_asked(calls):
        return "most of it is answered in this order already"
    if weighed.price(weighed.chosen) > weighed.price(runner_up):
        return "as written, for no other order saves 5 %"
    return "the cheapest by what is known of counts and selectivities"


def _costs(requests: Mapping[int, float], figures: Mapping[int, Figures]) -> tuple[Estimate | None, ...]:
    """Requests, tokens and seconds: a request, and the share of inputs that must be asked, are as in the forecast."""
    asked_, tokens, seconds = 0.0, [], []
    known: list[Estimate | None] = []
    for call, inputs in requests.items():
        of = figures[call]
        forecast, recalled = (figure.value if figure else 0.0 for figure in (of.requests, of.recalled))
        needed = inputs * (forecast / (forecast + recalled) if forecast + recalled else 1.0)
        asked_ += needed
        times = needed / forecast if forecast else None
        tokens.append(_scaled(of.tokens_fresh, times) if needed else 0.0)
        seconds.append(_scaled(of.seconds, times) if needed else 0.0)
        known += [of.requests, of.true, of.tokens_fresh]
    source = weakest(Source.CALCULATED, *(figure.source for figure in known if figure))
    timed = weakest(source, *(figure.source for call in requests if (figure := figures[call].seconds)))
    return Estimate(round(asked_), source), _summed(tokens, source, round), _summed(seconds, timed, float)


def _scaled(figure: Estimate | None, times: float | None) -> float | None:
    return None if figure is None or times is None else figure.value * times


def _summed(values: Sequence[float | None], source: Source, whole: Callable[[float], float]) -> Estimate | None:
    known = [value for value in values if value is not None]
    return Estimate(whole(sum(known)), source) if len(known) == len(values) else None


def _shortened(question: str) -> str:
    line = " ".join(question.split())
    return f"'{line if len(line) <= _LETTERS else line[: _LETTERS - 1] + '…'}'"
