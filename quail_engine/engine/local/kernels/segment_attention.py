"""Attention of a packed batch over a list of segments: prefixes without a mask, own ranges causal, in one pass.

A tile is a run of tokens with all query heads of one key head: a few suffixes of a join fill it together, and their common
prefix is read once for all of them. For each tile the plan lists the segments that some of its tokens attend to, in the order
of their paths. Keys are gathered by slot, in blocks that count from each segment's start; a block that a token does not see
changes nothing of it, to the bit. So a token's answer does not depend on what stands beside it, nor on where its keys lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from quail_engine.engine.local.kernels.language import power_of_two, tl, triton

BLOCK_ROWS = 128
"""Query rows of a tile: (token, query head of the group)."""

_LOG2_E = 1.4426950408889634


@dataclass(frozen=True)
class SegmentTable:
    """The plan on the device; all int32. `quail_engine.engine.local.segments` makes it.

    Tiles are `tokens` tokens each, from the first row on; the last one may be short. Segment s of tile t, for s in
    `tile_starts[t] … tile_starts[t + 1]`, is `lengths[s]` keys, those in the slots `slots[starts[s] …]`. The tokens `lows[s] …
    highs[s]` of the tile, end exclusive, attend to it: token i to its keys 0 … i + `shifts[s]`.
    """

    tokens: int
    tile_starts: Tensor  # [tiles + 1]
    starts: Tensor  # [segments]
    lengths: Tensor
    lows: Tensor
    highs: Tensor
    shifts: Tensor
    slots: Tensor  # [entries]

    @property
    def tiles(self) -> int:
        return len(self.tile_starts) - 1


@triton.jit
def segment_attention_kernel(
    queries, keys, values, output, tile_starts, starts, lengths, lows, highs, shifts, slots,
    rows, tile_tokens, query_stride, row_stride, key_heads, scale,
    GROUP: tl.constexpr, DIM: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """One program a (tile, key head)."""
    tile, key_head = tl.program_id(0), tl.program_id(1)
    place = tl.arange(0, ROWS)
    token, member = place // GROUP, place % GROUP
    row = (tile * tile_tokens + token).to(tl.int64)
    inside = (token < tile_tokens) & (row < rows)
    dim = tl.arange(0, DIM)
    first_of_row = (key_head * GROUP + member) * DIM
    query = tl.load(queries + (row * query_stride + first_of_row)[:, None] + dim[None, :], mask=inside[:, None], other=0.0)
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, DIM], tl.float32)
    for segment in range(tl.load(tile_starts + tile), tl.load(tile_starts + tile + 1)):
        start, length, shift = tl.load(starts + segment), tl.load(lengths + segment), tl.load(shifts + segment)
        attends = (token >= tl.load(lows + segment)) & (token < tl.load(highs + segment))
        for first in range(0, length, KEYS):
            key = first + tl.arange(0, KEYS)
            there = key < length
            slot = tl.load(slots + start + key, mask=there, other=0).to(tl.int64)
            base = (slot * key_heads + key_head) * DIM
            block = tl.load(keys + base[None, :] + dim[:, None], mask=there[None, :], other=0.0)
            scores = tl.dot(query, block) * scale
            seen = attends[:, None] & there[None, :] & (key[None, :] <= (token + shift)[:, None])
            scores = tl.where(seen, scores, float("-inf"))
            new = tl.maximum(largest, tl.max(scores, axis=1))
            finite = tl.where(new == float("-inf"), 0.0, new)
            share = tl.exp2(scores - finite[:, None])
            rescale = tl.exp2(largest - finite)
            total = total * rescale + tl.sum(share, axis=1)
            block = tl.load(values + base[:, None] + dim[None, :], mask=there[:, None], other=0.0)
            sums = tl.dot(share.to(block.dtype), block, sums * rescale[:, None])
            largest = new
    result = sums / tl.where(total > 0.0, total, 1.0)[:, None]
    tl.store(
        output + (row * row_stride + first_of_row)[:, None] + dim[None, :],
        result.to(output.dtype.element_ty),
        mask=inside[:, None],
    )


def block_keys(capability: int) -> int:
    """Keys that are looked at together, by the device's compute capability, such as 90: as many as its registers hold."""
    return 64 if capability >= 90 else 32


def tile_tokens(group: int) -> int:
    """Tokens of a tile when `group` query heads share a key head."""
    assert 1 <= group <= BLOCK_ROWS
    return BLOCK_ROWS // group


def segment_attention(queries: Tensor, keys: Tensor, values: Tensor, table: SegmentTable) -> Tensor:
    """Attention output [rows, query heads, dim], contiguous, in the queries' type.

    `queries` [rows, query heads, dim], heads of a group side by side; dimensions contiguous, rows at any stride. `keys` and
    `values` [slots, key heads, dim], contiguous. `dim` is a power of two from 16 on. Scores are scaled by dim^-0.5.
    """
    rows, query_heads, dim = queries.shape
    key_heads = keys.shape[1]
    group, left = divmod(query_heads, key_heads)
    assert left == 0
    assert table.tokens == tile_tokens(group)
    assert table.tiles * table.tokens >= rows
    assert dim == power_of_two(dim)
    assert dim >= 16
    assert queries.stride()[1:] == (dim, 1)
    assert keys.is_contiguous()
    assert values.shape == keys.shape
    assert values.is_contiguous()
    output = torch.empty(rows, query_heads, dim, dtype=queries.dtype, device=queries.device)
    if rows:
        segment_attention_kernel[(table.tiles, key_heads)](
            queries, keys, values, output,
            table.tile_starts, table.starts, table.lengths, table.lows, table.highs, table.shifts, table.slots,
            rows, table.tokens, queries.stride(0), query_heads * dim, key_heads, dim**-0.5 * _LOG2_E,
            GROUP=group, DIM=dim, ROWS=BLOCK_ROWS, KEYS=block_keys(_capability(queries)), num_warps=8, num_stages=2,
        )  # fmt: skip
    return output


def _capability(tensor: Tensor) -> int:
    """Of the device that holds it; the interpreter runs on the CPU, as the newest one known here."""
    if tensor.device.type != "cuda":
        return 90
    major, minor = torch.cuda.get_device_capability(tensor.device)
    return 10 * major + minor


def segment_attention_reference(queries: Tensor, keys: Tensor, values: Tensor, table: SegmentTable) -> Tensor:
    """The definition of `segment_attention`, one tile after the other, in fp32."""
    rows, query_heads, dim = queries.shape
    group = query_heads // keys.shape[1]
    output = torch.zeros(rows, query_heads, dim, dtype=torch.float32, device=queries.device)
    bounds = table.tile_starts.tolist()
    for tile in range(table.tiles):
        first = tile * table.tokens
        token = torch.arange(min(table.tokens, rows - first), device=queries.device)
        slots, seen = [], []
        for segment in range(bounds[tile], bounds[tile + 1]):
            start, length, low, high, shift = (
                int(part[segment]) for part in (table.starts, table.lengths, table.lows, table.highs, table.shifts)
            )
            key = torch.arange(length, device=queries.device)
            slots.append(table.slots[start : start + length].long())
            attends = (token >= low) & (token < high)
            seen.append(attends[:, None] & (key[None, :] <= token[:, None] + shift))
        here, mask = torch.cat(slots), torch.cat(seen, 1)
        key, value = (part[here].float().repeat_interleave(group, 1) for part in (keys, values))
        query = queries[first : first + len(token)].float()
        scores = torch.einsum("qhd,khd->hqk", query, key) * dim**-0.5
        shares = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        output[first : first + len(token)] = torch.einsum("hqk,khd->qhd", shares, value)
    return output.to(queries.dtype)
