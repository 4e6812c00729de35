"""The host plan of a batch: where every node's tokens lie, and which attention calls are made. NumPy only, made once a batch.

All fresh tokens lie end to end in one row, in the batch's depth-first order. The first tokens of a node that begins like its
sibling are not among them: their keys and values are the sibling's. Attention is split along the forest:

* *own*: each node attends causally to itself. Nodes of about the same length are one call: they are gathered, padded at the
  end to the next multiple of a step. That the padding follows from a node's own length keeps its bits its own. So does that
  the call is made for the whole node: queries of tokens that a sibling has computed are others' in their places, and dropped.
* *prefix*: all tokens below a node attend to that node's KV, unmasked. They lie side by side, so that is one call a node with
  children, however many children there are. Calls are kept by level, the number of ancestors of the node attended to.

A token's parts are merged by their log-sum-exps: its own, then level 0, 1, ... in that order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quail_engine.batching.batch import Batch
from quail_engine.engine.local.rows import padded_rows, query_step, round_up
from quail_engine.engine.local.weights import Config

Index = NDArray[np.int64]


@dataclass(frozen=True)
class Span:
    """Tokens of the packed row, end exclusive."""

    start: int
    end: int


@dataclass(frozen=True)
class OwnCall:
    nodes: int
    length: int  # tokens a node, padded


@dataclass(frozen=True)
class OwnAttention:
    """The causal part: gather, one call a length, scatter.

    Indices are rows of [kv heads, query rows] for queries, of [kv heads, kv rows] for keys and values; the calls' outputs, laid
    end to end as [node, kv head, token, group member], are brought to [token, group member, kv head] by `scatter`.
    """

    calls: tuple[OwnCall, ...]
    queries: Index  # [node, kv head, group member, token] of all calls, end to end
    keys: Index  # [node, kv head, token] of all calls, end to end
    scatter: Index  # one a (token, group member, kv head)


@dataclass(frozen=True)
class KvRows:
    """Where the keys and values of every node's tokens lie: among the batch's rows, then those taken from held nodes."""

    taken: tuple[tuple[int, int], ...]  # held nodes, and how many of their first tokens stand behind the batch's rows
    count: int  # rows in all
    starts: Index  # [nodes]: into `rows`
    rows: Index  # the row of each token, node by node

    def of(self, node: int) -> Index:
        """Rows of a node's tokens, by its place in the batch."""
        return self.rows[self.starts[node] : self.starts[node + 1]]


@dataclass(frozen=True)
class PrefixCall:
    context: int  # number of the node attended to
    queries: Span  # every token below it in this batch


@dataclass(frozen=True)
class Packing:
    tokens: int
    rows: int  # tokens, padded for the linears
    query_rows: int  # (token, group member) pairs a kv head, padded so that every call can be rounded up
    ids: Index  # [rows]; padding repeats the first token
    positions: Index  # [rows]
    spans: Mapping[int, Span]  # node number → its fresh tokens
    taken: tuple[tuple[int, int], ...]  # held nodes, and how many of their first tokens' KV is put behind that of the rows
    kv_rows: Mapping[int, Index]  # node number → rows of its tokens' KV, where they don't lie side by side as its span
    ends: Mapping[int, int]  # node number → the position after its last token
    own: OwnAttention
    levels: tuple[tuple[PrefixCall, ...], ...]
    read_tokens: Index  # [read rows]: the tokens that are read, each once, padded with the first
    read_rows: Index  # a read → its index in read_tokens


def pack(batch: Batch, held_ends: Mapping[int, int], held_parents: Mapping[int, int], config: Config, threads: int) -> Packing:
    """Plans `batch`, whose nodes may hang below nodes of earlier batches (their ends and parents are given)."""
    lengths = np.array([node.fresh for node in batch.nodes])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    tokens = int(starts[-1])
    rows = padded_rows(tokens, config.intermediate_size, threads)
    spans = {node.number: Span(int(starts[i]), int(starts[i + 1])) for i, node in enumerate(batch.nodes)}
    ends = dict(held_ends)
    first_positions = np.empty(len(lengths), dtype=np.int64)
    for i, node in enumerate(batch.nodes):
        first_positions[i] = (ends[node.parent] if node.parent >= 0 else 0) + node.shared
        ends[node.number] = int(first_positions[i]) + node.fresh
    ids = np.fromiter((token for node in batch.nodes for token in node.ids[node.shared :]), dtype=np.int64, count=tokens)
    kv = _kv_rows(batch, starts, rows)
    positions = np.arange(tokens) + np.repeat(first_positions - starts[:-1], lengths)
    step = query_step(config.num_kv_heads)
    query_rows = round_up(rows * config.group, step) + step
    read_tokens, read_rows = np.unique([spans[read.node].end - 1 for read in batch.reads], return_inverse=True)
    return Packing(
        tokens=tokens,
        rows=rows,
        query_rows=query_rows,
        ids=_padded(ids, rows),
        positions=_padded(positions, rows),
        spans=spans,
        taken=kv.taken,
        kv_rows={node.number: kv.of(i) for i, node in enumerate(batch.nodes) if node.shared},
        ends=ends,
        own=_own_attention(batch, starts, kv, config, rows, query_rows),
        levels=_prefix_calls(batch, spans, held_parents),
        read_tokens=_padded(read_tokens.astype(np.int64), padded_rows(len(read_tokens), config.intermediate_size, threads)),
        read_rows=read_rows,
    )


def _padded(values: Index, count: int) -> Index:
    return np.concatenate([values, np.full(count - len(values), values[0] if len(values) else 0)])


def _kv_rows(batch: Batch, starts: Index, rows: int) -> KvRows:
    lengths = np.array([len(node.ids) for node in batch.nodes])
    shared = np.array([node.shared for node in batch.nodes])
    whole_starts = np.concatenate([[0], np.cumsum(lengths)])
    found = np.arange(whole_starts[-1]) + np.repeat(starts[:-1] - shared - whole_starts[:-1], lengths)
    places = {node.number: i for i, node in enumerate(batch.nodes)} if shared.any() else {}
    taken = []
    for i in np.flatnonzero(shared).tolist():
        node, start = batch.nodes[i], whole_starts[i]
        if node.sibling in places:
            first = whole_starts[places[node.sibling]]
            found[start : start + node.shared] = found[first : first + node.shared]
        else:
            taken.append((node.sibling, node.shared))
            found[start : start + node.shared] = np.arange(rows, rows + node.shared)
            rows += node.shared
    return KvRows(tuple(taken), rows, whole_starts, found)


def _own_attention(batch: Batch, starts: Index, kv: KvRows, config: Config, rows: int, query_rows: int) -> OwnAttention:
    lengths = np.diff(kv.starts)
    shared = np.array([node.shared for node in batch.nodes])
    heads = np.arange(config.num_kv_heads)
    group = np.arange(config.group)
    step = query_step(config.num_heads)
    padded = -(-lengths // step) * step
    calls, queries, keys = [], [], []
    scatter = np.zeros((rows, config.group, config.num_kv_heads), dtype=np.int64)
    done = 0
    for length in np.unique(padded):
        members = np.flatnonzero(padded == length)
        offsets = np.arange(length)
        inside = offsets < lengths[members, None]  # [node, token]
        key = kv.rows[kv.starts[members, None] + np.where(inside, offsets, 0)]
        keys.append((heads[:, None] * kv.count + key[:, None, :]).ravel())
        fresh = inside & (offsets >= shared[members, None])
        token = starts[members, None] + np.where(fresh, offsets - shared[members, None], 0)
        query = heads[:, None, None] * query_rows + token[:, None, None, :] * config.group + group[:, None]
        queries.append(query.ravel())
        output = np.arange(done, done + query.size).reshape(len(members), config.num_kv_heads, int(length), config.group)
        scatter[token[fresh]] = output.transpose(0, 2, 3, 1)[fresh]
        calls.append(OwnCall(len(members), int(length)))
        done += query.size
    return OwnAttention(tuple(calls), np.concatenate(queries), np.concatenate(keys), scatter.ravel())


def _prefix_calls(
    batch: Batch, spans: Mapping[int, Span], held_parents: Mapping[int, int]
) -> tuple[tuple[PrefixCall, ...], ...]:
    """For every node with tokens below it in this batch: that node and the span of those tokens, by level."""
    parents = dict(held_parents) | {node.number: node.parent for node in batch.nodes}
    paths: dict[int, tuple[int, ...]] = {-1: ()}

    def path(number: int) -> tuple[int, ...]:
        """The nodes from the root to `number`, with it."""
        if number not in paths:
            paths[number] = (*path(parents[number]), number)
        return paths[number]

    below: list[dict[int, Span]] = []
    for node in batch.nodes:
        span = spans[node.number]
        for level, ancestor in enumerate(path(node.parent)):
            if level == len(below):
                below.append({})
            first = below[level].get(ancestor, span)
            below[level][ancestor] = Span(first.start, span.end)
    return tuple(tuple(PrefixCall(number, span) for number, span in calls.items()) for calls in below)
