"""Orders of conditions are the best there are: every order is executed and counted, without the cost model."""

from __future__ import annotations

import itertools
import os
import random

import pytest
from instances import Execution, statements

from quail_engine.plan import join_order
from quail_engine.plan.cost import Length, PromptParts, Slot
from quail_engine.plan.join_order import cheapest_order, price_of
from quail_engine.plan.survival import Condition, Instance, Link, Text
from quail_engine.roofline import Work

INSTANCES = int(os.environ.get("QUAIL_JOIN_ORDERS", "50"))
SEED = 20261130


def tokens(work: Work) -> float:
    return work.tokens


@pytest.mark.parametrize("keeps_kv", [False, True], ids=["kv dropped", "kv kept"])
def test_with_true_selectivities_the_order_is_the_best(keeps_kv: bool) -> None:
    for number, statement in enumerate(statements(INSTANCES, SEED, True, keeps_kv)):
        instance, execution = statement.instance(), Execution(statement)
        counted = dict(execution.every_order())
        found = cheapest_order(instance, tokens)
        assert counted[found.order] == min(counted.values()), f"statement {number}: {found.order}"
        assert found.work.tokens == pytest.approx(counted[found.order])
        other = random.Random(number).choice(list(counted))
        assert price_of(instance, other, tokens).work.tokens == pytest.approx(counted[other])


def test_with_sampled_selectivities_it_is_near_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    draw, ratios = random.Random(SEED), []
    for number, statement in enumerate(statements(INSTANCES, SEED + 1, False, False)):
        order = cheapest_order(statement.instance(statement.sampled(draw, 64)), tokens).order
        counted = dict(Execution(statement).every_order())
        ratios.append((counted[order] / min(counted.values()), number, order))
    ratios.sort(reverse=True)
    mean = sum(ratio for ratio, _, _ in ratios) / len(ratios)
    with capsys.disabled():
        worst = ", ".join(f"{ratio:.3f} (statement {number})" for ratio, number, _ in ratios[:5])
        print(f"\nsampled selectivities, {len(ratios)} statements: {mean:.4f} times the fewest tokens; worst {worst}")  # noqa: T201
    assert mean <= 1.10


def chain(joins: int, keeps_kv: bool) -> Instance:
    rows = tuple(100.0 + 37 * i for i in range(joins + 1))
    pair = PromptParts((12.0, Slot(0), 4.0, Slot(1), 25.0))
    conditions = tuple(
        Condition(pair, (i, i + 1), 0.1 + 0.05 * (i % 7), 5 * rows[i], leading=i // 2 if keeps_kv else None)
        for i in range(joins)
    )
    return Instance(rows, tuple(Text(i, r, Length(20.0 + 11 * (i % 5))) for i, r in enumerate(rows)), conditions)


@pytest.mark.parametrize("keeps_kv", [False, True])
def test_twelve_joins_are_planned_while_one_waits(keeps_kv: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    instance, candidates = chain(12, keeps_kv), itertools.count()
    keep = join_order._keep
    monkeypatch.setattr(join_order, "_keep", lambda *given: (next(candidates), keep(*given)))
    found = cheapest_order(instance, tokens)
    assert next(candidates) < 100_000, "about 3 microseconds each"
    assert found.price <= price_of(instance, range(12), tokens).price


def test_many_conditions_are_ordered_too() -> None:
    instance = chain(15, False)
    found = cheapest_order(instance, tokens)
    assert sorted(found.order) == list(range(15))
    assert found.price <= price_of(instance, range(15), tokens).price


def filters(*selectivities: float) -> Instance:
    conditions = tuple(Condition(PromptParts((5.0, Slot(0), 10.0)), (0,), share) for share in selectivities)
    return Instance((100.0,), (Text(0, 100, Length(30)),), conditions)


def test_of_equal_orders_that_of_the_text_is_taken() -> None:
    assert cheapest_order(filters(0.5, 0.5, 0.5), tokens).order == (0, 1, 2)
    assert cheapest_order(filters(0.5, 0.1, 0.9), tokens).order == (1, 0, 2)


def test_a_filter_on_a_dimension_comes_before_one_on_the_facts_that_it_drops() -> None:
    """Facts whose dimension row is refused are not asked: the filter on 20 rows saves most of the 1,000."""
    judge = PromptParts((5.0, Slot(0), 10.0))
    texts = (Text(0, 1000, Length(50)), Text(1, 20, Length(50)))
    facts, dimension = Condition(judge, (0,), 0.5), Condition(judge, (1,), 0.1)
    linked = Instance((1000.0, 20.0), texts, (facts, dimension), (Link(0, 1, 1000.0),))
    found = cheapest_order(linked, tokens)
    assert found.order == (1, 0)
    assert found.work.tokens == pytest.approx(5 + 20 * 60 + 5 + 100 * 60)


def test_kv_is_read_by_what_comes_right_behind() -> None:
    judge = PromptParts((5.0, Slot(0), 10.0))
    first, second, other = (Condition(judge, (text,), 0.5, leading=text) for text in (0, 0, 1))
    instance = Instance((100.0, 100.0), (Text(0, 100, Length(50)), Text(1, 100, Length(50))), (first, other, second))
    assert cheapest_order(instance, tokens).order == (0, 2, 1)
    kept, apart = (price_of(instance, order, tokens).work.tokens for order in ((0, 2, 1), (0, 1, 2)))
    assert kept == 5 + 100 * 60 + 50 * 10 + 5 + 100 * 60
    assert apart == kept + 5 + 50 * 50
    assert price_of(instance, (0, 2, 1), tokens, asked=1).work.tokens == 5 + 50 * 60 + 5 + 100 * 60, "it is dropped by then"


def test_the_dominated_are_dropped_and_the_rest_is_priced() -> None:
    """Whatever the price counts, the order is the best for it: no candidate that matters was dropped before it was priced."""
    for statement in statements(5, SEED + 2, False, True):
        instance = statement.instance()
        orders = [order for order, _ in Execution(statement).every_order()]
        for price in (tokens, lambda work: work.pairs, lambda work: work.kv_read + work.kv_written, _mixed):
            best = min(price_of(instance, order, price).price for order in orders)
            assert cheapest_order(instance, price).price == pytest.approx(best)


def _mixed(work: Work) -> float:
    return max(work.tokens, work.pairs / 40) + work.kv_read / 3
