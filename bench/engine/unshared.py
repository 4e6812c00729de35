"""Our own engine one request at a time: the same batches' sizes, nothing shared. What sharing alone is worth."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from bench.engine.recording import Asked
from quail_engine.batching.batch import Batch, Node, Read
from quail_engine.batching.forest import CHUNK_TOKENS
from quail_engine.engine.local.engine import LocalEngine, load


def score(engine: LocalEngine, asked: Sequence[Asked], token_budget: int) -> float:
    """Seconds for all requests, each a chain of its own from the first token."""
    begun = time.perf_counter()
    nodes: list[Node] = []
    reads: list[Read] = []
    tokens, number = 0, 0
    for i, one in enumerate(asked):
        parent, ids = -1, one.ids
        if nodes and tokens + len(ids) > token_budget:
            engine.score(Batch(tuple(nodes), tuple(reads), frozenset()))
            nodes, reads, tokens = [], [], 0
        for start in range(0, len(ids), CHUNK_TOKENS):
            nodes.append(Node(number, parent, ids[start : start + CHUNK_TOKENS]))
            parent, number = number, number + 1
        reads.append(Read(parent, one.rows, i, 0))
        tokens += len(ids)
    if nodes:
        engine.score(Batch(tuple(nodes), tuple(reads), frozenset()))
    return time.perf_counter() - begun


def open_engine(folder: Path, dtype: str) -> LocalEngine:
    return load(folder, dtype, None)
