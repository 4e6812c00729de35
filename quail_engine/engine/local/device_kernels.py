"""What a device computes between its matrix products: Triton's kernels, or the same in plain torch. Chosen once, at load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from quail_engine.batching.batch import Node
from quail_engine.engine.local.kernels.add_norm import add_norm, add_norm_reference
from quail_engine.engine.local.kernels.language import AVAILABLE
from quail_engine.engine.local.kernels.quantise import Quantised, quantise, quantised_reference
from quail_engine.engine.local.kernels.rope import rope, rope_reference
from quail_engine.engine.local.kernels.scatter_kv import scatter_kv, scatter_kv_reference
from quail_engine.engine.local.kernels.segment_attention import SegmentTable, segment_attention, tile_tokens
from quail_engine.engine.local.kernels.swiglu import swiglu, swiglu_reference
from quail_engine.engine.local.segments import SegmentPlan, Slots, plan_segments
from quail_engine.engine.local.tiled_attention import plan_tiles, tiled_attention
from quail_engine.engine.local.weights import Config

Arrays = Mapping[str, Tensor]


@dataclass(frozen=True)
class PlannedAttention:
    """Attention of one batch: what it needs on the device, int32, and the call: (arrays there, queries, keys, values)."""

    arrays: Mapping[str, Slots]
    run: Callable[[Arrays, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Kernels:
    """Functions of the signatures in `kernels`."""

    name: str
    add_norm: Callable[..., Tensor | Quantised]
    rope: Callable[..., None]
    scatter_kv: Callable[..., None]
    swiglu: Callable[..., Tensor | Quantised]
    quantise: Callable[[Tensor], Quantised]
    attention: Callable[[SegmentPlan], PlannedAttention]


def _tiled(plan: SegmentPlan) -> PlannedAttention:
    tiles = plan_tiles(plan)
    return PlannedAttention(tiles.arrays, lambda arrays, *given: tiled_attention(tiles, arrays, *given))


def _segmented(plan: SegmentPlan) -> PlannedAttention:
    names = ("starts", "lengths", "lows", "highs", "shifts")
    arrays = {"tile_starts": plan.tile_starts, **dict(zip(names, plan.segments, strict=True)), "slots": plan.slots}

    def run(there: Arrays, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return segment_attention(queries, keys, values, SegmentTable(plan.tokens, *(there[name] for name in arrays)))

    return PlannedAttention(arrays, run)


TORCH = Kernels(
    "torch", add_norm_reference, rope_reference, scatter_kv_reference, swiglu_reference, quantised_reference, _tiled
)
TRITON = Kernels("triton", add_norm, rope, scatter_kv, swiglu, quantise, _segmented)


def choose_kernels(config: Config, dtype: torch.dtype, device: torch.device, fp8: bool) -> tuple[Kernels, str]:
    """The kernels for a device, and why, for people. Triton's serve only where they agree with plain torch, tried now."""
    if device.type != "cuda":
        return TORCH, "plain torch"
    if not AVAILABLE:
        return TORCH, "plain torch: Triton is not installed, pip install 'dbt-quail[gpu]'"
    try:
        apart = disagreement(TRITON, config, dtype, device, fp8)
    except Exception as error:  # noqa: BLE001 - whatever a compiler or a driver raises, plain torch answers as well
        return TORCH, f"plain torch: Triton's kernels failed ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
    if apart:
        return TORCH, f"plain torch: Triton's {apart} differs from its definition on this device"
    return TRITON, "Triton kernels, compared with plain torch on this device"


def disagreement(kernels: Kernels, config: Config, dtype: torch.dtype, device: torch.device, fp8: bool) -> str | None:
    """The first kernel whose result on random numbers of the model's shapes is not plain torch's; None where all agree."""
    for name, run in _trials(config, dtype, device, fp8).items():
        found, expected = run(kernels), run(TORCH)
        for one, other in zip(found, expected, strict=True):
            apart = (one.float() - other.float()).norm() / other.float().norm().clamp_min(1e-6)
            if not apart < (2e-2 if fp8 else 1e-2):
                return name
    return None


def _trials(
    config: Config, dtype: torch.dtype, device: torch.device, fp8: bool
) -> dict[str, Callable[[Kernels], tuple[Tensor, ...]]]:
    """Each gives the kernel's results: all that it returns, or writes."""
    chance = torch.Generator().manual_seed(0)
    dim, heads, every = config.head_dim, config.num_kv_heads, config.num_heads + 2 * config.num_kv_heads
    nodes = (Node(0, -1, (0,) * 70), *(Node(i, 0, (0,) * (3 * i)) for i in range(1, 7)))
    rows = sum(node.fresh for node in nodes)
    ends = np.cumsum([node.fresh for node in nodes])
    slots = {node.number: np.arange(end - node.fresh, end, dtype=np.int32) for node, end in zip(nodes, ends, strict=True)}
    plan = plan_segments(nodes, {0: ()} | dict.fromkeys(range(1, 7), (0,)), slots, tile_tokens(config.group))

    def random(*shape: int, kind: torch.dtype = dtype) -> Tensor:
        return torch.randn(shape, generator=chance).to(device, kind)

    residual, update = random(rows, config.hidden_size, kind=torch.float32), random(rows, config.hidden_size)
    weight, gate_up = random(config.hidden_size, kind=torch.float32), random(rows, 2 * config.intermediate_size)
    qkv, norms = random(rows, every, dim), random(2, dim, kind=torch.float32) if config.qk_norm else None
    angles = random(rows, dim // 2, kind=torch.float32)
    rotation, where = torch.stack([angles.cos(), angles.sin()], -1), torch.arange(rows, device=device, dtype=torch.int32)

    def results(given: Tensor | Quantised) -> tuple[Tensor, ...]:
        return (given[0].float() * given[1],) if isinstance(given, tuple) else (given,)

    def normed(kernels: Kernels) -> tuple[Tensor, ...]:
        stream = residual.clone()
        return (*results(kernels.add_norm(stream, update, weight, config.rms_norm_eps, update, fp8)), stream)

    def turned(kernels: Kernels) -> tuple[Tensor, ...]:
        copy = qkv.clone()
        kernels.rope(copy, rotation, where, config.num_heads, heads, norms, config.rms_norm_eps)
        return (copy,)

    def scattered(kernels: Kernels) -> tuple[Tensor, ...]:
        room = torch.zeros(2, rows, heads, dim, dtype=dtype, device=device)
        kernels.scatter_kv(qkv, room[0], room[1], where.flip(0))
        return (room,)

    def attended(kernels: Kernels) -> tuple[Tensor, ...]:
        planned = kernels.attention(plan)
        there = {name: torch.from_numpy(array).to(device) for name, array in planned.arrays.items()}
        keys, values = (qkv[:, start : start + heads].contiguous() for start in (config.num_heads, config.num_heads + heads))
        return (planned.run(there, qkv[:, : config.num_heads], keys, values),)

    trials: dict[str, Callable[[Kernels], tuple[Tensor, ...]]] = {
        "add_norm": normed,
        "rope": turned,
        "scatter_kv": scattered,
        "swiglu": lambda kernels: results(kernels.swiglu(gate_up, fp8)),
        "segment_attention": attended,
    }
    if fp8:
        trials["quantise"] = lambda kernels: results(kernels.quantise(update))
    return trials
