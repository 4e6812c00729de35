"""Attention over segments of random forests, beside every token's own path computed alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from quail_engine.batching.batch import Batch, Node
from quail_engine.batching.forest import schedule
from quail_engine.engine.local.kernels.segment_attention import (
    SegmentTable,
    segment_attention,
    segment_attention_reference,
    tile_tokens,
)
from quail_engine.engine.local.segments import node_table, plan_segments
from quail_engine.prompts.readout import JudgeReadout, Spellings
from quail_engine.prompts.request import Ids, Request

DIM = 16
READOUT = JudgeReadout(Spellings((1,), (2,)))


@dataclass
class Arena:
    """KV of all nodes that were met, in slots that are drawn at random, as after much use."""

    keys: Tensor
    values: Tensor
    free: list[int]


def run(batches: Sequence[Batch], heads: tuple[int, int], dtype: torch.dtype, seed: int) -> list[tuple[Node, Tensor, Tensor]]:
    """Each node with the attention of its fresh tokens, by the kernel and by the definition on its path alone."""
    query_heads, key_heads = heads
    group = query_heads // key_heads
    chance = torch.Generator().manual_seed(seed)
    arena = Arena(
        *torch.randn(2, 4_000, key_heads, DIM, generator=chance).to(dtype), torch.randperm(4_000, generator=chance).tolist()
    )
    slots: dict[int, np.ndarray] = {}
    parents: dict[int, int] = {}
    met = []
    for batch in batches:
        for node in batch.nodes:
            own = np.array([arena.free.pop() for _ in range(node.fresh)], np.int32)
            slots[node.number] = np.concatenate([slots[node.sibling][: node.shared], own]) if node.shared else own
            parents[node.number] = node.parent
        plan = plan_segments(node_table(batch.nodes, parents, slots), tile_tokens(group), batch.tokens)
        queries = torch.randn(batch.tokens, query_heads, DIM, generator=chance).to(dtype)
        table = SegmentTable(plan.tokens, *map(torch.from_numpy, (plan.tile_starts, *plan.segments, plan.slots)))
        found = segment_attention(queries, arena.keys, arena.values, table)
        reference = segment_attention_reference(queries, arena.keys, arena.values, table)
        torch.testing.assert_close(found, reference, rtol=1e-3, atol=1e-3 if dtype == torch.float32 else 4e-3)
        start = 0
        for node in batch.nodes:
            before = [slots[number] for number in path_above(node, parents)]
            part = queries[start : start + node.fresh]
            met.append((node, found[start : start + node.fresh], alone(part, node, before, slots[node.number], arena)))
            start += node.fresh
    return met


def path_above(node: Node, parents: Mapping[int, int]) -> list[int]:
    path, number = list[int](), node.parent
    while number >= 0:
        path.insert(0, number)
        number = parents[number]
    return path


def alone(queries: Tensor, node: Node, before: Sequence[np.ndarray], own: np.ndarray, arena: Arena) -> Tensor:
    """Dense attention of a node's fresh tokens to their own past, in fp64."""
    path = torch.from_numpy(np.concatenate([*before, own])).long()
    group = queries.shape[1] // arena.keys.shape[1]
    key, value = (part[path].double().repeat_interleave(group, 1) for part in (arena.keys, arena.values))
    scores = torch.einsum("qhd,khd->hqk", queries.double(), key) * DIM**-0.5
    ends = len(path) - len(own) + node.shared + torch.arange(len(queries))
    scores = scores.masked_fill(torch.arange(len(path)) > ends[:, None], float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), value)


segments = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=40).map(tuple), min_size=1, max_size=3)


@pytest.mark.parametrize(
    ("heads", "dtype"),
    [((1, 1), torch.float16), ((4, 2), torch.float32), ((3, 1), torch.float32), ((8, 1), torch.float16)],
)
@settings(max_examples=8)
@given(paths=st.lists(segments, min_size=1, max_size=6), budget=st.sampled_from([20, 1_000]), seed=st.integers(0, 99))
def test_random_forests(heads: tuple[int, int], dtype: torch.dtype, paths: list[list[Ids]], budget: int, seed: int) -> None:
    requests = [Request(tuple(path), READOUT) for path in paths]
    for _, found, expected in run(list(schedule(requests, budget)), heads, dtype, seed):
        torch.testing.assert_close(found.double(), expected, rtol=2e-3, atol=2e-3 if dtype == torch.float32 else 6e-3)


def test_a_long_prefix_and_many_suffixes_of_one_token() -> None:
    head = tuple(range(150))  # more than two tiles, and more than two blocks of keys
    requests = [Request((head, (i,)), READOUT) for i in range(100)]
    for _, found, expected in run(list(schedule(requests, 5_000)), (2, 1), torch.float32, 1):
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


def test_no_bit_depends_on_the_tokens_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same node first alone, then behind others in a tile."""
    # The interpreter multiplies with NumPy, whose product rounds a row by its place on some processors.
    monkeypatch.setattr(np, "matmul", lambda one, other, dtype: np.einsum("ij,jk->ik", one, other, dtype=dtype))
    dim, keys, values = DIM, *torch.randn(2, 400, 1, DIM, generator=torch.Generator().manual_seed(2))
    queries = torch.randn(90, 2, dim, generator=torch.Generator().manual_seed(3))
    prefix = Node(0, -1, tuple(range(70)))
    whole = [Node(1, 0, tuple(range(20))), Node(2, 0, tuple(range(21, 91)))]
    slots = {0: np.arange(70, dtype=np.int32), 1: np.arange(70, 90, dtype=np.int32), 2: np.arange(90, 160, dtype=np.int32)}

    def attended(nodes: list[Node], given: Tensor) -> Tensor:
        plan = plan_segments(node_table(nodes, {0: -1, 1: 0, 2: 0}, slots), tile_tokens(2), len(given))
        table = SegmentTable(plan.tokens, *map(torch.from_numpy, (plan.tile_starts, *plan.segments, plan.slots)))
        return segment_attention(given, keys, values, table)

    assert len(prefix.ids) == 70
    assert torch.equal(attended(whole, queries)[20:], attended(whole[1:], queries[20:]))
