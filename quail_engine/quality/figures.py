"""Figures of a set of judged rows: how well scores rank, and how far probabilities can be believed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

BINS = 10


@dataclass(frozen=True)
class Bin:
    """Rows whose probability lies in one tenth of [0, 1]."""

    n: int
    predicted: float  # mean probability
    observed: float  # share of rows that are true


def auc(scores: Numbers, truth: Flags) -> float | None:
    """The chance that a true row scores above a false one, ties counting half; None where one kind is missing."""
    true, false = np.sort(scores[truth]), np.sort(scores[~truth])
    if not len(true) or not len(false):
        return None
    below = np.searchsorted(false, true, "left") + np.searchsorted(false, true, "right")
    return float(below.sum() / (2 * len(true) * len(false)))


def reliability(probabilities: Numbers, truth: Flags) -> tuple[Bin, ...]:
    """Rows by their probability, in tenths; empty tenths are left out."""
    tenth = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    members = [np.flatnonzero(tenth == i) for i in np.unique(tenth)]
    return tuple(Bin(len(m), float(probabilities[m].mean()), float(truth[m].mean())) for m in members)


def calibration_error(bins: tuple[Bin, ...]) -> float:
    """Expected calibration error: how far the probability is from the share of true rows, the mean over rows; 0 of nothing."""
    rows = sum(b.n for b in bins)
    return sum(b.n * abs(b.predicted - b.observed) for b in bins) / rows if rows else 0.0
