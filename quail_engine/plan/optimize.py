"""The rules, applied in order, each checked."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from quail_engine.errors import SettingsError
from quail_engine.plan.logical import LogicalPlan
from quail_engine.plan.rules import RULES


def optimize(plan: LogicalPlan, disabled: Collection[str] = ()) -> LogicalPlan:
    """The plan after every rule that is not `disabled` by its name.

    A rule may reorder and regroup, but each call is answered exactly once, and the text stays.
    """
    for rule in RULES:
        plan = plan if rule.__name__ in disabled else check(rule(plan), plan)
    return plan


def check_names(disabled: Iterable[str]) -> None:
    """Raises SettingsError for a name that no rule has."""
    known = [rule.__name__ for rule in RULES]
    for name in disabled:
        if name not in known:
            raise SettingsError(f"disable_rules names {name!r}, which is no rule of the planner. Rules: {', '.join(known)}.")


def check(after: LogicalPlan, before: LogicalPlan) -> LogicalPlan:
    """Asserts that `after` still answers every call once, for the same query."""
    stopped = after.stop.calls if after.stop else ()
    answered = sorted([*(condition.call for condition in after.conditions), *stopped, *after.rest.calls])
    assert after.query == before.query, "a rule changed the query"
    assert after.statistics == before.statistics, "a rule changed what is known"
    assert answered == list(range(len(after.query.calls))), "a rule lost or repeated a call"
    return after
