"""The rules, applied in order, each checked."""

from __future__ import annotations

from quail_engine.plan.logical import LogicalPlan
from quail_engine.plan.rules import RULES


def optimize(plan: LogicalPlan) -> LogicalPlan:
    """The plan after every rule. A rule may reorder and regroup, but each call is answered exactly once, and the text stays."""
    for rule in RULES:
        plan = check(rule(plan), plan)
    return plan


def check(after: LogicalPlan, before: LogicalPlan) -> LogicalPlan:
    """Asserts that `after` still answers every call once, for the same query."""
    stopped = after.stop.calls if after.stop else ()
    answered = sorted([*(condition.call for condition in after.conditions), *stopped, *after.rest.calls])
    assert after.query == before.query, "a rule changed the query"
    assert answered == list(range(len(after.query.calls))), "a rule lost or repeated a call"
    return after
