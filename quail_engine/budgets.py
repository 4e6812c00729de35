"""Budgets: what a statement, a model and a run may ask, and what they have asked.

A round is refused before its first request when the estimate goes beyond a limit; an estimate may be wrong, so what is really
spent is looked at after every batch, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from quail_engine.errors import BudgetError
from quail_engine.progress import Asking
from quail_engine.settings import Settings


@dataclass
class Spent:
    """What was asked so far; one object a scope, shared by all who ask in it."""

    requests: int = 0
    tokens: int = 0  # fresh ones
    seconds: float = 0.0  # in the engine

    def of(self, setting: str) -> float:
        return {"max_requests": self.requests, "max_tokens": self.tokens, "max_seconds": self.seconds}[setting]


@dataclass(frozen=True)
class Budgets:
    """Limits, and what was spent of them by all who share them. Used by one statement at a time in the engine."""

    settings: Settings
    spent: dict[str, Spent]  # by scope: model, run, statement

    def of_a_statement(self) -> Budgets:
        """The same for one statement, which has spent nothing."""
        return Budgets(self.settings, {**self.spent, "statement": Spent()})

    def refuse(self, estimate: Asking) -> None:
        """Raises BudgetError when a round of that estimate would go beyond a limit; nothing of it has been asked."""
        wanted = Spent(estimate.requests, estimate.tokens, estimate.seconds)
        for name, scope, limit, spent in self._limits():
            if spent + wanted.of(name) > limit:
                so_far = f", after {_amount(name, spent)} so far," if spent else ""
                raise BudgetError(
                    f"{estimate.model}: {estimate.size}{so_far} would take this {scope} over the setting {name} ({limit:,g}); "
                    f"nothing of it was asked. {_way_out(name, scope, spent + wanted.of(name))}"
                )

    def spend(self, requests: int, tokens: int, seconds: float) -> None:
        for spent in self.spent.values():
            spent.requests += requests
            spent.tokens += tokens
            spent.seconds += seconds

    def stop(self, done: int, needed: int) -> None:
        """Raises BudgetError when a limit is reached and the round needs more than it has."""
        for name, scope, limit, spent in self._limits():
            if done < needed and spent >= limit:
                raise BudgetError(
                    f"This {scope} has reached the setting {name} ({limit:,g}): {done:,} of {needed:,} requests were answered. "
                    "Nothing was written; the answers are kept, and the next run asks only the rest. "
                    + _way_out(name, scope, spent * needed / max(done, 1))
                )

    def _limits(self) -> list[tuple[str, str, float, float]]:
        """Setting, scope, limit and what is spent of it."""
        found = []
        for name in ("max_requests", "max_tokens", "max_seconds"):
            for scope, spent in self.spent.items():
                limit = getattr(getattr(self.settings, name), scope)
                if limit is not None:
                    found.append((name, scope, limit, spent.of(name)))
        return found


def _amount(name: str, value: float) -> str:
    return f"{value:,.1f} s" if name == "max_seconds" else f"{value:,.0f} {name.removeprefix('max_')}"


def _way_out(name: str, scope: str, value: float) -> str:
    # A run is of many models, so its limit is not one model's to raise.
    model = "" if scope == "run" else f", or as quail_{name} in the model's config"
    return (
        f"Filter or limit the rows first, or raise the limit to at least this: `{name}: {{{scope}: {math.ceil(value)}}}` "
        f"in the settings (in dbt: in the profile's quail: block{model})."
    )
