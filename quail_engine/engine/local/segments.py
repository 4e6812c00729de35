"""The host plan of a batch for attention over segments: which keys each tile of tokens attends to. NumPy only.

The fresh tokens of all nodes lie end to end, cut into tiles of the same number of tokens wherever that falls: a tile that holds
parts of several nodes reads the keys of their common path once. KV lies in slots of an arena, one a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quail_engine.batching.batch import Node

Slots = NDArray[np.int32]
Numbers = NDArray[np.int64]

_UNMASKED = 1 << 30


@dataclass(frozen=True)
class NodeTable:
    """A batch's nodes, in their order, and behind them those of earlier batches that stand above them: an entry each."""

    slots: Slots  # where the KV of each token lies, entry by entry
    starts: Numbers  # [entries] in `slots`
    lengths: Numbers  # [entries] in tokens
    parents: Numbers  # [entries] the entry above, -1 = none
    depths: Numbers  # [entries] how many stand above
    rows: Numbers  # [nodes + 1] where each node's fresh tokens begin in the batch, and where the last one's end
    shared: Numbers  # [nodes] tokens before the fresh ones, whose KV is a sibling's

    @property
    def fresh_slots(self) -> Slots:
        """[fresh tokens]: where each row's own keys and values are put."""
        return self.slots[ranges(self.starts[: len(self.shared)] + self.shared, np.diff(self.rows))]

    def above(self, parents: Numbers) -> tuple[Numbers, Numbers]:
        """What stands above nodes with these parents, -1 = none: (indices into `parents`, entries), ordered by the indices, and
        those of each from the root on; its parent is the last."""
        owners, current = np.arange(len(parents)), parents
        found = []
        while len(current := current[there := current >= 0]):
            owners = owners[there]
            found.append((owners, current))
            current = self.parents[current]
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        owners, entries = (np.concatenate(part[::-1]) for part in zip(*found, strict=True))
        order = np.argsort(owners, kind="stable")
        return owners[order], entries[order]


def node_table(nodes: Sequence[Node], parents: Mapping[int, int], slots: Mapping[int, Slots]) -> NodeTable:
    """`parents`: of each node, of the batch or held above one of it, the one above, -1 = none. `slots`: where each token's KV
    lies, of the same nodes; the first ones of a node that begins like its sibling are the sibling's."""
    numbers = [node.number for node in nodes]
    entries = dict(zip(numbers, range(len(numbers)), strict=True))
    above = []
    for number in numbers:  # it grows meanwhile
        parent = parents[number]
        if parent >= 0 and parent not in entries:
            entries[parent] = len(numbers)
            numbers.append(parent)
        above.append(entries[parent] if parent >= 0 else -1)
    kept = [slots[number] for number in numbers]
    lengths = np.array(list(map(len, kept)), np.int64)
    depths, current = np.zeros(len(numbers), np.int64), np.array(above, np.int64)
    up = np.append(current, -1)  # the last one is above those that nothing is above
    while (current >= 0).any():
        depths += current >= 0
        current = up[current]
    fresh = [len(node.ids) - node.shared for node in nodes]
    return NodeTable(
        slots=np.concatenate(kept) if kept else np.empty(0, np.int32),
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
        parents=up[:-1],
        depths=depths,
        rows=np.cumsum([0, *fresh]),
        shared=np.array([node.shared for node in nodes], np.int64),
    )


@dataclass(frozen=True)
class SegmentPlan:
    """`kernels.segment_attention.SegmentTable` on the host."""

    tokens: int  # of a tile
    tile_starts: Slots
    segments: Slots  # [5, segments]: start, length, low, high, shift
    slots: Slots


def plan_segments(table: NodeTable, tokens: int, rows: int) -> SegmentPlan:
    """`tokens`: of a tile; `rows`: of the batch, padded: what pads it attends to nothing."""
    first, end = table.rows[:-1], table.rows[1:]
    at = first // tokens
    counts = (end - 1) // tokens - at + 1  # tiles that a node has a piece in
    node = np.repeat(np.arange(len(first)), counts)
    tile = ranges(at, counts)
    begin = np.maximum(first[node], tile * tokens)
    low = begin - tile * tokens
    high = np.minimum(end[node] - tile * tokens, tokens)
    seen = table.shared[node] + begin - first[node]  # tokens of the node before the piece
    own = (tile, table.depths[node], table.starts[node], seen + high - low, low, high, seen - low)
    # Pieces side by side below one parent read what stands above them as one, and so do such groups below one ancestor.
    parent = table.parents[node]
    firsts, lasts = runs(tile, parent)
    group_tile, group_low, group_high = tile[firsts], low[firsts], high[lasts]
    group, ancestor = table.above(parent[firsts])
    order = np.argsort(group_tile[group] * len(table.starts) + ancestor, kind="stable")
    group, ancestor = group[order], ancestor[order]
    firsts, lasts = runs(group_tile[group], ancestor)
    last, group, ancestor = group[lasts], group[firsts], ancestor[firsts]
    above = (
        group_tile[group],
        table.depths[ancestor],
        table.starts[ancestor],
        table.lengths[ancestor],
        group_low[group],
        group_high[last],
        np.full(len(group), _UNMASKED),
    )
    tile, depth, *segments = (np.concatenate(parts) for parts in zip(own, above, strict=True))
    order = np.lexsort([depth, segments[2], tile])  # a token meets its path from the root on, and itself last
    bounds = np.bincount(tile, minlength=-(-rows // tokens))
    return SegmentPlan(
        tokens=tokens,
        tile_starts=np.concatenate([[0], np.cumsum(bounds)]).astype(np.int32),
        segments=np.array([part[order] for part in segments], np.int32),
        slots=table.slots,
    )


def runs(*keys: Numbers) -> tuple[Numbers, Numbers]:
    """The first and the last index of each run of places whose keys are the same.

    >>> [part.tolist() for part in runs(np.array([7, 7, 7, 8]), np.array([1, 1, 2, 2]))]
    [[0, 2, 3], [1, 2, 3]]
    """
    changes = np.ones(len(keys[0]) + 1, bool)
    changes[1:-1] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    bounds = np.flatnonzero(changes)
    return bounds[:-1], bounds[1:] - 1


def ranges(starts: Numbers, lengths: Numbers) -> Numbers:
    """
    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())
