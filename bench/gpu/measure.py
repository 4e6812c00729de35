"""Times of the engine's parts on a device: products, attention, what stands between them, and whole models."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import torch

from quail_engine.batching.batch import Batch, work_of
from quail_engine.batching.forest import schedule
from quail_engine.engine.local.device_engine import DeviceEngine
from quail_engine.engine.local.device_kernels import Attention, Kernels
from quail_engine.engine.local.device_model import Matrix, product
from quail_engine.engine.local.kernels.quantise import quantised_reference
from quail_engine.engine.local.weights import Config
from quail_engine.prompts.request import Request
from quail_engine.roofline import Work


def settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(run: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Of one run, the fastest of a few series, after one that compiles."""
    run()
    settle(device)
    best = float("inf")
    for _ in range(3):
        start = perf_counter()
        for _ in range(repeats):
            run()
        settle(device)
        best = min(best, (perf_counter() - start) / repeats)
    return best


def shapes(config: Config) -> dict[str, tuple[int, int]]:
    """A layer's matrices: [out, in]."""
    dim = config.head_dim
    return {
        "qkv": ((config.num_heads + 2 * config.num_kv_heads) * dim, config.hidden_size),
        "output": (config.hidden_size, config.num_heads * dim),
        "gate_up": (2 * config.intermediate_size, config.hidden_size),
        "down": (config.hidden_size, config.intermediate_size),
    }


def products(config: Config, device: torch.device, rows: int, fp8: bool, repeats: int) -> Iterator[dict[str, Any]]:
    for name, (out, columns) in shapes(config).items():
        weight = torch.randn(out, columns, device=device).mul_(columns**-0.5)
        given: Any = torch.randn(rows, columns, device=device)
        matrix = Matrix(weight.bfloat16(), None)
        if fp8:
            quantised, scales = quantised_reference(weight)
            matrix, given = Matrix(quantised, scales.t()), quantised_reference(given)
        else:
            given = given.bfloat16()
        took = seconds(partial(product, given, matrix, torch.bfloat16), device, repeats)
        yield {"product": name, "fp8": fp8, "rows": rows, "seconds": took, "tflops": 2e-12 * rows * out * columns / took}


def glue(
    config: Config, kernels: Kernels, device: torch.device, rows: int, fp8: bool, repeats: int
) -> Iterator[dict[str, Any]]:
    """Bytes a second of what is no product, beside a plain copy's: read and written once each."""
    hidden, mlp, dim, heads = config.hidden_size, config.intermediate_size, config.head_dim, config.num_kv_heads
    every = config.num_heads + 2 * heads
    residual, update = torch.randn(rows, hidden, device=device), torch.randn(rows, hidden, device=device).bfloat16()
    weight, gate_up = torch.ones(hidden, device=device), torch.randn(rows, 2 * mlp, device=device).bfloat16()
    qkv, rotation = torch.randn(rows, every, dim, device=device).bfloat16(), torch.randn(rows, dim // 2, 2, device=device)
    norms, room = torch.ones(2, dim, device=device), torch.zeros(2, rows, heads, dim, device=device).bfloat16()
    where = torch.arange(rows, device=device, dtype=torch.int32)
    source, target = torch.randn(rows, 4 * hidden, device=device), torch.empty(rows, 4 * hidden, device=device)
    size = 1 if fp8 else 2
    runs: dict[str, tuple[Callable[[], object], int]] = {
        "copy": (lambda: target.copy_(source), 8 * 4 * hidden),
        "add_norm": (lambda: kernels.add_norm(residual, update, weight, 1e-6, update, fp8), (8 + 2 + size) * hidden),
        "swiglu": (lambda: kernels.swiglu(gate_up, fp8), (4 + size) * mlp),
        "rope": (
            lambda: kernels.rope(qkv, rotation, where, config.num_heads, heads, norms, 1e-6),
            4 * (every - heads) * dim,
        ),
        "scatter_kv": (lambda: kernels.scatter_kv(qkv, room[0], room[1], where), 8 * heads * dim),
    }
    copied = 0.0
    for name, (run, width) in runs.items():
        took = seconds(run, device, repeats)
        rate = 1e-9 * rows * width / took
        copied = copied or rate
        yield {"glue": name, "fp8": fp8, "seconds": took, "gb_per_second": rate, "of_copy": rate / copied}


def attention(
    engine: DeviceEngine, config: Config, batch: Batch, repeats: int, attentions: Mapping[str, Attention]
) -> Iterator[dict[str, Any]]:
    """A layer's attention over a batch whose nodes hang below none that is held, by each of them."""
    device = engine._device
    work = work_of(batch.nodes)
    flops = 4 * config.num_heads * config.head_dim * work.pairs
    fresh = engine._arena.take(batch.tokens)
    plan = engine._plan(batch, engine._held.with_batch(batch, fresh))
    engine._arena.give_back([fresh])
    queries = torch.randn(plan.rows, config.num_heads, config.head_dim, device=device).bfloat16()
    for name, one in attentions.items():
        planned = one(plan.table, plan.rows, config.group)
        arrays = {key: torch.from_numpy(array).to(device) for key, array in planned.arrays.items()}
        keys, values = engine._arena.keys[0], engine._arena.values[0]
        took = seconds(partial(planned.run, arrays, queries, keys, values), device, repeats)
        yield {"attention": name, "pairs": work.pairs, "seconds": took, "tflops": 1e-12 * flops / took}


def whole(engine: DeviceEngine, requests: Sequence[Request], token_budget: int) -> dict[str, Any]:
    """Two batches in flight; planning and scheduling are in the time. `host_share`: of it, what launching batches takes."""
    work, ends = Work(), {-1: 0}
    for batch in schedule(requests, token_budget):
        work += work_of(batch.nodes, ends)
        for node in batch.nodes:
            ends[node.number] = ends[node.parent] + len(node.ids)
    for warm in (True, False):
        start, launching = perf_counter(), 0.0
        pending: deque[Any] = deque()
        for batch in schedule(requests, token_budget):
            launched = perf_counter()
            pending.append(engine.submit(batch))
            launching += perf_counter() - launched
            if len(pending) >= engine.in_flight:
                pending.popleft().logits()
        while pending:
            pending.popleft().logits()
        took = perf_counter() - start
        if not warm:
            shape, logical = engine.roofline.shape, sum(request.tokens for request in requests)
            flops = 2 * (shape.projections + shape.mlps) * work.tokens
            flops += 4 * shape.heads * shape.head_dim * shape.layers * work.pairs
            return {"fresh": work.tokens, "logical": logical, "seconds": took, "fresh_per_second": work.tokens / took,
                    "logical_per_second": logical / took, "tflops": 1e-12 * flops / took,
                    "host_share": launching / took}  # fmt: skip
    raise AssertionError("two rounds are run")
