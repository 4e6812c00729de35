"""Figures of a set of judged rows: how well scores rank, and how far probabilities can be believed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quail_engine.quality.accuracy import wilson

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

_BINS = 10


@dataclass(frozen=True)
class Bin:
    """Answers whose stated probability lies between two bounds."""

    low: float
    high: float
    n: int
    right: int
    confidence: float  # mean probability

    @property
    def share(self) -> float:
        return self.right / self.n

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.right, self.n)


def auc(scores: Numbers, truth: Flags) -> float | None:
    """The chance that a true row scores above a false one, ties counting half; None where one kind is missing."""
    true, false = np.sort(scores[truth]), np.sort(scores[~truth])
    if not len(true) or not len(false):
        return None
    below = np.searchsorted(false, true, "left") + np.searchsorted(false, true, "right")
    return float(below.sum() / (2 * len(true) * len(false)))


def reliability(answers: Iterable[tuple[float, bool]]) -> tuple[Bin, ...]:
    """The reliability curve of (probability, whether it was right): the tenths of probability that hold an answer."""
    tenths: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right in answers:
        tenths.setdefault(min(int(confidence * _BINS), _BINS - 1), []).append((confidence, right))
    return tuple(_bin(number, tenths[number]) for number in sorted(tenths))


def calibration_error(bins: Sequence[Bin]) -> float | None:
    """Expected calibration error: the mean distance of confidence and accuracy over the bins, by rows; None of nothing."""
    n = sum(each.n for each in bins)
    return sum(each.n * abs(each.share - each.confidence) for each in bins) / n if n else None


def _bin(number: int, rows: Sequence[tuple[float, bool]]) -> Bin:
    mean = sum(confidence for confidence, _ in rows) / len(rows)
    return Bin(number / _BINS, (number + 1) / _BINS, len(rows), sum(right for _, right in rows), mean)
