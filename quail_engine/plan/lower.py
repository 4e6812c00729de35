"""From what is asked to how: each condition becomes a listing of its inputs, one ask, and an answer table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

from quail_engine.plan.logical import AiFilter, AiJoin, LogicalPlan
from quail_engine.plan.physical import AnswerTable, Ask, AskStep, Believed, FirstRows, PhysicalPlan, Rounds, RunSql
from quail_engine.plan.together import Link
from quail_engine.sql import Passes, RowLimit, pairs_query


def lower(plan: LogicalPlan, table_prefix: str) -> PhysicalPlan:
    """The physical plan. A condition's inputs are listed after the conditions before it were answered, so they prune it."""
    steps: list[AskStep] = []
    tables: dict[int, str] = {}
    for number, condition in enumerate(plan.conditions):
        anchor = condition.anchor if isinstance(condition, AiJoin) else None
        order = "" if anchor is None else f" ORDER BY a{anchor}"
        source = RunSql(pairs_query(plan.query, condition.space, tables) + order)
        table = AnswerTable(f"{table_prefix}_{number}", condition.call)
        links = tuple(_links(plan, plan.conditions[number:]))
        on_kv = number > 0 and _on_kv(plan.conditions[number - 1], condition)
        steps.append(AskStep(source, Ask(condition.call, anchor), table, () if on_kv else links, on_kv))
        tables[condition.call] = table.name
    steps = [_leading(plan, steps, number) for number in range(len(steps))]
    levels = 1 + max((plan.call(i).level for i in plan.rest.calls), default=-1)
    first = FirstRows(plan.stop, _believed(plan, plan.stop) if plan.stop_is_free else ()) if plan.stop else None
    rounds = Rounds(plan.rest.calls, levels, plan.rest.orders, plan.rest.together, plan.statistics.sampled(plan.query))
    return PhysicalPlan(tuple(steps), first, rounds)


def _on_kv(before: AiFilter | AiJoin, condition: AiFilter | AiJoin) -> bool:
    return before.call in condition.same_text


def _leading(plan: LogicalPlan, steps: Sequence[AskStep], number: int) -> AskStep:
    """A step with those that are asked behind it. Filters alone need nothing but links: their inputs are the same texts."""
    behind = tuple(takewhile(lambda step: step.on_kv, steps[number + 1 :]))
    joins = [isinstance(condition, AiJoin) for condition in plan.conditions[number : number + 1 + len(behind)]]
    return replace(steps[number], behind=behind) if any(joins) and not steps[number].on_kv else steps[number]


def _links(plan: LogicalPlan, conditions: Sequence[AiFilter | AiJoin]) -> Iterator[Link]:
    """What is asked with the first of some conditions, each where the one before it is TRUE."""
    share = 1.0
    for before, condition in pairwise(conditions):
        if not _on_kv(before, condition) or isinstance(before, AiJoin) or isinstance(condition, AiJoin):
            return
        share *= plan.statistics.calls[before.call].selectivity.value
        yield Link(before.call, False, Passes.TRUE, (condition.call,), share)


def _believed(plan: LogicalPlan, stop: RowLimit) -> tuple[Believed, ...]:
    selectivities = plan.statistics.of_order(stop.conjuncts).selectivities
    sizes = (sum(plan.request_bytes(i) for i in conjunct.calls) for conjunct in stop.conjuncts)
    return tuple(map(Believed, selectivities, sizes))
