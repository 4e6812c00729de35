"""What a statement's questions have asked and cost so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from quail_engine.lookups import Inquiry


@dataclass
class Tally:
    """Counts of one question in one statement, as they grow; they add up to the statement's."""

    asked: int = 0
    recalled: int = 0
    sampled: int = 0  # of the asked
    failed: int = 0
    overlong: int = 0
    tokens_fresh: int = 0
    tokens_logical: int = 0
    seconds_engine: float = 0.0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Tally)))


class Tallies:
    """The counts of one statement, by question."""

    def __init__(self) -> None:
        self._of: dict[Inquiry, Tally] = {}
        self._asked_for: dict[Inquiry, Inquiry] = {}
        self._unshared = Tally()  # what batches cost that finished no request: part of the cost of the next

    @property
    def total(self) -> Tally:
        return sum(self._of.values(), self._unshared)

    def of(self, inquiry: Inquiry) -> Tally:
        """Counts of one question. What requests of several questions share is divided in proportion to their tokens."""
        return self._of.setdefault(self._asked_for.get(inquiry, inquiry), Tally())

    def belongs(self, rows: Inquiry, asked_for: Inquiry) -> None:
        """Counts labelled rows with the question that they are asked for."""
        self._asked_for[rows] = asked_for

    def share_out(self, tokens: int, seconds: float, logical: Mapping[Inquiry, int]) -> None:
        """Counts fresh tokens and seconds of requests whose tokens one by one are `logical`, by question."""
        tokens, seconds = tokens + self._unshared.tokens_fresh, seconds + self._unshared.seconds_engine
        whole, so_far, given = sum(logical.values()), 0, 0
        self._unshared = Tally() if whole else Tally(tokens_fresh=tokens, seconds_engine=seconds)
        for inquiry, count in logical.items():
            so_far += count
            part = round(tokens * so_far / whole) - given  # rounded so that all parts are the whole
            given += part
            tally = self.of(inquiry)
            tally.tokens_logical += count
            tally.tokens_fresh += part
            tally.seconds_engine += seconds * count / whole
