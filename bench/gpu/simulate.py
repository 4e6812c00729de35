"""A schedule without its device: what is padded, how evenly the work lies, how full the arena is, what the host takes, and how
much of that the device waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import thread_time
from typing import Any

import numpy as np

from quail_engine.batching.batch import Batch, work_of
from quail_engine.engine.local.arena import TRASH
from quail_engine.engine.local.device_engine import DeviceEngine
from quail_engine.engine.local.device_plan import Placed, plan_batch
from quail_engine.engine.local.kernels.segment_attention import tile_tokens
from quail_engine.engine.local.weights import Config
from quail_engine.engine.rates import shape_of
from quail_engine.roofline import Machine, Roofline

PROCESSORS = 132  # of an H100 or H200
ASSUMED = Machine(matrix_flops=7.9e14, attention_flops=3e14, bandwidth=4e12)
"""Best rates of an H200 in bf16 that were published: the floor that host times are held against."""


def simulate(config: Config, batches: Iterable[Batch], rows: int = 256) -> dict[str, Any]:
    """Plans each batch as the engine does. Times are of one thread, by the processor's clock; what it takes to have the next
    of `batches` is among them."""
    slots: dict[int, np.ndarray] = {}
    paths: dict[int, tuple[int, ...]] = {-1: ()}
    ends = {-1: 0}
    roofline = Roofline(shape_of(config), ASSUMED)
    tile, heads = tile_tokens(config.group), config.num_kv_heads
    padded = tokens = most = 0
    hosts: list[float] = []
    floors: list[float] = []
    waves = used = 0.0
    start = thread_time()
    for batch in batches:
        free = TRASH + 1 + sum(map(len, slots.values()))
        before = dict(ends)
        for node in batch.nodes:
            own = np.arange(free, free + node.fresh, dtype=np.int32)
            free += node.fresh
            slots[node.number] = np.concatenate([slots[node.sibling][: node.shared], own]) if node.shared else own
            paths[node.number] = () if node.parent < 0 else (*paths[node.parent], node.parent)
            ends[node.number] = ends[node.parent] + len(node.ids)
        plan = plan_batch(batch, Placed(slots, paths, ends), tile, rows)
        hosts.append(thread_time() - start)
        work = work_of(batch.nodes, before)
        most = max(most, free)
        padded, tokens = padded + plan.rows, tokens + plan.tokens
        floors.append(roofline.seconds(work, plan.rows))
        segments = plan.segments
        tiles = np.repeat(np.arange(len(segments.tile_starts) - 1), np.diff(segments.tile_starts))
        keys = np.bincount(tiles, weights=segments.segments[1])  # that each tile's programs go through
        done, needed = _waves(keys, heads)
        waves, used = waves + done, used + needed
        slots = {number: slots[number] for number in batch.keep}
        paths = {-1: (), **{number: paths[number] for number in batch.keep}}
        ends = {-1: 0, **{number: ends[number] for number in batch.keep}}
        start = thread_time()
    host, floor = sum(hosts), sum(floors)
    return {
        "batches": len(hosts),
        "tokens": tokens,
        "padding": padded / tokens - 1,
        "wave_efficiency": used / waves,
        "most_slots": most,
        "host_ms_a_batch": 1_000 * host / len(hosts),
        "host_of_floor": host / floor,
        "waits_of_floor": elapsed(hosts, floors, DeviceEngine.in_flight) / floor - 1,
    }


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
