"""What is asked: the parts of a statement that the planner understands, above the SQL that it leaves to DuckDB."""

from __future__ import annotations

from dataclasses import dataclass

from quail_engine.calls import AiCall
from quail_engine.plan.statistics import Statistics
from quail_engine.plan.together import Together
from quail_engine.sql import Order, PairSpace, Query, RowLimit

_TEXT_BYTES = 400  # of an input nobody has looked at


@dataclass(frozen=True)
class AiFilter:
    """An AI condition on one relation of a join, asked over the rows that the other conditions leave."""

    call: int  # index of the call in the query
    space: PairSpace  # where its inputs come from
    same_text: tuple[int, ...] = ()  # calls of other conditions: right behind one of them it is asked on the KV of its text


@dataclass(frozen=True)
class AiJoin:
    """An AI condition between two relations, asked over the pairs that the other conditions leave."""

    call: int
    space: PairSpace
    anchor: int | None = None  # argument whose text is prefilled once for all its partners; None: pairs in any order
    same_text: tuple[int, ...] = ()  # as of a filter, its anchor being the text


@dataclass(frozen=True)
class LookUps:
    """Calls answered where they stand, in rounds."""

    calls: tuple[int, ...]  # indexes, in text order
    orders: tuple[Order, ...] = ()  # the ANDs whose conditions are asked one after the other
    together: tuple[Together, ...] = ()  # of these, those that share the KV of their text


@dataclass(frozen=True)
class LogicalPlan:
    query: Query
    conditions: tuple[AiFilter | AiJoin, ...]  # in the order in which they are asked
    stop: RowLimit | None  # its calls are asked about single rows, until there are enough, or about those that come out
    rest: LookUps
    stop_is_free: bool  # the order of the stop's conditions may follow what is answered
    statistics: Statistics  # of every call; no rule changes them

    def call(self, index: int) -> AiCall:
        return self.query.calls[index]

    def leading(self, condition: AiFilter | AiJoin) -> object | None:
        """What a condition's prompts begin with: the text that comes first, and all that stands before it. Asked right behind a
        condition of the same rows where this is equal, it reads the KV of that one's texts. None where it reads no other's.
        """
        call, reading = self.call(condition.call), self.statistics.calls[condition.call].reading
        if reading is None or call.options.order == "as_written":
            return None
        joins = sum(isinstance(other, AiJoin) for other in self.conditions)
        if isinstance(condition, AiJoin):
            if call.question.labelled:  # more than answers is read there
                return None
        elif [other.question for other in self.query.calls].count(call.question) > 1:
            return None  # that call may need an answer that this one does not
        # Of several joins a sample tells which comes first, once the filters are answered.
        return call.arguments[call.question.anchor], reading.before, isinstance(condition, AiJoin) and joins > 1

    def request_bytes(self, index: int) -> float:
        """Bytes of a request of a call: its texts, and the question around them."""
        return self.text_bytes(index) + len(self.call(index).question.title)

    def text_bytes(self, index: int) -> float:
        """Bytes of an input's texts."""
        measured = self.statistics.calls[index].text_bytes
        return measured.value if measured else _TEXT_BYTES


def build(query: Query, statistics: Statistics | None = None) -> LogicalPlan:
    """The plan as the text says it: a LIMIT that can stop it, conditions whose inputs can be listed, look-ups.

    A query whose conditions stop at its LIMIT lists no pairs: it asks as it goes. Nor do UPDATE and DELETE, which run with
    look-ups. Without `statistics` the plan knows what the text says: hints.
    """
    stop = None if query.written else query.limit
    spaces = () if query.written or (stop and stop.conjuncts) else query.pair_spaces
    conditions = tuple(AiFilter(s.call, s) if s.one_sided else AiJoin(s.call, s) for s in spaces)
    planned = {condition.call for condition in conditions}.union(stop.calls if stop else ())
    rest = tuple(i for i in range(len(query.calls)) if i not in planned)
    return LogicalPlan(query, conditions, stop, LookUps(rest), False, statistics or Statistics.of(query))
