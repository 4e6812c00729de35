"""Attention over segments in plain torch: tiles' keys are gathered into dense blocks, as many tiles a call as fit.

What `kernels.segment_attention` computes, for devices without Triton: the same tiles, the same segments. The host decides
which calls are made; the arrays are the device's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from quail_engine.engine.local.segments import SegmentPlan, Slots

_LEAST_KEYS = 64
_MOST_SCORES = 1 << 22
"""(token, key) pairs of a call: what the mask and, where no fused kernel takes it, the scores of one head need room for."""


@dataclass(frozen=True)
class TileCall:
    """Tiles with about as many keys."""

    first: int  # of its tiles, in `TilePlan.order`
    tiles: int
    keys: int  # a tile, padded
    start: int  # of its entries, in the arrays of keys


@dataclass(frozen=True)
class TilePlan:
    tokens: int  # of a tile
    calls: tuple[TileCall, ...]
    arrays: Mapping[str, Slots]
    """`order` [tiles]: tiles, call by call; `back` [tiles]: where each stands in it. An entry a key of a tile, call by call:
    `slots`, and the tokens of the tile that see it, `firsts` to `ends`, end exclusive."""


def plan_tiles(plan: SegmentPlan) -> TilePlan:
    starts, lengths, lows, highs, shifts = plan.segments.astype(np.int64)
    tiles = len(plan.tile_starts) - 1
    tile = np.repeat(np.arange(tiles), np.diff(plan.tile_starts))
    keys = np.bincount(tile, weights=lengths, minlength=tiles).astype(np.int64)
    padded = _LEAST_KEYS * 2 ** np.ceil(np.log2(np.maximum(keys / _LEAST_KEYS, 1))).astype(np.int64)
    order = np.argsort(padded, kind="stable")
    calls, size = [], 0
    for width in np.unique(padded).tolist():
        members = np.flatnonzero(padded[order] == width)
        most = max(1, _MOST_SCORES // (width * plan.tokens))
        for first in range(int(members[0]), int(members[-1]) + 1, most):
            count = min(most, int(members[-1]) + 1 - first)
            calls.append(TileCall(first, count, width, size))
            size += count * width
    begins = np.empty(tiles, np.int64)  # of each tile's entries
    for call in calls:
        begins[order[call.first : call.first + call.tiles]] = call.start + np.arange(call.tiles) * call.keys
    # Segments are sorted by tile: a key's place is its tile's beginning and the keys of the tile before it.
    key = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    before = np.cumsum(lengths) - lengths - np.repeat(np.cumsum(keys) - keys, np.diff(plan.tile_starts))
    place = np.repeat(begins[tile] + before, lengths) + key
    arrays = {name: np.zeros(size, np.int32) for name in ("slots", "firsts", "ends")}
    arrays["slots"][place] = plan.slots[np.repeat(starts, lengths) + key]
    arrays["firsts"][place] = np.maximum(np.repeat(lows, lengths), key - np.repeat(shifts, lengths))
    arrays["ends"][place] = np.repeat(highs, lengths)
    back = np.empty(tiles, np.int32)
    back[order] = np.arange(tiles)
    return TilePlan(plan.tokens, tuple(calls), {"order": order.astype(np.int32), "back": back, **arrays})


def tiled_attention(plan: TilePlan, arrays: Mapping[str, Tensor], queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """As `segment_attention`; `arrays` are the plan's, on the device. What no key is seen by is some finite number."""
    rows, query_heads, dim = queries.shape
    heads = keys.shape[1]
    group = query_heads // heads
    tiles = len(plan.arrays["order"])
    padded = F.pad(queries, (0, 0, 0, 0, 0, tiles * plan.tokens - rows))
    # [tiles, key heads, (token, member of the group), dim]
    blocks = padded.view(tiles, plan.tokens, heads, group, dim).transpose(1, 2).reshape(tiles, heads, -1, dim)
    blocks = blocks.index_select(0, arrays["order"])
    token = torch.arange(plan.tokens * group, device=queries.device, dtype=torch.int32) // group
    outputs = []
    for call in plan.calls:
        entries = slice(call.start, call.start + call.tiles * call.keys)
        key, value = (
            part.index_select(0, arrays["slots"][entries]).view(call.tiles, call.keys, heads, dim).transpose(1, 2)
            for part in (keys, values)
        )
        first, end = (arrays[name][entries].view(call.tiles, 1, call.keys) for name in ("firsts", "ends"))
        seen = (token[:, None] >= first) & (token[:, None] < end)
        seen |= ~seen.any(-1, keepdim=True)  # of padding: without any key its softmax would not be a number
        query = blocks[call.first : call.first + call.tiles]
        outputs.append(F.scaled_dot_product_attention(query, key, value, attn_mask=seen[:, None]))
    output = torch.cat(outputs).index_select(0, arrays["back"]).view(tiles, heads, plan.tokens, group, dim)
    return output.transpose(1, 2).reshape(-1, query_heads, dim)[:rows]
