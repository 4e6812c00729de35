"""The mock engine: the documented rules of `rules.py` behind the engine contract. Needs no weights and no torch."""

from __future__ import annotations

import math
from math import inf

import numpy as np

from quail_engine.batching.batch import Batch
from quail_engine.calls import Question, Task
from quail_engine.engine.base import Engine
from quail_engine.engine.rules import FEATURES, Rules, features
from quail_engine.prompts.bytes import END, TRUE, Reading
from quail_engine.prompts.request import FEATURE_STATES, HIDDEN, Ids, Logits
from quail_engine.roofline import Machine, ModelShape, Roofline


class MockEngine(Engine):
    """Answers from the prompt's bytes by fixed rules, the same in every process."""

    weights = "mock/1"
    precision = "full"
    dtype = "float32"
    device = "none"
    # Ten million tokens a second, whatever they attend to: 14 operations a token is what a model of one dimension takes.
    roofline = Roofline(ModelShape(1, 1, 1, 1, 1, 1), Machine(14e7, attention_flops=inf, bandwidth=inf))

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._paths: dict[int, Reading] = {-1: Reading()}  # by node: what was read up to it; it plays the part of KV
        # The reads of a request follow each other, and have one answer.
        self._last: tuple[Question, tuple[str, ...]] | None = None
        self._values: tuple[float, ...] = ()

    def score(self, batch: Batch) -> list[Logits]:
        paths = self._paths
        for node in batch.nodes:
            paths[node.number] = paths[node.parent].on(node.ids)
        logits = [self._read(paths[read.node], read.rows) for read in batch.reads]
        self._paths = {number: paths[number] for number in (-1, *batch.keep)}
        return logits

    def _read(self, path: Reading, rows: Ids) -> Logits:
        question, documents, after = path.request()
        if self._last != (question, documents):
            self._last, self._values = (question, documents), self._rules.answer(question, documents)
        values = self._values
        hidden = rows[:1] == (HIDDEN,)
        if any(value != value for value in values):
            return np.full(FEATURE_STATES * FEATURES if hidden else len(rows), np.nan, np.float32)
        if hidden:
            return np.pad(features(documents), (0, (FEATURE_STATES - 1) * FEATURES))  # all is in the first state
        if question.task is Task.CLASSIFY:
            return _branches(question, values, after, rows)
        margin = values[[label.text for label in question.labels].index(after)] if question.task is Task.TAG else values[0]
        return np.array([margin if row == TRUE else 0.0 for row in rows], np.float32)

    def close(self) -> None:
        self._paths.clear()


def _branches(question: Question, weights: tuple[float, ...], after: str, rows: Ids) -> Logits:
    """Logits at a node of the label trie: a branch has the weight of all labels below it, so a label's share of the whole
    is the softmax of the labels' weights, however they are spelled."""
    prefix = tuple(after.encode(errors="surrogateescape"))
    below: dict[int, float] = dict.fromkeys(rows, 0.0)
    for label, weight in zip(question.labels, weights, strict=True):
        spelled = (*label.text.encode(), END)
        if spelled[: len(prefix)] == prefix and len(spelled) > len(prefix):
            below[spelled[len(prefix)]] += math.exp(weight)
    return np.array([math.log(below[row]) for row in rows], np.float32)
