"""One operator tree, measured: ours, its floor, and the others, in turn."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.engine import transformers_baseline, unshared
from bench.engine.floor import floor_seconds
from bench.engine.recording import Asked, Recording, run
from bench.engine.trees import Tree
from bench.memory import peak_mb
from quail_engine.batching.forest import CHUNK_TOKENS
from quail_engine.engine.local.rows import padded_rows
from quail_engine.engine.local.weights import open_checkpoint
from quail_engine.models import find
from quail_engine.settings import Settings
from tests.reference.min_tokens import min_tokens

_REFERENCE_REQUESTS = 40
"""Requests whose logits are compared with transformers in fp32."""


@dataclass(frozen=True)
class Setup:
    model: str
    data: Path
    scale: float
    repeats: int
    sample_tokens: int  # of the requests that others are given


def measure(setup: Setup, tree: Tree) -> dict[str, Any]:
    """The figures of one tree as a flat record. Seconds are medians over the repeats; those of others are scaled up from a
    sample of the requests where all of them are more than `sample_tokens`."""
    folder = find(setup.model, None).path
    config = open_checkpoint(folder).config
    sql = tree.statement(setup.scale, setup.data)
    first, report = run(setup.model, sql)
    peak = peak_mb()  # before others are loaded
    dtype = torch.bfloat16 if first.dtype == "bfloat16" else torch.float32
    sampled, share = sample(first.asked, setup.sample_tokens)
    head = transformers_baseline.common_head(first.asked)
    others = transformers_baseline.load(folder, dtype)
    alone = unshared.open_engine(folder, str(dtype).removeprefix("torch."))
    threads = torch.get_num_threads()
    rows = [padded_rows(batch.tokens, config.intermediate_size, threads) for batch in first.batches]
    seconds: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        seconds.setdefault(name, []).append(value)

    for turn in range(setup.repeats):
        note("ours", first.seconds if turn == 0 else run(setup.model, sql)[0].seconds)
        note("floor", floor_seconds(config, dtype, rows))
        note("unshared", unshared.score(alone, sampled, Settings().token_budget) * share)
        for attention in ("eager", "sdpa"):
            others.set_attn_implementation(attention)
            note(f"transformers, {attention}", transformers_baseline.score(others, sampled, 0, dtype)[0] * share)
            note(f"transformers with head, {attention}", transformers_baseline.score(others, sampled, head, dtype)[0] * share)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    plain = min(medians[f"transformers, {attention}"] for attention in ("eager", "sdpa"))
    cached = min(medians[f"transformers with head, {attention}"] for attention in ("eager", "sdpa"))
    return {
        **_named(setup, tree), "repeats": setup.repeats, "asked": report.asked, "rows": report.calls,
        "statement_seconds": round(report.seconds, 3), **tokens_of(first), "seconds": round(medians["ours"], 3),
        "rows_per_second": round(report.calls / medians["ours"], 1),
        "asked_per_second": round(report.asked / medians["ours"], 1),
        "tokens_per_second": round(first.fresh_tokens / medians["ours"]),
        "floor_share": round(medians["floor"] / medians["ours"], 3), "peak_mb": peak, "head_tokens": head,
        "sampled_reads": len(sampled), "unshared": round(medians["unshared"], 3), "transformers": round(plain, 3),
        "transformers_head": round(cached, 3), **_agreement(folder, first),
    }  # fmt: skip


def count(setup: Setup, tree: Tree) -> dict[str, Any]:
    """The tokens of one tree, by the model's own prompts; nothing is prefilled, and every condition is TRUE."""
    recording, report = run(setup.model, tree.statement(setup.scale, setup.data), counting=True)
    return {**_named(setup, tree), "asked": report.asked, "rows": report.calls, **tokens_of(recording)}


def _named(setup: Setup, tree: Tree) -> dict[str, Any]:
    return {"tree": tree.name, "model": setup.model, "scale": setup.scale}


def tokens_of(recording: Recording) -> dict[str, Any]:
    """Fresh tokens beside the fewest: with the layout's cuts, and (`radix_tokens`) of a trie over whole requests."""
    least = min_tokens([one.runs for one in recording.asked], CHUNK_TOKENS)
    fresh = recording.fresh_tokens
    return {
        "reads": len(recording.asked), "logical_tokens": sum(len(one.ids) for one in recording.asked), "fresh_tokens": fresh,
        "least_tokens": least, "radix_tokens": min_tokens([[one.ids] for one in recording.asked], 1 << 30),
        "kv_regret": round(fresh / least - 1, 4),
    }  # fmt: skip


def sample(asked: Sequence[Asked], tokens: int) -> tuple[list[Asked], float]:
    """A seeded sample of about so many tokens, in random order, and how many times as much all are."""
    shuffled = random.Random(0).sample(list(asked), len(asked))
    total, taken = sum(len(one.ids) for one in asked), 0
    for count, one in enumerate(shuffled, 1):
        taken += len(one.ids)
        if taken >= tokens:
            return shuffled[:count], total / taken
    return shuffled, 1.0


def _agreement(folder: Path, recording: Recording) -> dict[str, Any]:
    """How far our logits, less their mean, are from transformers' in fp32, and how often the largest is another row."""
    chosen = random.Random(1).sample(range(len(recording.asked)), min(_REFERENCE_REQUESTS, len(recording.asked)))
    model = transformers_baseline.load(folder, torch.float32)
    _, expected = transformers_baseline.score(model, [recording.asked[i] for i in chosen], 0, torch.float32)
    pairs = [(recording.logits[i], logits) for i, logits in zip(chosen, expected, strict=True)]
    apart = max(float(np.abs((ours - ours.mean()) - (theirs - theirs.mean())).max()) for ours, theirs in pairs)
    other = sum(int(ours.argmax() != theirs.argmax()) for ours, theirs in pairs)
    return {"reference_reads": len(pairs), "logits_apart": round(apart, 4), "other_answers": other}
