"""What is asked: the parts of a statement that the planner understands, above the SQL that it leaves to DuckDB."""

from __future__ import annotations

from dataclasses import dataclass

from quail_engine.calls import AiCall
from quail_engine.sql import PairSpace, Query


@dataclass(frozen=True)
class AiJoin:
    """An AI condition between two relations, asked over the pairs that the other conditions leave."""

    call: int  # index of the call in the query
    space: PairSpace  # where its pairs come from
    anchor: int | None = None  # argument whose text comes first and is prefilled once for all its partners; None: not chosen


@dataclass(frozen=True)
class LookUps:
    """Calls answered where they stand, in rounds."""

    calls: tuple[int, ...]  # indexes, in text order


@dataclass(frozen=True)
class LogicalPlan:
    query: Query
    joins: tuple[AiJoin, ...]  # in the order in which they are asked
    rest: LookUps

    def call(self, index: int) -> AiCall:
        return self.query.calls[index]


def build(query: Query) -> LogicalPlan:
    """The plan as the text says it: joins whose pairs can be listed, in text order, and look-ups for everything else.

    A query that may stop at its LIMIT lists no pairs: it asks as it goes. Nor do UPDATE and DELETE, which run with look-ups.
    """
    looked_up = query.limit is not None or bool(query.written)
    joins = () if looked_up else tuple(AiJoin(space.call, space) for space in query.pair_spaces)
    planned = {join.call for join in joins}
    rest = tuple(i for i in range(len(query.calls)) if i not in planned)
    return LogicalPlan(query, joins, LookUps(rest))
