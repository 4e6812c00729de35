"""A schedule without its device: what is padded, how evenly the work lies, how full the arena is, what the host takes, and how
much of that the device waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from time import thread_time
from typing import Any

import numpy as np
import torch

from quail_engine.batching.batch import Batch, work_of
from quail_engine.engine.local.arena import Arena
from quail_engine.engine.local.device_engine import ROWS, DeviceEngine
from quail_engine.engine.local.device_kernels import TRITON
from quail_engine.engine.local.device_plan import Placed, plan_batch
from quail_engine.engine.local.weights import Config
from quail_engine.engine.rates import shape_of
from quail_engine.roofline import Machine, Roofline

PROCESSORS = 132  # of an H100 or H200
RATES = {
    "bfloat16": Machine(matrix_flops=7.9e14, attention_flops=3e14, bandwidth=4e12),
    "float8_e4m3fn": Machine(matrix_flops=1.45e15, attention_flops=3e14, bandwidth=4e12),
}
"""Best rates of an H200 that were published, by number format: the floor that times are held against."""

_SLOTS = 1 << 16


def simulate(config: Config, batches: Iterable[Batch]) -> dict[str, Any]:
    """Plans each batch as the engine does. Times are of one thread, by the processor's clock; what it takes to have the next
    of `batches` is among them, what it takes to launch kernels is not."""
    arena, held = Arena(config, _SLOTS, torch.bfloat16, torch.device("meta")), Placed()
    rooflines = {dtype: Roofline(shape_of(config), machine) for dtype, machine in RATES.items()}
    padded = tokens = most = 0
    hosts: list[float] = []
    floors: dict[str, list[float]] = {dtype: [] for dtype in RATES}
    waves = used = 0.0
    start = thread_time()
    for batch in batches:
        work, fresh = work_of(batch.nodes, held.ends), arena.take(batch.tokens)
        most = max(most, arena.slots - arena.free)
        placed = held.with_batch(batch, fresh)
        plan = plan_batch(batch, placed, ROWS["cuda"])
        attention = TRITON.attention(plan.table, plan.rows, config.group).arrays
        kept = placed.only(batch.keep)
        arena.give_back([fresh, *held.slots.values()], kept.slots.values())
        held = kept
        hosts.append(thread_time() - start)
        padded, tokens = padded + plan.rows, tokens + plan.tokens
        # Tiles that read the same keys find them in the cache: they come from memory once a batch.
        work = replace(work, kv_read=len(plan.table.slots))
        for dtype, roofline in rooflines.items():
            floors[dtype].append(roofline.seconds(work, plan.rows))
        tiles = np.repeat(np.arange(len(attention["tile_starts"]) - 1), np.diff(attention["tile_starts"]))
        keys = np.bincount(tiles, weights=attention["lengths"])  # that each tile's programs go through
        done, needed = _waves(keys, config.num_kv_heads)
        waves, used = waves + done, used + needed
        start = thread_time()
    found = {
        "batches": len(hosts),
        "tokens": tokens,
        "padding": padded / tokens - 1,
        "wave_efficiency": used / waves,
        "most_slots": most,
        "host_ms_a_batch": 1_000 * sum(hosts) / len(hosts),
    }
    for dtype, seconds in floors.items():
        took = elapsed(hosts, seconds, DeviceEngine.in_flight)
        found[f"host_of_floor {dtype}"] = sum(hosts) / sum(seconds)
        found[f"waits_of_floor {dtype}"] = took / sum(seconds) - 1
        found[f"fresh_per_second {dtype}"] = tokens / took
    return found


def elapsed(hosts: Sequence[float], devices: Sequence[float], in_flight: int) -> float:
    """Seconds for batches that take so long on the host and then on the device, of which the host has `in_flight` underway
    before it waits for the first.

    >>> elapsed([1, 1, 1], [10, 10, 10], 1), elapsed([1, 1, 1], [10, 10, 10], 2), elapsed([20, 20, 20], [10, 10, 10], 2)
    (33, 31, 70)
    """
    host = device = 0
    ends: list[float] = []
    for plan, compute in zip(hosts, devices, strict=True):
        if len(ends) >= in_flight:
            host = max(host, ends[-in_flight])
        host += plan
        device = max(device, host) + compute
        ends.append(device)
    return device


def _waves(keys: np.ndarray, heads: int) -> tuple[float, float]:
    """Time that attention's programs take in the order that they are launched, each where a processor is free first, and the
    time that they would take spread evenly; in keys."""
    ends = np.zeros(PROCESSORS)
    for work in np.tile(keys, heads).tolist():
        ends[ends.argmin()] += work
    return float(ends.max()), float(keys.sum() * heads / PROCESSORS)
