"""What the planner knows of a statement's AI calls before it asks them, each number with where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from quail_engine.calls import AiCall, Kind

_ASSUMED_SELECTIVITY = 0.5  # says nothing about any call, and so puts none before another


class Source(str, Enum):
    """Where a number comes from, the most trusted first."""

    HINTED = "hinted"  # the user's option
    MEASURED = "measured"  # this statement's own rows and answers
    REMEMBERED = "remembered"  # the answers of earlier statements
    ASSUMED = "assumed"  # nobody knows


@dataclass(frozen=True)
class Estimate:
    value: float
    source: Source


@dataclass(frozen=True)
class CallStatistics:
    """Of one AI call, where the conditions beside it that ask nothing are TRUE, and those that ask are taken as TRUE."""

    selectivity: Estimate  # share of its inputs for which it is TRUE; of a call that is no condition, 1
    inputs: Estimate | None = None  # distinct inputs; None: not counted
    text_bytes: Estimate | None = None  # of an input's texts together, the mean; None: not looked at


@dataclass(frozen=True)
class Statistics:
    calls: tuple[CallStatistics, ...]  # by the call's index in the query

    @classmethod
    def of(cls, calls: Sequence[AiCall]) -> Statistics:
        """What the text alone says: hints, else assumptions."""
        return cls(tuple(CallStatistics(_hinted(call)) for call in calls))


def _hinted(call: AiCall) -> Estimate:
    if call.options.selectivity is not None:
        return Estimate(call.options.selectivity, Source.HINTED)
    return Estimate(_ASSUMED_SELECTIVITY if call.kind is Kind.FILTER else 1.0, Source.ASSUMED)
