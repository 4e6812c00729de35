"""Budgets: what a statement, a model and a run may ask, and what they have asked.

A round is refused before its first request when the estimate goes beyond a limit; an estimate may be wrong, so what is really
spent is looked at after every batch, too. What a round is still expected to ask counts as spent while it lasts: of two rounds
that a limit has no room for together, the second is refused before it begins, instead of both being stopped halfway.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from quail_engine.errors import BudgetError
from quail_engine.progress import Asking
from quail_engine.settings import Settings


@dataclass
class Spent:
    """What was asked so far; one object a scope, shared by all who ask in it."""

    requests: int = 0
    tokens: int = 0  # fresh ones
    seconds: float = 0.0  # in the engine
    expected: list[Spent] = field(default_factory=list)  # what rounds that have begun are expected to ask yet

    def of(self, setting: str) -> float:
        return {"max_requests": self.requests, "max_tokens": self.tokens, "max_seconds": self.seconds}[setting]


_lock = threading.Lock()  # of all Spent


@dataclass(frozen=True)
class Budgets:
    """Limits, and what was spent of them by all who share them."""

    settings: Settings
    spent: dict[str, Spent]  # by scope: model, run, statement

    def of_a_statement(self) -> Budgets:
        """The same for one statement, which has spent nothing."""
        return Budgets(self.settings, {**self.spent, "statement": Spent()})

    @contextmanager
    def round(self, estimate: Asking) -> Iterator[Spent]:
        """A round; what it is expected to ask yet is to be passed to `spend`.

        Raises BudgetError when a round of that estimate would go beyond a limit; nothing of it has been asked.
        """
        expected = Spent(estimate.requests, estimate.tokens, estimate.seconds)
        with _lock:
            self._refuse(estimate, expected)
            for spent in self.spent.values():
                spent.expected.append(expected)
        try:
            yield expected
        finally:
            with _lock:
                for spent in self.spent.values():
                    spent.expected[:] = [other for other in spent.expected if other is not expected]

    def _refuse(self, estimate: Asking, wanted: Spent) -> None:
        for name, scope, limit, scope_spent in self._limits():
            spent = scope_spent.of(name) + sum(other.of(name) for other in scope_spent.expected)
            if spent + wanted.of(name) > limit:
                so_far = f", after {_amount(name, spent)} so far," if spent else ""
                raise BudgetError(
                    f"{estimate.model}: {estimate.size}{so_far} would take this {scope} over the setting {name} ({limit:,g}); "
                    f"nothing of it was asked. {_way_out(name, scope, spent + wanted.of(name))}"
                )

    def spend(self, requests: int, tokens: int, seconds: float, expected: Spent) -> None:
        with _lock:
            for spent in self.spent.values():
                spent.requests += requests
                spent.tokens += tokens
                spent.seconds += seconds
            expected.requests = max(0, expected.requests - requests)
            expected.tokens = max(0, expected.tokens - tokens)
            expected.seconds = max(0.0, expected.seconds - seconds)

    def stop(self, done: int, needed: int) -> None:
        """Raises BudgetError when a limit is reached and the round needs more than it has."""
        for name, scope, limit, scope_spent in self._limits():
            if done < needed and (spent := scope_spent.of(name)) >= limit:
                raise BudgetError(
                    f"This {scope} has reached the setting {name} ({limit:,g}): {done:,} of {needed:,} requests were answered. "
                    "Nothing was written; the answers are kept, and the next run asks only the rest. "
                    + _way_out(name, scope, spent * needed / max(done, 1))
                )

    def _limits(self) -> list[tuple[str, str, float, Spent]]:
        """Setting, scope, limit and what is spent in the scope."""
        found = []
        for name in ("max_requests", "max_tokens", "max_seconds"):
            for scope, spent in self.spent.items():
                limit = getattr(getattr(self.settings, name), scope)
                if limit is not None:
                    found.append((name, scope, limit, spent))
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
