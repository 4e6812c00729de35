"""Hidden features of the local engines: those of transformers, and not a bit of them dependent on what else is in a batch."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from reference.decoder import reference_model, write_tiny_folder

from quail_engine.batching.forest import Schedule, joined, schedule
from quail_engine.calls import Question, Reads, Task, Template
from quail_engine.engine.base import Engine
from quail_engine.engine.local.device_engine import DeviceEngine
from quail_engine.engine.local.device_engine import load as load_device
from quail_engine.engine.local.engine import load
from quail_engine.engine.local.pooling import depths
from quail_engine.pending import with_features
from quail_engine.prompts.bytes import BytePrompter
from quail_engine.prompts.request import FEATURE_STATES, HIDDEN, NO_REFERENCE, Ids, Logits, Reference, Request

LAYERS, WIDTH, HEAD, TAIL = 6, 64, 9, 4


@dataclass(frozen=True)
class Fixed:
    suffixes: tuple[Ids, ...]
    rows: tuple[Ids, ...]
    reference: Reference = NO_REFERENCE

    def answer(self, logits: Sequence[Logits]) -> Logits:
        raise AssertionError("the engine never answers")


FEATURES = Fixed(suffixes=((), (6, 7), (8,)), rows=((HIDDEN, HEAD, TAIL), (HIDDEN, HEAD, TAIL + 2), (1, 2)))
ALONE = Fixed(suffixes=((),), rows=((HIDDEN, HEAD, TAIL),))
MARGIN = Fixed(suffixes=((),), rows=((1, 2),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_folder(tmp_path_factory.mktemp("models") / "model", "qwen2", num_layers=LAYERS)


def requests_of(lengths: Sequence[int], readout: Fixed = FEATURES, seed: int = 1) -> list[Request]:
    """A head, texts of which many begin like the one before, and two questions about each; either ends in a tail."""
    rng = random.Random(seed)

    def segment(count: int) -> Ids:
        return tuple(rng.randrange(97) for _ in range(count))

    head, questions, texts = segment(HEAD), [segment(4), segment(11)], [segment(lengths[0])]
    tail = segment(TAIL)
    for length in lengths[1:]:
        texts.append((texts[-1][: rng.randrange(len(texts[-1]) + 1)] + segment(length))[:length])
    return [Request((head, text, question, tail), readout) for text in texts for question in questions]


def score(engine: Engine, requests: Sequence[Request], token_budget: int = 2_048) -> list[list[Logits]]:
    found: list[dict[int, Logits]] = [{} for _ in requests]
    for batch in schedule(requests, token_budget):
        for read, vector in zip(batch.reads, engine.score(batch), strict=True):
            found[read.request][read.part] = vector
    return [[parts[i] for i in range(len(parts))] for parts in found]


def bits(vectors: Sequence[Logits]) -> list[bytes]:
    return [vector.tobytes() for vector in vectors]


def on_device(folder: Path) -> DeviceEngine:
    """The engine for devices, on the CPU."""
    cpu = torch.device("cpu")
    return load_device(folder, cpu, "float32", fp8=False, memory_fraction=0.9, token_budget=600, cpu_threads=None)


@pytest.mark.parametrize("loaded", [lambda folder: load(folder, "float32", 2), on_device], ids=["cpu", "device"])
@torch.inference_mode()
def test_features_equal_transformers(loaded: Callable[[Path], Engine], folder: Path) -> None:
    requests = requests_of([1, 2, 16, 17, 40, 130, 600])
    model = reference_model(folder)
    for request, vectors in zip(requests, score(loaded(folder), requests, 90), strict=True):
        for suffix, (_, _, tail), vector in zip(FEATURES.suffixes, FEATURES.rows[:2], vectors, strict=False):
            states = model(torch.tensor([sum(request.segments, ()) + suffix]), output_hidden_states=True).hidden_states
            averaged, ended = (states[depth][0] for depth in depths(LAYERS))
            averaged, ended = (after * (after.square().mean(-1, keepdim=True) + 1e-6).rsqrt() for after in (averaged, ended))
            wanted = [states[LAYERS][0, -1], averaged[HEAD:].mean(0), ended[-tail - 1]]  # the first after the final norm
            assert vector.shape == (WIDTH * FEATURE_STATES,)
            np.testing.assert_allclose(vector, torch.cat(wanted).numpy(), rtol=0, atol=2e-3)


@pytest.mark.parametrize(
    "dtype", ["auto", pytest.param("bfloat16", marks=pytest.mark.slow), pytest.param("float32", marks=pytest.mark.slow)]
)
def test_no_bit_depends_on_budgets_batch_mates_and_threads(folder: Path, dtype: str) -> None:
    rng = random.Random(2)
    requests = requests_of([rng.randrange(1, 70) for _ in range(12)] + [530, 540])
    engine = load(folder, dtype, 2)
    expected = {request: bits(vectors) for request, vectors in zip(requests, score(engine, requests), strict=True)}
    margins = [request._replace(readout=MARGIN) for request in requests]
    for threads, budget, size in [(1, 2_048, 28), (2, 61, 28), (1, 200, 3), (2, 7, 5), (2, 2_048, 1)]:
        engine.set_threads(threads)
        mixed = rng.sample(requests + margins, 2 * len(requests))
        for start in range(0, len(mixed), size):
            part = mixed[start : start + size]
            for request, vectors in zip(part, score(engine, part, budget), strict=True):
                if request in expected:
                    assert bits(vectors) == expected[request], (threads, budget, size)


def test_features_that_are_read_alone_are_those_that_are_read_beside_labels(folder: Path) -> None:
    requests = requests_of([5, 40, 60, 530])
    alone = [request._replace(readout=ALONE) for request in requests]
    beside, found = (score(load(folder, "float32", 1), some) for some in (requests, alone))
    assert [bits(vectors) for vectors in found] == [bits(vectors[:1]) for vectors in beside]
    mixed = score(load(folder, "float32", 1), requests[:2] + alone[2:])
    assert [bits(vectors[:1]) for vectors in mixed] == [bits(vectors) for vectors in found]


def test_texts_end_where_the_words_behind_them_begin() -> None:
    question = Question(Task.JUDGE, Template(("Does ", 0, " imply ", 1, "?")))
    prompt = BytePrompter().compile(question)
    head, *_, cue = prompt.request(BytePrompter().encode(["first", "second"])).segments
    read = (HIDDEN, len(head), len(cue))
    both = with_features(prompt, question, Reads.NUMBERS | Reads.FEATURES)
    assert (both.suffixes, both.rows) == (((), *prompt.readout.suffixes), (read, *prompt.readout.rows))
    alone = with_features(prompt, question, Reads.FEATURES)
    assert (alone.suffixes, alone.rows) == (((),), (read,))


@pytest.mark.parametrize(("words", "kept"), [(("Is ", 0, " new?"), [1, 2, 3]), (("Does ", 0, " imply ", 1, "?"), [1, 3])])
def test_of_a_pair_the_mean_is_left_out(words: tuple[str | int, ...], kept: list[int]) -> None:
    question = Question(Task.JUDGE, Template(words))
    readout = with_features(BytePrompter().compile(question), question, Reads.FEATURES)
    states = np.repeat(np.array([1, 2, 3], np.float32), 2)
    assert readout.answer([states]).tolist() == np.repeat(kept, 2).tolist()


def test_a_text_that_is_empty_has_no_end(folder: Path) -> None:
    head, question, tail = requests_of([5])[0].segments[0], (3, 4, 5), (7, 8, 9, 10)
    alone, asked = (Request((head, *parts), FEATURES) for parts in ((tail,), (question, tail)))
    for request, known in ((alone, False), (asked, True)):
        ((vector, *_),) = score(load(folder, "float32", 1), [request])
        assert vector[2 * WIDTH :].any() == known
        assert vector[: 2 * WIDTH].any()


def test_a_schedule_without_features_shares_batches_with_one_that_has_some(folder: Path) -> None:
    engine = load(folder, "bfloat16", 1)
    parts = [requests_of([40, 50, 50, 60], MARGIN, seed=3), requests_of([45, 55, 55, 3], seed=4)]
    expected = [score(engine, requests, 60) for requests in parts]
    numbers = itertools.count()
    schedules = [Schedule(requests, numbers) for requests in parts]
    found: list[dict[tuple[int, int], Logits]] = [{}, {}]
    for turn in itertools.count():
        # The one without features comes alone at first, so that what is held of it has no sums.
        pieces = [schedules[0].cut(30), schedules[1].cut(30 if turn > 1 else 0, at_least_one=turn > 1)]
        logits = iter(engine.score(joined(pieces, pieces[0].keep | pieces[1].keep)) if turn > 1 else engine.score(pieces[0]))
        for own, piece in zip(found, pieces, strict=True):
            own |= {(read.request, read.part): next(logits) for read in piece.reads}
        if not any(one.tokens for one in schedules):
            break
    for own, wanted in zip(found, expected, strict=True):
        every = {(i, part): vector for i, vectors in enumerate(wanted) for part, vector in enumerate(vectors)}
        assert own.keys() == every.keys()
        assert all(np.array_equal(own[read], every[read]) for read in every)
