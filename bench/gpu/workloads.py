"""Four shapes of work, as requests of random tokens: what an AI condition, a join and an agent's traces come to."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quail_engine.prompts.request import NO_REFERENCE, Ids, Logits, Reference, Request


@dataclass(frozen=True)
class Margin:
    """Reads two head rows after the last segment."""

    suffixes: tuple[Ids, ...] = ((),)
    rows: tuple[Ids, ...] = ((7, 9),)
    reference: Reference = NO_REFERENCE

    def answer(self, logits: Sequence[Logits]) -> Logits:
        return logits[0][:1] - logits[0][1:2]


_READOUT = Margin()


def long_documents(tokens: Callable[[int], Ids], scale: float) -> list[Request]:
    """A filter over documents of 2,048 tokens."""
    head, question = tokens(40), tokens(24)
    return [Request((head, tokens(max(8, int(2_048 * scale))), question), _READOUT) for _ in range(max(2, int(64 * scale)))]


def join(suffix: int) -> Callable[[Callable[[int], Ids], float], list[Request]]:
    """Anchors of 4,096 tokens, each with many partners of `suffix` fresh tokens."""

    def requests(tokens: Callable[[int], Ids], scale: float) -> list[Request]:
        head = tokens(40)
        anchors = [tokens(max(16, int(4_096 * scale))) for _ in range(2)]
        partners = [tokens(suffix) for _ in range(max(4, int(4_000 * scale)))]
        return [Request((head, anchor, partner), _READOUT) for anchor in anchors for partner in partners]

    return requests


def traces(tokens: Callable[[int], Ids], scale: float) -> list[Request]:
    """Agents' traces that grow by a step at a time: each version begins with the one before."""
    head, question, step = tokens(40), tokens(24), max(4, int(256 * scale))
    requests = []
    for _ in range(max(1, int(16 * scale))):
        trace: Ids = ()
        for _ in range(12):
            trace += tokens(step)
            requests.append(Request((head, trace, question), _READOUT))
    return requests


def short_rows(tokens: Callable[[int], Ids], scale: float) -> list[Request]:
    """A filter over rows of 48 tokens."""
    head, question = tokens(40), tokens(24)
    return [Request((head, tokens(48), question), _READOUT) for _ in range(max(8, int(4_000 * scale)))]


WORKLOADS: dict[str, Callable[[Callable[[int], Ids], float], list[Request]]] = {
    "long documents": long_documents,
    "join, suffixes of 8": join(8),
    "join, suffixes of 16": join(16),
    "join, suffixes of 32": join(32),
    "traces": traces,
    "short rows": short_rows,
}


def requests_of(name: str, vocabulary: int, scale: float) -> list[Request]:
    """`scale` 1: some 100,000 fresh tokens."""
    chance = random.Random(name)
    return WORKLOADS[name](lambda count: tuple(chance.choices(range(vocabulary), k=count)), scale)
