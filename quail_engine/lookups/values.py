"""From an answer's numbers to what a call returns in SQL."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from quail_engine.calls import Kind, Label, Task
from quail_engine.sql import label_of, labels_problem


def probability(margin: float) -> float:
    """Probability of TRUE of a float32 margin, in double precision; 0.5 at a margin of exactly 0."""
    return 1 / (1 + math.exp(-margin)) if margin >= 0 else math.exp(margin) / (1 + math.exp(margin))


@lru_cache(maxsize=64)
def least_margin(threshold: float) -> np.float32:
    """The least float32 margin whose probability reaches the threshold: comparing with it is comparing with that, but faster.

    >>> float(least_margin(1.0)) > 36, float(least_margin(0.0))
    (True, -inf)
    """
    if probability(-math.inf) >= threshold:
        return np.float32(-np.inf)
    below, reaches = _place(np.float32(-np.inf)), _place(np.float32(np.inf))
    while reaches - below > 1:
        middle = (below + reaches) // 2
        below, reaches = (below, middle) if probability(float(_margin(middle))) >= threshold else (middle, reaches)
    return _margin(reaches)


def _place(margin: np.float32) -> int:
    """Where a margin stands among all float32 numbers, in their order; both zeros stand at 0."""
    bits = int(np.abs(margin).view(np.int32))
    return -bits if margin < 0 else bits


def _margin(place: int) -> np.float32:
    size = np.int32(abs(place)).view(np.float32)
    return np.float32(-size if place < 0 else size)


def sql_value(kind: Kind, task: Task, numbers: Sequence[float], labels: Sequence[Label], threshold: float) -> Any:
    """What a call returns for an answer's numbers."""
    if task is Task.TAG:
        return [label.text for label, margin in zip(labels, numbers, strict=True) if probability(margin) >= threshold]
    if kind is Kind.FILTER:
        return probability(numbers[0]) >= threshold
    if kind is Kind.SCORE:
        return probability(numbers[0])
    if kind is Kind.CLASSIFY:
        return labels[max(range(len(numbers)), key=numbers.__getitem__)].text
    weights = [math.exp(number) for number in numbers]
    total = sum(weights)
    return [(label.text, weight / total) for label, weight in zip(labels, weights, strict=True)]


@lru_cache(maxsize=1024)
def labels_of(text: str) -> tuple[Label, ...]:
    """Labels from the JSON of a row's list. Raises ValueError with a sentence when they are not labels."""
    try:
        values = json.loads(text) or ()
    except RecursionError:
        values = text
    if not isinstance(values, (list, tuple)):
        raise ValueError("This is no list of labels.")
    labels = tuple(map(label_of, values))
    problem = labels_problem(labels)
    if problem:
        raise ValueError(problem)
    return labels
