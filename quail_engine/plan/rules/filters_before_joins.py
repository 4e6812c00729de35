"""Conditions on one relation before those on pairs: there are fewer rows than pairs, and each refused row drops all its pairs.

Calls with the option `order: as_written` keep the places that they have in the text.
"""

from __future__ import annotations

from dataclasses import replace

from quail_engine.plan.logical import AiJoin, LogicalPlan


def filters_before_joins(plan: LogicalPlan) -> LogicalPlan:
    if any(plan.call(condition.call).options.order == "as_written" for condition in plan.conditions):
        return plan
    return replace(plan, conditions=tuple(sorted(plan.conditions, key=lambda condition: isinstance(condition, AiJoin))))
