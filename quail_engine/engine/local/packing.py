"""The host plan of a batch: where every node's tokens lie, and which attention calls are made. NumPy only, made once a batch.

All fresh tokens lie end to end in one row, in the batch's depth-first order. The first tokens of a node that begins like its
sibling are not among them: their keys and values are the sibling's. Attention is split along the forest:

* *own*: each node attends causally to itself. Nodes of about the same length are one call: they are gathered, padded at the
  end to the next multiple of a step. That the padding follows from a node's own length keeps its bits its own. So does that
  the call is made for the whole node: queries of tokens that a sibling has computed are others' in their places, and dropped.
* *prefix*: all tokens below a node attend to that node's KV, unmasked. They lie side by side, so that is one call a node with
  children, however many children there are. Short nodes with few tokens below are gathered, too: those of one length and one
  number of tokens below are one call. Calls are kept by level, the number of ancestors of the node attended to.

A token's parts are merged by their log-sum-exps: its own, then level 0, 1, ... in that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quail_engine.batching.batch import Batch
from quail_engine.engine.local.rows import padded_rows, query_step, round_up
from quail_engine.engine.local.weights import Config

Index = NDArray[np.int64]

_FEW = 128
"""Tokens of a node and below it, together, up to which a call of its own would take longer than gathering; no bit depends on
it."""


@dataclass(frozen=True)
class Span:
    """Tokens of the packed row, end exclusive."""

    start: int
    end: int


@dataclass(frozen=True)
class GatheredCall:
    pairs: int  # (node, kv head)
    members: int  # that share a pair's keys: the query heads of a group, or 1 where these are among the query rows
    query_rows: int  # of each member
    keys: int  # of each pair


@dataclass(frozen=True)
class Gathered:
    """Attention of many nodes: gather, a call for those of one size, scatter.

    Indices are rows of [kv heads, query rows] for queries, of [kv heads, kv rows] for keys and values.
    """

    calls: tuple[GatheredCall, ...]
    queries: Index  # [pair, member, query row] of all calls, end to end; the calls' outputs lie alike
    keys: Index  # [pair, key] of all calls, end to end
    tokens: Index | None  # those that attend; None = all rows of the batch
    outputs: Index  # where the output of each (token, group member, kv head) is


@dataclass(frozen=True)
class KvRows:
    """Where the keys and values of every node's tokens lie: among the batch's rows, then those taken from held nodes."""

    taken: tuple[tuple[int, int], ...]  # held nodes, and how many of their first tokens stand behind the batch's rows
    count: int  # rows in all
    starts: Index  # [nodes]: into `rows`
    rows: Index  # the row of each token, node by node
    contexts: Mapping[int, Index]  # rows of the held nodes that stand behind as a whole

    def of(self, node: int) -> Index:
        """Rows of a node's tokens, by its place in the batch."""
        return self.rows[self.starts[node] : self.starts[node + 1]]


@dataclass(frozen=True)
class PrefixCall:
    context: int  # number of the node attended to
    queries: Span  # every token below it in this batch


@dataclass(frozen=True)
class Level:
    alone: tuple[PrefixCall, ...]
    gathered: Gathered | None


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
    own: Gathered
    levels: tuple[Level, ...]
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
    below = _spans_below(batch, spans, held_parents)
    sizes = _lengths(batch, below, held_ends, held_parents)
    few = [[n for n, span in level.items() if sizes[n] + span.end - span.start <= _FEW] for level in below]
    kv = _kv_rows(batch, starts, rows, {number: sizes[number] for level in few for number in level if number not in spans})
    positions = np.arange(tokens) + np.repeat(first_positions - starts[:-1], lengths)
    kv_of = {**kv.contexts, **{node.number: kv.of(i) for i, node in enumerate(batch.nodes)}}
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
        levels=tuple(
            Level(
                alone=tuple(PrefixCall(number, span) for number, span in level.items() if number not in gathered),
                gathered=_gathered_prefixes({n: level[n] for n in gathered}, kv_of, kv.count, config, query_rows),
            )
            for level, gathered in zip(below, few, strict=True)
        ),
        read_tokens=_padded(read_tokens.astype(np.int64), padded_rows(len(read_tokens), config.intermediate_size, threads)),
        read_rows=read_rows,
    )


def _padded(values: Index, count: int) -> Index:
    return np.concatenate([values, np.full(count - len(values), values[0] if len(values) else 0)])


def _kv_rows(batch: Batch, starts: Index, rows: int, held: Mapping[int, int]) -> KvRows:
    """`held`: tokens of the nodes of earlier batches that are gathered from."""
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
    contexts = {}
    for number, length in held.items():
        taken.append((number, length))
        contexts[number] = np.arange(rows, rows + length)
        rows += length
    return KvRows(tuple(taken), rows, whole_starts, found, contexts)


def _own_attention(batch: Batch, starts: Index, kv: KvRows, config: Config, rows: int, query_rows: int) -> Gathered:
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
        output = np.arange(done, done + query.size).reshape(query.shape)
        scatter[token[fresh]] = output.transpose(0, 3, 2, 1)[fresh]
        calls.append(GatheredCall(len(members) * config.num_kv_heads, config.group, int(length), int(length)))
        done += query.size
    return Gathered(tuple(calls), np.concatenate(queries), np.concatenate(keys), None, scatter.ravel())


def _gathered_prefixes(
    below: Mapping[int, Span], kv_of: Mapping[int, Index], kv_rows: int, config: Config, query_rows: int
) -> Gathered | None:
    """`below`: the tokens below each node; `kv_of`: its rows, of `kv_rows` in all."""
    alike: dict[tuple[int, int], list[int]] = {}
    for number, span in below.items():
        alike.setdefault((len(kv_of[number]), span.end - span.start), []).append(number)
    if not alike:
        return None
    heads = np.arange(config.num_kv_heads)[:, None]
    step = query_step(config.num_kv_heads)
    calls, queries, keys, tokens, outputs = [], [], [], [], []
    done = 0
    for (length, count), members in alike.items():
        starts = np.array([below[number].start for number in members])[:, None]
        # The rows that round the count up belong to other tokens, or to nobody; they are computed and dropped.
        rows = round_up(count * config.group, step)
        query = heads * query_rows + (starts[:, None] * config.group + np.arange(rows))
        queries.append(query.ravel())
        keys.append((heads * kv_rows + np.array([kv_of[number] for number in members])[:, None]).ravel())
        tokens.append((starts + np.arange(count)).ravel())
        output = np.arange(done, done + query.size).reshape(query.shape)[..., : count * config.group]
        outputs.append(output.transpose(0, 2, 1).ravel())
        calls.append(GatheredCall(len(members) * config.num_kv_heads, 1, rows, length))
        done += query.size
    return Gathered(tuple(calls), *map(np.concatenate, (queries, keys, tokens, outputs)))


def _lengths(
    batch: Batch, below: Sequence[Mapping[int, Span]], held_ends: Mapping[int, int], held_parents: Mapping[int, int]
) -> dict[int, int]:
    """The tokens of every node that is attended to."""
    starts = {**held_ends, -1: 0}
    lengths = {node.number: len(node.ids) for node in batch.nodes}
    held = (number for level in below for number in level if number not in lengths)
    return lengths | {number: held_ends[number] - starts[held_parents[number]] for number in held}


def _spans_below(batch: Batch, spans: Mapping[int, Span], held_parents: Mapping[int, int]) -> list[dict[int, Span]]:
    """For every node with tokens below it in this batch: the span of those tokens, by level."""
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
    return below
