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

_UNMASKED = 1 << 30


@dataclass(frozen=True)
class SegmentPlan:
    """`kernels.segment_attention.SegmentTable` on the host, and where fresh KV goes."""

    tokens: int  # of a tile
    tile_starts: Slots
    segments: Slots  # [5, segments]: start, length, low, high, shift
    slots: Slots  # of every token of every node that is attended to, node by node
    fresh_slots: Slots  # [fresh tokens]: where each row's own keys and values are put


def plan_segments(
    nodes: Sequence[Node], paths: Mapping[int, Sequence[int]], slots: Mapping[int, Slots], tokens: int
) -> SegmentPlan:
    """Plans a batch's nodes, in their order.

    `paths`: of each node, its ancestors from the root on, in this batch or held. `slots`: where each token's KV lies, of the
    batch's nodes and of all ancestors; the first ones of a node that begins like its sibling are the sibling's. `tokens`: of a
    tile.
    """
    entries: dict[int, int] = {}  # node → where its slots begin in the table
    table: list[Slots] = []
    size = 0
    tiles: list[list[list[int]]] = []
    last: dict[int, list[int]] = {}  # ancestor → its segment in the last tile
    row = 0

    def entry(number: int) -> int:
        nonlocal size
        if number not in entries:
            entries[number] = size
            table.append(slots[number])
            size += len(slots[number])
        return entries[number]

    for node in nodes:
        done = 0
        while done < node.fresh:
            tile, low = divmod(row, tokens)
            if tile == len(tiles):
                tiles.append([])
                last = {}
            taken = min(node.fresh - done, tokens - low)
            for ancestor in paths[node.number]:
                segment = last.get(ancestor)
                if segment is None:
                    last[ancestor] = segment = [entry(ancestor), len(slots[ancestor]), low, low, _UNMASKED]
                    tiles[-1].append(segment)
                segment[3] = low + taken
            seen = node.shared + done
            tiles[-1].append([entry(node.number), seen + taken, low, low + taken, seen - low])
            done, row = done + taken, row + taken
    counts = [len(tile) for tile in tiles]
    return SegmentPlan(
        tokens=tokens,
        tile_starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        segments=np.array([segment for tile in tiles for segment in tile], np.int32).reshape(-1, 5).T.copy(),
        slots=np.concatenate(table).astype(np.int32) if table else np.empty(0, np.int32),
        fresh_slots=np.concatenate([slots[node.number][node.shared :] for node in nodes]).astype(np.int32),
    )
