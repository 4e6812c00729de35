"""What a device computes between its matrix products: Triton's kernels, or the same in plain torch. Chosen once, at load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from quail_engine.batching.batch import Node
from quail_engine.engine.local.device import name_of
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
TRITON = Kernels("Triton", add_norm, rope, scatter_kv, swiglu, quantise, _segmented)


@dataclass(frozen=True)
class Chosen:
    kernels: Kernels
    about: str  # which run, and why, for people
    remarks: tuple[str, ...] = ()  # what a user would want to mend


def choose_kernels(config: Config, dtype: torch.dtype, device: torch.device, fp8: bool) -> Chosen:
    """The kernels for a device. Each of Triton's serves only where it agrees with plain torch, tried now."""
    if device.type != "cuda":
        return Chosen(TORCH, "plain torch")
    if not AVAILABLE:
        missing = "plain torch, as Triton is not installed: pip install 'dbt-quail[gpu]'"
        return Chosen(TORCH, missing, (f"{name_of(device)} runs {missing}.",))
    return checked(TRITON, config, dtype, device, fp8)


def checked(kernels: Kernels, config: Config, dtype: torch.dtype, device: torch.device, fp8: bool) -> Chosen:
    """`kernels` as they run on this device, with plain torch in place of each that does not do what it is to do."""
    wrong, on = disagreements(kernels, config, dtype, device, fp8), name_of(device)
    if not wrong:
        return Chosen(kernels, f"{kernels.name} kernels, checked on {on}")
    mixed: Kernels = replace(kernels, **{name: getattr(TORCH, name) for name in wrong}, name=f"{kernels.name} and torch")
    served = "; ".join(f"{name} {why}" for name, why in wrong.items())
    about = f"{kernels.name} kernels, checked on {on}, but plain torch for {', '.join(wrong)}"
    return Chosen(mixed, about, (f"On {on} plain torch serves in place of {kernels.name}'s kernels that are wrong: {served}.",))


def disagreements(kernels: Kernels, config: Config, dtype: torch.dtype, device: torch.device, fp8: bool) -> dict[str, str]:
    """Kernels, by the name of their field, whose results on random numbers of the model's shapes are not plain torch's; and
    what they do instead."""
    found: dict[str, str] = {}
    for name, run in _trials(config, dtype, device, fp8).items():
        expected = run(TORCH)
        try:
            apart = max(_apart(one, other) for one, other in zip(run(kernels), expected, strict=True))
        except Exception as error:  # noqa: BLE001 - whatever a compiler or a driver raises, plain torch answers as well
            found[name] = f"fails ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
            continue
        if not apart < (2e-2 if fp8 else 1e-2):
            found[name] = f"is {apart:.2g} off"
    return found


def _apart(one: Tensor, other: Tensor) -> float:
    """Relative Frobenius norm of the difference; NaN is infinitely far."""
    apart = float((one.float() - other.float()).norm() / other.float().norm().clamp_min(1e-6))
    return apart if apart == apart else float("inf")


def _trials(
    config: Config, dtype: torch.dtype, device: torch.device, fp8: bool
) -> dict[str, Callable[[Kernels], tuple[Tensor, ...]]]:
    """By the field of a kernel: gives its results, all that it returns or writes."""
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
        "attention": attended,
    }
    if fp8:
        trials["quantise"] = lambda kernels: results(kernels.quantise(update))
    return trials
