"""The bound: how many questions a query may ask at most, worked out with plain DuckDB queries on the oracle.

For each call the distinct inputs on the rows where its guard is TRUE, other AI conjuncts of the same AND taken as TRUE and
nothing stopped early; calls that ask the same share their inputs; a constant call counts once. The rows that reach a
call are those that the clauses before its own, with their real answers, let through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import duckdb
from expressions import Call, Expression, Guarded, guarded_calls

Inputs = set[tuple[str | None, ...]]


@dataclass(frozen=True)
class Rows:
    """The rows that reach a clause: what follows the select list, with the clauses that come before that clause."""

    source: str
    with_: str = ""
    joined: tuple[tuple[str, str], ...] = ()  # the joins in it: kind and text

    def sql(self, arguments: Sequence[str], guard: Sequence[str]) -> str:
        """A query for the distinct texts of `arguments` on the rows where every condition of `guard` is TRUE."""
        columns = "".join(f"cast({argument} as varchar) as a{i}, " for i, argument in enumerate(arguments))
        shown = " and ".join(f"({condition})" for condition in guard) or "true"
        return f"{self.with_} select distinct * exclude (g) from (select {columns} {shown} as g {self.source}) where g"


@dataclass(frozen=True)
class Site:
    """An expression in a place of a query."""

    position: str  # where, on, having, …
    expression: Expression
    rows: Rows
    joins: tuple[str, ...] = ("none",)  # how the scope joins
    drops: bool = False  # the clause drops what is not TRUE
    guard: tuple[str, ...] = ()  # what the clause itself asks for: the FILTER of an aggregate

    def calls(self) -> list[Guarded]:
        return list(guarded_calls(self.expression, self.drops))


@dataclass
class Bound:
    """The bound of one query, and what it found on the way."""

    inputs: dict[tuple[str, ...], Inputs] = field(default_factory=dict)  # by question
    met: list[tuple[Site, Guarded, bool]] = field(default_factory=list)  # each call, and whether it met a NULL input

    @property
    def requests(self) -> int:
        return sum(map(len, self.inputs.values()))


def bound_of(sites: Sequence[Site], oracle: duckdb.DuckDBPyConnection) -> Bound:
    """The bound of a query whose AI calls stand in `sites`; one DuckDB query a call."""
    bound = Bound()
    for site in sites:
        for guarded in site.calls():
            asked = bound.inputs.setdefault(guarded.call.question, set())
            if guarded.call.is_constant:
                asked |= _constant(guarded.call, oracle)
                bound.met.append((site, guarded, False))
                continue
            inputs = inputs_of(guarded.call, site.rows, (*site.guard, *guarded.guard), oracle)
            known = {row for row in inputs if None not in row}
            asked |= known
            bound.met.append((site, guarded, len(known) < len(inputs)))
    return bound


def inputs_of(call: Call, rows: Rows, guard: Sequence[str], oracle: duckdb.DuckDBPyConnection) -> Inputs:
    """The distinct inputs of a call on the rows where every condition of `guard` is TRUE, those with a NULL too."""
    return set(oracle.execute(rows.sql(call.documents, guard)).fetchall())


def _constant(call: Call, oracle: duckdb.DuckDBPyConnection) -> Inputs:
    return set(oracle.execute(f"select {', '.join(call.documents)}").fetchall()) if call.documents else {()}
