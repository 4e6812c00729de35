"""What the planner knows of a statement's AI calls before it asks them, each number with where it comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from quail_engine.calls import AiCall, Kind
from quail_engine.plan.join_counts import JoinCounts
from quail_engine.sql import Conjunct, Order, Passes, Query

_MOST = 0.5  # of the inputs: rows that are new by then are asked in any order
_ASSUMED_SELECTIVITY = 0.5  # says nothing about any call, and so puts none before another


class Source(str, Enum):
    """Where a number comes from, the most trusted first."""

    HINTED = "hinted"  # the user's option
    MEASURED = "measured"  # this statement's own rows and answers
    CALCULATED = "calculated"  # follows from what was measured: time, from tokens and the machine's rates
    SAMPLED = "sampled"  # from what was measured of a part
    REMEMBERED = "remembered"  # the answers of earlier statements
    ASSUMED = "assumed"  # nobody knows


@dataclass(frozen=True)
class Estimate:
    value: float
    source: Source


@dataclass(frozen=True)
class Reading:
    """How the prompt of a call reads its only text."""

    before: tuple[object, ...]  # model, and the tokens in front of the text: where they are equal, so is the KV of a text
    behind: tuple[int, ...]  # the tokens after the text: questions that begin alike share that, too
    suffixes: int  # tokens that are read after the prompt
    tokens_a_byte: float  # of the text


@dataclass(frozen=True)
class CallStatistics:
    """Of one AI call, where the conditions beside it that ask nothing are TRUE, and those that ask are taken as TRUE."""

    selectivity: Estimate  # share of its inputs for which it is TRUE; of a call that is no condition, 1
    inputs: Estimate | None = None  # distinct inputs; None: not counted
    known: int = 0  # answers to its question that the store holds
    text_bytes: Estimate | None = None  # of an input's texts together, the mean; None: not looked at
    reading: Reading | None = None  # None: not looked at, as where no other call reads the same text

    @property
    def answered_share(self) -> float:
        """The share of its inputs that is answered already, as far as the store's number of answers tells."""
        return min(1.0, self.known / self.inputs.value) if self.inputs and self.inputs.value else 0.0


@dataclass(frozen=True)
class ConjunctionStatistics:
    """Of the conditions of one AND or OR, in the order of the text."""

    selectivities: tuple[Estimate, ...]  # share of rows that pass each: of an AND those where it is TRUE, of an OR the others
    rows: Estimate | None = None  # that the conditions are asked about; None: not counted
    truths: tuple[tuple[bool, ...], ...] = ()  # of sampled rows: which conditions they pass

    def share(self, conjuncts: Sequence[int]) -> float:
        """The share of rows that pass all these conditions.

        Those that a sample measured are taken together, as they may go together; all others are taken as independent.
        """
        sampled = [i for i in conjuncts if self.truths and self.selectivities[i].source is Source.MEASURED]
        alone = math.prod(self.selectivities[i].value for i in conjuncts if i not in sampled)
        if not sampled:
            return alone
        hits = sum(all(row[i] for i in sampled) for row in self.truths)
        return alone * (hits + 0.5) / (len(self.truths) + 1)  # a sample that met none does not say that there is none


@dataclass(frozen=True)
class Statistics:
    calls: tuple[CallStatistics, ...]  # by the call's index in the query
    conjunctions: tuple[ConjunctionStatistics, ...]  # by the index in the query's conjunctions
    joins: JoinCounts = field(default_factory=JoinCounts)

    @classmethod
    def of(cls, query: Query) -> Statistics:
        """What the text alone says: hints, else assumptions."""
        calls = tuple(CallStatistics(_hinted(call)) for call in query.calls)
        return cls(calls, tuple(_of_order(c.conjuncts, calls) for c in query.conjunctions))

    def were_asked(self, calls: Sequence[int]) -> bool:
        """Whether one of these conditions was asked before about most of its inputs."""
        return any(self.calls[i].answered_share > _MOST for i in calls)

    def sampled(self, query: Query) -> tuple[int, ...]:
        """The calls that a sample of the rows was asked."""
        found = zip(query.conjunctions, self.conjunctions, strict=True)
        return tuple(i for c, known in found if known.truths for conjunct in c.conjuncts for i in conjunct.calls)

    def of_order(self, order: Order) -> ConjunctionStatistics:
        """Of the conditions of an AND, by what is known of their calls."""
        return _of_order(order, self.calls)

    def of_calls(self, calls: Sequence[int]) -> ConjunctionStatistics:
        """Of conditions that are a call each."""
        return ConjunctionStatistics(tuple(self.calls[i].selectivity for i in calls))


def _of_order(order: Order, calls: Sequence[CallStatistics]) -> ConjunctionStatistics:
    return ConjunctionStatistics(tuple(_passing(conjunct, calls) for conjunct in order))


def _passing(conjunct: Conjunct, calls: Sequence[CallStatistics]) -> Estimate:
    """The share of rows that go on to the next condition."""
    true = _selectivity(conjunct, calls)
    return _rest(true) if conjunct.passes is Passes.NOT_TRUE else true


def _selectivity(conjunct: Conjunct, calls: Sequence[CallStatistics]) -> Estimate:
    """The share of rows for which a condition is TRUE; what asks nothing beside its operands is taken as no matter."""
    if conjunct.operands:
        passing = [_passing(operand, calls) for operand in conjunct.operands]
        weakest = max((estimate.source for estimate in passing), key=list(Source).index)
        passed = Estimate(math.prod(estimate.value for estimate in passing), weakest)
        return _rest(passed) if conjunct.operands[0].passes is Passes.NOT_TRUE else passed
    if conjunct.negated is None:
        return Estimate(_ASSUMED_SELECTIVITY, Source.ASSUMED)
    known = calls[conjunct.calls[0]].selectivity
    return _rest(known) if conjunct.negated else known


def _rest(share: Estimate) -> Estimate:
    return Estimate(1 - share.value, share.source)


def _hinted(call: AiCall) -> Estimate:
    if call.options.selectivity is not None:
        return Estimate(call.options.selectivity, Source.HINTED)
    return Estimate(_ASSUMED_SELECTIVITY if call.kind is Kind.FILTER else 1.0, Source.ASSUMED)
