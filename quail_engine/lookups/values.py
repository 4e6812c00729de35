"""From an answer's numbers to what a call returns in SQL."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from quail_engine.calls import Kind, Label, Task
from quail_engine.sql import label_of, labels_problem


def probability(margin: float) -> float:
    """Probability of TRUE of a float32 margin, in double precision; 0.5 at a margin of exactly 0."""
    return 1 / (1 + math.exp(-margin)) if margin >= 0 else math.exp(margin) / (1 + math.exp(margin))


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
