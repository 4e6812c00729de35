"""Layouts measured: a model is asked labelled rows in each of several ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from quail_engine.batching.forest import count_tokens, schedule
from quail_engine.calls import Task
from quail_engine.engine.base import Engine
from quail_engine.errors import EngineError
from quail_engine.prompts.chat import ChatPrompter
from quail_engine.prompts.profiles.candidates import candidates
from quail_engine.prompts.request import Ids, Logits, Readout, Reference, Request
from quail_engine.quality.accuracy import wilson
from quail_engine.quality.figures import Bin, Flags, Numbers, auc, calibration_error, reliability
from quail_engine.quality.labelled import LabelledSet

_HEAD_ROWS = 8_192
"""Head rows of one read. The whole head at once would be a copy of the largest matrix of the model, in float32."""


@dataclass(frozen=True)
class Measured:
    """One layout on one labelled set."""

    layout: str
    set: str
    n: int
    correct: int  # at threshold 0.5, or the most probable label
    auc: float | None  # of judgements
    bins: tuple[Bin, ...]  # of judgements the probability of TRUE, of choices that of the chosen label
    mass: float  # median share of the probability of all tokens that lies on those an answer may begin with
    tokens: float  # fresh tokens a row

    @property
    def share(self) -> float:
        return self.correct / self.n

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.correct, self.n)

    @property
    def calibration_error(self) -> float:
        return calibration_error(self.bins) or 0.0


@dataclass(frozen=True)
class MassReadout:
    """A readout, and after its numbers the share of the probability that its first read takes of the whole head's."""

    inner: Readout
    vocabulary: int  # head rows

    @property
    def suffixes(self) -> tuple[Ids, ...]:
        return self.inner.suffixes[:1] * len(_chunks(self.vocabulary)) + self.inner.suffixes

    @property
    def rows(self) -> tuple[Ids, ...]:
        return _chunks(self.vocabulary) + self.inner.rows

    @property
    def reference(self) -> Reference:
        return self.inner.reference

    def answer(self, logits: Sequence[Logits]) -> Logits:
        count = len(_chunks(self.vocabulary))
        whole, inner = np.concatenate(logits[:count]), logits[count:]
        share = np.exp(inner[0] - whole.max()).sum() / np.exp(whole - whole.max()).sum()
        return np.append(self.inner.answer(inner), np.float32(share))


def measure(
    prompter: ChatPrompter, engine: Engine, sets: Sequence[LabelledSet], vocabulary: int, token_budget: int
) -> Iterator[Measured]:
    """Each set in the profile's own layout and in the others. Raises EngineError where an answer is no finite number.

    `vocabulary`: rows of the model's head. `token_budget`: tokens a forward pass.
    """
    for labelled in sets:
        for name, profile in candidates(prompter.profile, labelled.task, labelled.arguments).items():
            requests = _requests(prompter.with_profile(profile), labelled, vocabulary)
            numbers = _asked(engine, requests, token_budget)
            yield _measured(name, labelled, numbers, count_tokens(requests).fresh / len(requests))


def _requests(prompter: ChatPrompter, labelled: LabelledSet, vocabulary: int) -> list[Request]:
    prompts = {question: prompter.compile(question) for question in dict.fromkeys(row.question for row in labelled.rows)}
    readouts = {question: MassReadout(prompt.readout, vocabulary) for question, prompt in prompts.items()}
    return [
        prompts[row.question].request(prompter.encode(row.texts))._replace(readout=readouts[row.question])
        for row in labelled.rows
    ]


def _asked(engine: Engine, requests: Sequence[Request], token_budget: int) -> Numbers:
    """The numbers of each request, one row a request."""
    logits: list[list[Logits]] = [[np.empty(0, np.float32)] * len(request.readout.rows) for request in requests]
    answers: list[Logits] = [np.empty(0, np.float32)] * len(requests)
    waiting = [len(parts) for parts in logits]
    for batch in schedule(requests, token_budget):
        for read, found in zip(batch.reads, engine.score(batch), strict=True):
            logits[read.request][read.part] = found
            waiting[read.request] -= 1
            if not waiting[read.request]:  # the whole head's logits are not kept any longer than needed
                answers[read.request] = requests[read.request].readout.answer(logits[read.request])
                logits[read.request] = []
    numbers = np.stack(answers).astype(np.float64)
    if not np.isfinite(numbers).all():
        raise EngineError("The model gave numbers that are not finite, so its answers cannot be measured.")
    return numbers


def _measured(layout: str, labelled: LabelledSet, numbers: Numbers, tokens: float) -> Measured:
    scores, mass = numbers[:, :-1], numbers[:, -1]
    ranking: float | None = None
    if labelled.task is Task.JUDGE:
        truth: Flags = np.array([row.gold for row in labelled.rows], bool)
        probabilities = 1 / (1 + np.exp(-scores[:, 0]))
        right = (scores[:, 0] >= 0) == truth
        ranking = auc(scores[:, 0], truth)
    else:
        labels = [label.text for label in labelled.rows[0].question.labels]
        chosen = scores.argmax(axis=1)
        probabilities = np.exp(scores[np.arange(len(scores)), chosen])
        truth = right = chosen == [labels.index(str(row.gold)) for row in labelled.rows]
    return Measured(
        layout=layout,
        set=labelled.name,
        n=len(scores),
        correct=int(right.sum()),
        auc=ranking,
        bins=reliability(zip(probabilities.tolist(), truth.tolist(), strict=True)),
        mass=float(np.median(mass)),
        tokens=tokens,
    )


@cache
def _chunks(vocabulary: int) -> tuple[Ids, ...]:
    return tuple(tuple(range(start, min(start + _HEAD_ROWS, vocabulary))) for start in range(0, vocabulary, _HEAD_ROWS))
