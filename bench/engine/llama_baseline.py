"""The same requests on llama.cpp, one after the other, with the GGUF file that the model was converted from.

Needs `pip install llama-cpp-python`. Neighbours in the order of their tokens begin most alike; with reuse the KV of that
beginning stays, as in llama.cpp's own server with one slot.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bench.engine.recording import Asked
from quail_engine.prompts.request import Ids, Logits


def is_installed() -> bool:
    return find_spec("llama_cpp") is not None


def load(gguf: Path, threads: int, context: int) -> Any:
    """`context`: tokens of the longest request."""
    from llama_cpp import Llama

    return Llama(
        str(gguf), n_ctx=context, n_batch=512, n_threads=threads, n_threads_batch=threads, n_gpu_layers=0, verbose=False
    )


def score(llama: Any, asked: Sequence[Asked], reuse: bool) -> tuple[float, list[Logits]]:
    """Seconds, and the logits of each request's head rows."""
    from llama_cpp import llama_get_logits_ith

    found: list[Logits] = [np.empty(0, np.float32)] * len(asked)
    before: Ids = ()
    begun = time.perf_counter()
    for i in sorted(range(len(asked)), key=lambda i: asked[i].ids):
        ids = asked[i].ids
        llama.n_tokens = min(_common(before, ids), len(ids) - 1) if reuse else 0  # what follows is dropped by `eval`
        llama.eval(ids[llama.n_tokens :])
        logits = np.ctypeslib.as_array(llama_get_logits_ith(llama.ctx, -1), shape=(llama.n_vocab(),))
        found[i] = logits[list(asked[i].rows)].copy()
        before = ids
    return time.perf_counter() - begun, found


def _common(one: Ids, other: Ids) -> int:
    """How many tokens at the beginning are equal."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
