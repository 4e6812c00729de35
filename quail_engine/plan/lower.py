"""From what is asked to how: each join becomes a listing of its pairs, one ask, and an answer table."""

from __future__ import annotations

from quail_engine.plan.logical import LogicalPlan
from quail_engine.plan.physical import AnswerTable, Ask, FirstRows, JoinStep, PhysicalPlan, Rounds, RunSql
from quail_engine.sql import pairs_query


def lower(plan: LogicalPlan, table_prefix: str) -> PhysicalPlan:
    """The physical plan. A join's pairs are listed after the joins before it were answered, so they prune it."""
    steps: list[JoinStep] = []
    tables: dict[int, str] = {}
    for number, join in enumerate(plan.joins):
        assert join.anchor is not None, "a join is lowered before its anchor was chosen"
        sql = f"{pairs_query(plan.query, join.space, tables)} ORDER BY a{join.anchor}"
        table = AnswerTable(f"{table_prefix}_{number}", join.call, len(plan.call(join.call).arguments))
        steps.append(JoinStep(RunSql(sql), Ask(join.call, join.anchor), table))
        tables[join.call] = table.name
    levels = 1 + max((plan.call(i).level for i in plan.rest.calls), default=-1)
    first = FirstRows(plan.stop) if plan.stop else None
    return PhysicalPlan(tuple(steps), first, Rounds(plan.rest.calls, levels))
