"""Whether kernels do on a device what plain torch does there, and how long attention takes; on numbers of a model's shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from quail_engine.batching.batch import Batch, Node
from quail_engine.engine.local.device_kernels import TORCH, Attention, Kernels
from quail_engine.engine.local.device_plan import Placed
from quail_engine.engine.local.kernels.quantise import Quantised
from quail_engine.engine.local.segments import NodeTable, node_table
from quail_engine.engine.local.weights import Config
from quail_engine.roofline import CHUNK_TOKENS

_TREE = (
    Node(0, -1, (0,) * 70),
    *(Node(number, 0, (0,) * (3 * number)) for number in range(1, 7)),
    Node(7, 0, (0,) * 20, sibling=6, shared=5),
    Node(8, 7, (0,) * 9),
)
_PADDING = 5  # rows that no node has
_ROTATED = 32  # rows; each is turned alone, and the interpreter takes its time

# Batches that attention is timed on, of as many tokens each: long documents below a short head, and a join's short partners.
_TIMED = (
    (Node(0, -1, (0,) * 32), *(Node(number, 0, (0,) * CHUNK_TOKENS) for number in range(1, 9))),
    (
        Node(0, -1, (0,) * CHUNK_TOKENS),
        *(Node(number, number - 1, (0,) * CHUNK_TOKENS) for number in range(1, 4)),
        *(Node(number, 3, (0,) * 16) for number in range(4, 132)),
    ),
)
_RUNS = 5


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
    table = _placed(_TREE)
    rows = int(table.rows[-1]) + _PADDING

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
        copy = qkv[:_ROTATED].clone()
        kernels.rope(copy, rotation, where[:_ROTATED], config.num_heads, heads, norms, config.rms_norm_eps)
        return (copy,)

    def scattered(kernels: Kernels) -> tuple[Tensor, ...]:
        room = torch.zeros(2, rows, heads, dim, dtype=dtype, device=device)
        kernels.scatter_kv(qkv, room[0], room[1], where.flip(0))
        return (room,)

    def attended(kernels: Kernels) -> tuple[Tensor, ...]:
        keys, values = (qkv[:, start : start + heads].contiguous() for start in (config.num_heads, config.num_heads + heads))
        run = _launching(kernels.attention, table, rows, config.group, device)
        return (run(qkv[:, : config.num_heads], keys, values)[:-_PADDING],)

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


def attention_seconds(attention: Attention, config: Config, dtype: torch.dtype, device: torch.device) -> float:
    """Of one layer, for the batches that are timed together; the fastest of a few runs, after one that compiles."""
    total = 0.0
    for nodes in _TIMED:
        table = _placed(nodes)
        rows = int(table.rows[-1])
        queries, keys, values = (
            torch.randn(rows + 1, heads, config.head_dim, device=device).to(dtype)
            for heads in (config.num_heads, config.num_kv_heads, config.num_kv_heads)
        )
        run = partial(_launching(attention, table, rows, config.group, device), queries[:rows], keys, values)
        total += min([_timed(run, device) for _ in range(1 + _RUNS)][1:])
    return total


def _timed(run: Callable[[], Tensor], device: torch.device) -> float:
    start = perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return perf_counter() - start


def _placed(nodes: Sequence[Node]) -> NodeTable:
    """The nodes of a batch whose KV lies row by row."""
    batch = Batch(tuple(nodes), (), frozenset())
    placed = Placed().with_batch(batch, np.arange(batch.tokens, dtype=np.int32))
    return node_table(batch.nodes, placed.parents, placed.slots)


def _launching(
    attention: Attention, table: NodeTable, rows: int, group: int, device: torch.device
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    planned = attention(table, rows, group)
    arrays = {name: torch.from_numpy(array).to(device) for name, array in planned.arrays.items()}
    return partial(planned.run, arrays)
