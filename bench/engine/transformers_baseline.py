"""The same requests on transformers, with the same weights: padded batches of like lengths, with or without a shared head."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedModel

from bench.engine.recording import Asked

BATCH_TOKENS = 4_096  # padded; 2,048 and 8,192 are slower or equal on two cores


def common_head(asked: Sequence[Asked]) -> int:
    """Tokens with which every request begins; at least one token of each is left."""
    ids = [one.ids for one in asked]
    first, last = min(ids), max(ids)
    limit = min(map(len, ids)) - 1
    same = (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return min(next(same, limit), limit)


def score(model: PreTrainedModel, asked: Sequence[Asked], head: int, dtype: torch.dtype) -> tuple[float, list[np.ndarray]]:
    """Seconds, and the logits of each request's head rows. `head`: so many first tokens are prefilled once."""
    found: list[np.ndarray] = [np.empty(0)] * len(asked)
    order = sorted(range(len(asked)), key=lambda i: len(asked[i].ids))
    begun = time.perf_counter()
    with torch.inference_mode():
        kept = model(torch.tensor([asked[0].ids[:head]]), use_cache=True).past_key_values if head else None
        while order:
            longest = len(asked[order[-1]].ids) - head
            members = order[-max(1, BATCH_TOKENS // longest) :]
            del order[-len(members) :]
            _batch(model, asked, members, head, kept, found)
    return time.perf_counter() - begun, found


def _batch(model, asked, members, head, kept, found) -> None:  # type: ignore[no-untyped-def]
    rows = [asked[i].ids[head:] for i in members]
    width = max(map(len, rows))
    ids = torch.tensor([row + (0,) * (width - len(row)) for row in rows])  # padded behind, where causal attention does not look
    cache = None
    if kept is not None:
        cache = copy.deepcopy(kept)
        cache.batch_repeat_interleave(len(rows))
    hidden = model.model(ids, past_key_values=cache, use_cache=cache is not None).last_hidden_state
    ends = torch.tensor([len(row) - 1 for row in rows])
    read = hidden[torch.arange(len(rows)), ends]
    for i, vector in zip(members, read, strict=True):
        found[i] = (model.lm_head.weight[list(asked[i].rows)].float() @ vector.float()).numpy()


def load(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    from tests.reference.decoder import reference_model

    return reference_model(folder).to(dtype)
