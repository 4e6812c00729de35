"""Conditions about one text whose KV serves all of them: each waits for the one before it, or they are asked at once.

One that waits costs its own tokens, and is asked of no row that another condition refuses; but it takes a batch more. Asked at
once they are asked of more rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from quail_engine.plan.order import TIE
from quail_engine.sql import Order, Passes

_BATCH_TOKENS = 10.0
"""A batch more takes about as long as so many tokens: the time to read the weights once."""


@dataclass(frozen=True)
class Link:
    """Calls that wait for a condition about the same text, while its KV is held."""

    leader: int  # the condition's call
    negated: bool  # the condition is NOT that
    needs: Passes  # what the condition must be for them to matter
    calls: tuple[int, ...]
    share: float  # of the texts of the first condition of all, those about which they are asked, as expected


@dataclass(frozen=True)
class Together:
    """Conditions that share the KV of their text, with the tokens that are expected to be prefilled for them."""

    conditions: Order
    tokens: float
    tokens_apart: float  # were the text prefilled for each of them
    tokens_else: float | None  # in the other way to share it, at once or waiting; None where they cannot wait
    cascades: bool  # each is asked where those before it leave the whole open; False: at once
    shares: tuple[float, ...]  # of the first one's texts, those about which each is asked

    @property
    def links(self) -> tuple[Link, ...]:
        """What waits for what; nothing where all are asked at once."""
        pairs = zip(pairwise(self.conditions), self.shares[1:], strict=True) if self.cascades else ()
        return tuple(Link(one.calls[0], bool(one.negated), one.passes, other.calls, share) for (one, other), share in pairs)


@dataclass(frozen=True)
class Step:
    """Conditions from `start` to before `end` of an order."""

    start: int
    end: int
    tokens: float
    tokens_apart: float
    tokens_else: float | None = None
    cascades: bool = False


def cheapest_steps(
    text: float,
    behind: Callable[[int, int], float],
    inputs: Sequence[float],
    waits: Callable[[int, int], bool] = lambda start, end: True,
) -> list[Step]:
    """How conditions about one text, in their order, are best divided into steps.

    `text`: its tokens; `behind`: those of the conditions from one to before another; `inputs`: different texts that are left
    before each; `waits`: whether each of the conditions from one to before another can wait for the answer to the one before
    it. At once conditions are asked only where it gains something, as that asks more.

    >>> cheapest_steps(100, lambda start, end: 10 * (end - start), [50, 25])
    [Step(start=0, end=2, tokens=5750, tokens_apart=8250, tokens_else=6000, cascades=True)]
    >>> cheapest_steps(100, lambda start, end: 10 * (end - start), [50, 50])
    [Step(start=0, end=2, tokens=6000, tokens_apart=11000, tokens_else=6000, cascades=False)]
    >>> [step.end for step in cheapest_steps(10, lambda start, end: 30 * (end - start), [50, 5], lambda start, end: False)]
    [1, 2]
    """
    best: list[tuple[float, list[Step]]] = [(0.0, [])]
    for end in range(1, len(inputs) + 1):
        found = []
        for start in reversed(range(end)):
            before, steps = best[start]
            for price, step in _ways(text, behind, inputs, start, end, waits(start, end)):
                found.append((before + price, [*steps, step]))
        best.append(min(found, key=lambda candidate: candidate[0]))
    return best[-1][1]


def _ways(
    text: float, behind: Callable[[int, int], float], inputs: Sequence[float], start: int, end: int, waits: bool
) -> Iterator[tuple[float, Step]]:
    """The ways to ask conditions in one step, with their prices in tokens."""
    apart = sum(inputs[i] * (text + behind(i, i + 1)) for i in range(start, end))
    at_once = inputs[start] * (text + behind(start, end))
    several, waiting = end - start > 1, None
    if waits and several:
        first = inputs[start] * (text + behind(start, start + 1))
        waiting = first + sum(inputs[i] * (behind(i - 1, i + 1) - behind(i - 1, i)) for i in range(start + 1, end))
    if not several or at_once * TIE < apart:
        yield at_once + _BATCH_TOKENS, Step(start, end, at_once, apart, waiting)
    if waiting is not None:
        yield waiting + _BATCH_TOKENS * (end - start), Step(start, end, waiting, apart, at_once, cascades=True)
