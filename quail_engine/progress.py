"""Events that long work sends while it runs, and the listener that writes them to a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Asking:
    """Sent before a round's first request."""

    requests: int
    tokens: int  # fresh tokens, by the prompts' own ids
    seconds: float  # in the engine, expected
    model: str
    recalled: int = 0  # inputs of this round that the store answered
    share: float = 1.0  # of the rows that are read
    measured: bool = True  # whether the machine's rates, which the seconds follow from, were measured; else assumed
    counted: bool = True  # whether the tokens are those of all requests; else they follow from those of a part

    @property
    def cost(self) -> str:
        source = "" if self.measured else " at an assumed rate"
        return f"{'' if self.counted else '≈ '}{amount(self.tokens)} tokens, ≈ {duration(self.seconds)}{source}"

    @property
    def size(self) -> str:
        return f"asking {self.requests:,} ({self.cost})"

    def __str__(self) -> str:
        return f"{self.size}{_recalled(self)}{self._of_all}"

    @property
    def _of_all(self) -> str:
        if self.share == 1:
            return ""
        tokens, seconds = round(self.tokens / self.share), self.seconds / self.share
        cost = replace(self, tokens=tokens, seconds=seconds, counted=False).cost
        asking = f"asking ≈ {self.requests / self.share:,.0f} ({cost})"
        return f"; a sample of {self.share:.3g} of the rows, all of them would be {asking}"


@dataclass(frozen=True)
class Answered:
    """Sent after each batch."""

    done: int  # requests of this round that are answered
    requests: int  # all of them
    tokens: int  # fresh tokens so far
    seconds: float  # in the engine so far
    elapsed: float  # seconds since the first of them was begun: also rendering, keeping, and turns of other statements
    recalled: int = 0  # inputs of this round that the store answered

    def __str__(self) -> str:
        rate = self.tokens / self.seconds if self.seconds else 0.0
        left = self.elapsed * (self.requests - self.done) / self.done if self.done else 0.0
        done = f"{self.done:,} of {self.requests:,} answered, {amount(rate)} tokens/s"
        if left:
            done += f", ≈ {duration(left)} left"
        return f"{done}{_recalled(self)}"


@dataclass(frozen=True)
class Warned:
    """Something that a user should know and that stops nothing."""

    text: str

    def __str__(self) -> str:
        return self.text


def _recalled(event: Asking | Answered) -> str:
    if not event.recalled:
        return ""
    return f"; {event.recalled:,} recalled ({event.recalled / (event.recalled + event.requests):.0%})"


Event = Asking | Answered | Warned
Listener = Callable[[Event], None]


def amount(number: float) -> str:
    """A count as people say it: 950, 31k, 2.4M."""
    if number < 1_000:
        return f"{number:.0f}"
    return f"{number / 1_000:.0f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def duration(seconds: float) -> str:
    """Seconds as people say them: 0.4 s, 80 s, 12 min, 3.1 h."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"


class Terminal:
    """Writes events to standard error: warnings, estimates, and at most a line every few seconds while a round runs."""

    def __init__(self, every_seconds: float = 5.0) -> None:
        self._every = every_seconds
        self._last = time.monotonic()

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if isinstance(event, Answered) and now - self._last < self._every:
            return
        self._last = now
        sys.stderr.write(f"quail: {event}\n")
