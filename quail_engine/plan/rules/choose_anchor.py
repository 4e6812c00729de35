"""Which side of an AI join is the anchor: the argument that its prompt puts first.

The prompt's text is fixed by template and options, so this only follows it; what it decides is the order of the pairs. All
partners of an anchor then come together, and the anchor's KV is computed once and dropped after its last partner.
"""

from __future__ import annotations

from dataclasses import replace

from quail_engine.plan.logical import AiJoin, LogicalPlan


def choose_anchor(plan: LogicalPlan) -> LogicalPlan:
    conditions = tuple(
        replace(condition, anchor=plan.call(condition.call).question.anchor) if isinstance(condition, AiJoin) else condition
        for condition in plan.conditions
    )
    return replace(plan, conditions=conditions)
