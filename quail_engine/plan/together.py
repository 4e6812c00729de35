"""Conditions about one text, asked in one pass: the text is prefilled once for all of them, but they are asked of more rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quail_engine.plan.order import TIE
from quail_engine.sql import Order


@dataclass(frozen=True)
class Together:
    """Conditions that are asked at once, with the tokens that are expected to be prefilled for them."""

    conditions: Order
    tokens: float
    tokens_apart: float  # were they asked one after the other


@dataclass(frozen=True)
class Step:
    """Conditions from `start` to before `end` of an order."""

    start: int
    end: int
    tokens: float
    tokens_apart: float


def cheapest_steps(text: float, behind: Callable[[int, int], float], inputs: Sequence[float]) -> list[Step]:
    """How conditions about one text, in their order, are best divided into steps.

    `text`: its tokens; `behind`: those of the conditions from one to before another; `inputs`: different texts that are left
    before each. Conditions are asked at once only where it gains something, as that asks more.

    >>> cheapest_steps(100, lambda start, end: 10 * (end - start), [50, 25])
    [Step(start=0, end=2, tokens=6000, tokens_apart=8250)]
    >>> [step.end for step in cheapest_steps(10, lambda start, end: 30 * (end - start), [50, 5])]
    [1, 2]
    """
    best: list[tuple[float, list[Step]]] = [(0.0, [])]
    for end in range(1, len(inputs) + 1):
        found = []
        for start in reversed(range(end)):
            tokens = inputs[start] * (text + behind(start, end))
            apart = sum(inputs[i] * (text + behind(i, i + 1)) for i in range(start, end))
            if end - start == 1 or tokens * TIE < apart:
                before, steps = best[start]
                found.append((before + tokens, [*steps, Step(start, end, tokens, apart)]))
        best.append(min(found, key=lambda candidate: candidate[0]))
    return best[-1][1]
