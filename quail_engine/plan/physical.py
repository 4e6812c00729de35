"""How it is done: steps in order. Every asking step leaves an answer table; the statement itself always comes last."""

from __future__ import annotations

from dataclasses import dataclass

from quail_engine.plan.statistics import Estimate
from quail_engine.plan.together import Link, Together
from quail_engine.sql import Order, RowLimit


@dataclass(frozen=True)
class RunSql:
    """DuckDB lists the distinct inputs of a question, one column an argument (`a0`, `a1`, …), in the order they are asked."""

    sql: str


@dataclass(frozen=True)
class Ask:
    """Recall what the answer store has, prefill the rest, remember it."""

    call: int  # index of the call in the query
    anchor: int | None  # argument whose KV its partners share; None where one relation is read


@dataclass(frozen=True)
class AnswerTable:
    """The inputs whose answer is TRUE, as a relation that the statement joins with instead of looking pairs up."""

    name: str
    call: int


@dataclass(frozen=True)
class AskStep:
    source: RunSql
    ask: Ask
    table: AnswerTable
    links: tuple[Link, ...] = ()  # the steps after it that are asked with it, each where those before are TRUE, on their KV
    on_kv: bool = False  # it is asked with a step before it
    behind: tuple[AskStep, ...] = ()  # the steps after it that are asked about some texts at a time, while their KV is held


@dataclass(frozen=True)
class Rounds:
    """The statement with look-ups: run, ask what is missing, run again, level by level, until nothing is missing."""

    calls: tuple[int, ...]
    levels: int  # number of levels; 0 when no call is left to look up
    orders: tuple[Order, ...] = ()  # conditions of one AND, each asked where those before it are TRUE
    together: tuple[Together, ...] = ()  # of these, those that share the KV of their text
    sampled: tuple[int, ...] = ()  # calls that were asked about some rows before it was their turn

    @property
    def links(self) -> tuple[Link, ...]:
        """What waits for what on a text's KV."""
        return tuple(link for step in self.together for link in step.links)


@dataclass(frozen=True)
class Believed:
    """Of a condition before anything is answered."""

    selectivity: Estimate
    request_bytes: float  # of its requests about one row


@dataclass(frozen=True)
class FirstRows:
    """A query that gives fewer rows than it reads.

    Where conditions decide which: ask about the first rows that are not yet refused, until as many as LIMIT are certain. Then,
    of the rows that come out, ask what only shows something.
    """

    limit: RowLimit
    believed: tuple[Believed, ...] = ()  # of its conditions, whose order follows what is answered; empty: the order stays


@dataclass(frozen=True)
class PhysicalPlan:
    asks: tuple[AskStep, ...]
    first: FirstRows | None
    rounds: Rounds

    @property
    def apart(self) -> tuple[int, ...]:
        """Calls that note nothing in rounds: they are asked about the rows that a LIMIT needs, and no others."""
        return self.first.limit.calls if self.first else ()

    @property
    def tables(self) -> dict[int, str]:
        """Answer tables by the call they stand for."""
        return {step.table.call: step.table.name for step in self.asks}
