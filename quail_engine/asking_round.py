"""A round: what is done for one model between two runs of a statement, and how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from quail_engine.cascade import Cascade
from quail_engine.lookups import Inquiry, Positions
from quail_engine.owner import Place
from quail_engine.pending import Pending
from quail_engine.progress import Answered
from quail_engine.prompts.request import Ids
from quail_engine.waiting import Repeats, Waiting

AskBehind = Callable[[Sequence[Inquiry]], None]
"""Has answered what these are missing about texts whose KV is held."""

Behind = Callable[[Positions, AskBehind], None]
"""Told which inputs of a round's first inquiry were answered while the KV of their texts is held, and how to ask more there."""


@dataclass(frozen=True)
class Settled:
    """What a batch, or an answer that somebody else got, settled of a round."""

    answered: int = 0  # requests
    tokens: int = 0  # fresh ones
    seconds: float = 0.0  # in the engine
    needless: int = 0  # requests that are never asked


@dataclass
class Standing:
    """How far a round is, with all that is asked behind it."""

    done: int = 0  # requests
    requests: int = 0
    recalled: int = 0
    tokens: int = 0
    seconds: float = 0.0
    begun: float = 0.0  # seconds of `time.monotonic`, once there are requests

    def wants(self, requests: int, recalled: int) -> None:
        """So many more are to be asked, and so many need not be."""
        if not self.requests:
            self.begun = time.monotonic()
        self.requests, self.recalled = self.requests + requests, self.recalled + recalled

    def add(self, settled: Settled) -> Answered:
        self.done, self.requests = self.done + settled.answered, self.requests - settled.needless
        self.tokens, self.seconds = self.tokens + settled.tokens, self.seconds + settled.seconds
        elapsed = time.monotonic() - self.begun
        return Answered(self.done, self.requests, self.tokens, self.seconds, elapsed, self.recalled)


@dataclass
class Round:
    place: Place  # at the engines
    waiting: Waiting
    cascade: Cascade  # which questions wait for which
    repeats: Repeats | None  # None where no two inputs can be one request
    behind: Behind | None = None  # None: nothing is asked on the KV of its texts
    held: int = 0  # first segments of its requests whose KV is there: it is asked behind another round
    standing: Standing = field(default_factory=Standing)
    recalled: int = 0
    asked_again: int = 0  # of those that wait, those with an answer that a refresh does not take
    refused: int = 0  # too long, where `on_overlong` is error
    longest: int = 0  # of these, in tokens
    room: int = 0  # tokens that would have fit
    asked_behind: set[Inquiry] = field(default_factory=set)


def by_text(pending: Sequence[Pending], segments: int, room: int) -> Iterator[list[Pending]]:
    """Requests in groups whose first `segments`, up to a text, have no more than `room` tokens together, unless it is one text;
    all that are about one text are in one."""
    texts: dict[tuple[Ids, ...], list[Pending]] = {}
    for p in pending:
        texts.setdefault(p.request.segments[:segments], []).append(p)
    group: list[Pending] = []
    tokens = 0
    for first, some in texts.items():
        length = sum(map(len, first))
        if group and tokens + length > room:
            yield group
            group, tokens = [], 0
        group, tokens = group + some, tokens + length
    if group:
        yield group
