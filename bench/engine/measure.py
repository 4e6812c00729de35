"""One operator tree, measured: ours, its floor, and the others, in turn."""

from __future__ import annotations

import random
import resource
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import quail_engine
from bench.engine import transformers_baseline, unshared
from bench.engine.floor import floor_seconds
from bench.engine.recording import Asked, Recording, recorded
from bench.engine.trees import Tree
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
    first, report = _ours(setup, tree)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    dtype = torch.bfloat16 if report.pop("dtype") == "bfloat16" else torch.float32
    sample, share = _sample(first.asked, setup.sample_tokens)
    head = transformers_baseline.common_head(first.asked)
    others = transformers_baseline.load(folder, dtype)
    alone = unshared.open_engine(folder, str(dtype).removeprefix("torch."))
    threads = torch.get_num_threads()
    rows = [padded_rows(batch.tokens, config.intermediate_size, threads) for batch in first.batches]
    seconds: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        seconds.setdefault(name, []).append(value)

    for turn in range(setup.repeats):
        note("ours", first.seconds if turn == 0 else _ours(setup, tree)[0].seconds)
        note("floor", floor_seconds(config, dtype, rows))
        note("unshared", unshared.score(alone, sample, Settings().token_budget) * share)
        for attention in ("eager", "sdpa"):
            others.set_attn_implementation(attention)
            note(f"transformers, {attention}", transformers_baseline.score(others, sample, 0, dtype)[0] * share)
            note(f"transformers with head, {attention}", transformers_baseline.score(others, sample, head, dtype)[0] * share)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    plain = min(medians[f"transformers, {attention}"] for attention in ("eager", "sdpa"))
    cached = min(medians[f"transformers with head, {attention}"] for attention in ("eager", "sdpa"))
    least = min_tokens([one.runs for one in first.asked], CHUNK_TOKENS)
    logical = sum(len(one.ids) for one in first.asked)
    return {
        "tree": tree.name, "model": setup.model, "scale": setup.scale, "repeats": setup.repeats, **report,
        "reads": len(first.asked), "logical_tokens": logical, "fresh_tokens": first.fresh_tokens, "least_tokens": least,
        "kv_regret": round(first.fresh_tokens / least - 1, 4), "seconds": round(medians["ours"], 3),
        "tokens_per_second": round(first.fresh_tokens / medians["ours"]),
        "floor_share": round(medians["floor"] / medians["ours"], 3), "peak_mb": round(peak), "head_tokens": head,
        "sampled_reads": len(sample), "unshared": round(medians["unshared"], 3), "transformers": round(plain, 3),
        "transformers_head": round(cached, 3), **_agreement(folder, first),
    }  # fmt: skip


def _ours(setup: Setup, tree: Tree) -> tuple[Recording, dict[str, Any]]:
    with recorded() as recording, quail_engine.connect(model=setup.model, answers={"mode": "off"}) as con:
        con.sql(tree.statement(setup.scale, setup.data))
        report = con.report
        kept = {"asked": report.asked, "rows": report.calls, "statement_seconds": round(report.seconds, 3)}
        return recording, {**kept, "dtype": recording.dtype}


def _sample(asked: Sequence[Asked], tokens: int) -> tuple[list[Asked], float]:
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
