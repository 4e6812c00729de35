"""Tiny models, random requests of them, and an engine's logits beside transformers' own."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from reference.decoder import reference_logits, reference_model

from quail_engine.batching.forest import Held, Schedule, count_tokens, schedule
from quail_engine.engine.base import Engine
from quail_engine.prompts.request import NO_REFERENCE, Ids, Logits, Reference, Request

TINY_MODELS = {
    "llama tied": ("llama", {}),
    "llama untied": ("llama", {"tied_embeddings": False, "hidden_size": 96, "num_heads": 6}),
    "llama, one kv head": ("llama", {"num_kv_heads": 1}),
    "llama, odd widths": ("llama", {"intermediate_size": 100, "head_dim": 8, "num_kv_heads": 4}),
    "qwen2 tied": ("qwen2", {}),
    "qwen2 untied": ("qwen2", {"tied_embeddings": False, "rope_theta": 1e6, "head_dim": 32}),
    "qwen3": ("qwen3", {"head_dim": 32}),
    "llama, stretched": ("llama", {"rope_factor": 8.0, "rope_low": 1.0, "rope_high": 4.0, "rope_context": 64}),
}
VOCABULARY = 97


@dataclass(frozen=True)
class Reads:
    suffixes: tuple[Ids, ...]
    rows: tuple[Ids, ...]
    reference: Reference = NO_REFERENCE

    def answer(self, logits: Sequence[Logits]) -> Logits:
        raise AssertionError("the engine never answers")


JUDGE = Reads(suffixes=((),), rows=((1, 2),))
LABELS = Reads(suffixes=((), (3,), (3, 4, 5), (6, 7)), rows=((3, 6, 9), (4, 0), (5,), (7, 0)))


def score(engine: Engine, requests: Sequence[Request], token_budget: int = 2_048) -> list[tuple[Logits, ...]]:
    """The logits of every request, in order; a vector a read."""
    found: list[dict[int, Logits]] = [{} for _ in requests]
    for batch in schedule(requests, token_budget):
        logits = engine.score(batch)
        assert len(logits) == len(batch.reads)
        for read, vector in zip(batch.reads, logits, strict=True):
            assert vector.dtype == np.float32
            assert vector.shape == (len(read.rows),)
            found[read.request][read.part] = vector
    return [tuple(parts[i] for i in range(len(parts))) for parts in found]


def score_in_turn(engine: Engine, requests: Sequence[Request], token_budget: int) -> dict[int, tuple[Logits, ...]]:
    """The logits of requests by number, each asked after the answer to the one before it about the same text, which refuses it
    every fourth time; then it has none."""
    texts = [request.segments[:2] for request in requests]
    last: dict[tuple[Ids, ...], int] = {}
    after: dict[int, int] = {}
    for number, text in enumerate(texts):
        if text in last:
            after[number] = last[text]
        last[text] = number
    waiting = Schedule(requests, itertools.count(), after, room=100)
    found: dict[int, dict[int, Logits]] = {}
    while waiting.tokens:
        batch = waiting.cut(token_budget)
        for read, vector in zip(batch.reads, engine.score(batch), strict=True):
            found.setdefault(read.request, {})[read.part] = vector
            if len(found[read.request]) == len(requests[read.request].readout.suffixes):
                waiting.decide(read.request, followed=read.request % 4 > 0)
    assert len(texts) // 3 < len(found) < len(texts)
    return {number: tuple(parts[i] for i in range(len(parts))) for number, parts in found.items()}


def score_on_held_kv(engine: Engine, requests: Sequence[Request], token_budget: int) -> list[tuple[Logits, ...]]:
    """The logits of every request, question by question, the texts' KV held from the first one to the last."""
    numbers, held, found = itertools.count(), Held(2), dict[int, dict[int, Logits]]()
    seen: dict[tuple[Ids, ...], int] = {}
    turns: dict[int, list[int]] = {}
    for number, request in enumerate(requests):
        seen[request.segments[:2]] = turn = seen.get(request.segments[:2], -1) + 1
        turns.setdefault(turn, []).append(number)
    tokens = 0
    for turn in turns.values():
        asked = Schedule([requests[number] for number in turn], numbers, held=held)
        while asked.tokens:
            batch = asked.cut(token_budget)
            tokens += batch.tokens
            for read, vector in zip(batch.reads, engine.score(batch), strict=True):
                found.setdefault(turn[read.request], {})[read.part] = vector
    assert tokens < 0.6 * sum(count_tokens([requests[number] for number in turn]).fresh for turn in turns.values())
    return [tuple(found[number][part] for part in range(len(found[number]))) for number in range(len(requests))]


def assert_like_reference(
    folder: Path, requests: Sequence[Request], answers: Sequence[tuple[Logits, ...]], within: float
) -> None:
    model = reference_model(folder)
    for request, parts in zip(requests, answers, strict=True):
        for suffix, rows, logits in zip(request.readout.suffixes, request.readout.rows, parts, strict=True):
            expected = reference_logits(model, sum(request.segments, ()) + suffix)[list(rows)].numpy()
            # Half the tolerance a logit, so that a margin, a difference of two, is within all of it.
            np.testing.assert_allclose(logits, expected, rtol=0, atol=within / 2)


def random_requests(seed: int, documents: Sequence[int], vocabulary: int = VOCABULARY) -> list[Request]:
    """A head, documents of the given lengths, three questions on each, half of the requests with label reads.

    About every second document begins like the one before it, and two questions begin alike.
    """
    rng = random.Random(seed)

    def segment(count: int) -> Ids:
        return tuple(rng.randrange(vocabulary) for _ in range(count))

    head, asked = segment(9), segment(11)
    questions = [segment(4), asked, asked[:8] + segment(4)]
    texts: list[Ids] = []
    for count in documents:
        common = texts[-1][: rng.randrange(count)] if texts and rng.random() < 0.5 else ()
        texts.append(common + segment(count - len(common)))
    requests = [
        Request((head, text, question), readout) for text in texts for question in questions for readout in (JUDGE, LABELS)
    ]
    return rng.sample(requests, len(requests))
