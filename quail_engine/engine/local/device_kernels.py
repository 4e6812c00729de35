"""What a device computes between its matrix products: Triton's kernels, the same in plain torch, or libraries' attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from quail_engine.engine.local.kernels.add_norm import add_norm, add_norm_reference
from quail_engine.engine.local.kernels.quantise import Quantised, quantise, quantised_reference
from quail_engine.engine.local.kernels.rope import rope, rope_reference
from quail_engine.engine.local.kernels.scatter_kv import scatter_kv, scatter_kv_reference
from quail_engine.engine.local.kernels.segment_attention import SegmentTable, segment_attention, tile_tokens
from quail_engine.engine.local.kernels.swiglu import swiglu, swiglu_reference
from quail_engine.engine.local.segments import NodeTable, Slots, plan_segments
from quail_engine.engine.local.tiled_attention import plan_tiles, tiled_attention
from quail_engine.engine.local.varlen import Varlen
from quail_engine.engine.local.varlen_attention import plan_varlen, varlen_attention

Arrays = Mapping[str, Tensor]


@dataclass(frozen=True)
class PlannedAttention:
    """Attention of one batch: what it needs on the device, int32, and the call: (arrays there, queries, keys, values)."""

    arrays: Mapping[str, Slots]
    run: Callable[[Arrays, Tensor, Tensor, Tensor], Tensor]


Attention = Callable[[NodeTable, int, int], PlannedAttention]
"""Plans it: (nodes, rows of the batch, query heads of a key head)."""


@dataclass(frozen=True)
class Kernels:
    """Functions of the signatures in `kernels`."""

    name: str
    add_norm: Callable[..., Tensor | Quantised]
    rope: Callable[..., None]
    scatter_kv: Callable[..., None]
    swiglu: Callable[..., Tensor | Quantised]
    quantise: Callable[[Tensor], Quantised]
    attention: Attention


def _tiled(table: NodeTable, rows: int, group: int) -> PlannedAttention:
    tiles = plan_tiles(plan_segments(table, tile_tokens(group), rows))
    return PlannedAttention(tiles.arrays, lambda arrays, *given: tiled_attention(tiles, arrays, *given))


def _segmented(table: NodeTable, rows: int, group: int) -> PlannedAttention:
    plan = plan_segments(table, tile_tokens(group), rows)
    names = ("starts", "lengths", "lows", "highs", "shifts")
    arrays = {"tile_starts": plan.tile_starts, **dict(zip(names, plan.segments, strict=True)), "slots": plan.slots}

    def run(there: Arrays, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return segment_attention(queries, keys, values, SegmentTable(plan.tokens, *(there[name] for name in arrays)))

    return PlannedAttention(arrays, run)


def by_sequences(function: Varlen) -> Attention:
    """Attention by a library's function."""

    def planned(table: NodeTable, rows: int, group: int) -> PlannedAttention:
        plan = plan_varlen(table, rows)
        return PlannedAttention(plan.arrays, lambda arrays, *given: varlen_attention(function, plan, arrays, *given))

    return planned


TORCH = Kernels(
    "torch", add_norm_reference, rope_reference, scatter_kv_reference, swiglu_reference, quantised_reference, _tiled
)
TRITON = Kernels("Triton", add_norm, rope, scatter_kv, swiglu, quantise, _segmented)
