"""The engine on a device: plans a batch, launches it, and takes its logits when they are there. KV lies in an arena."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from quail_engine.batching.batch import Batch, work_of
from quail_engine.engine.base import Engine
from quail_engine.engine.local.arena import Arena, kv_bytes
from quail_engine.engine.local.device import current, free_bytes, machine_of, name_of, require_fp8, reserved_bytes
from quail_engine.engine.local.device_model import DeviceModel, build_device_model, forward, readout
from quail_engine.engine.local.device_plan import DevicePlan, Group, Placed, plan_batch
from quail_engine.engine.local.kernel_choice import Chosen, choose_kernels
from quail_engine.engine.local.memory import memory_errors
from quail_engine.engine.local.pooling import Sums
from quail_engine.engine.local.rows import ROW_STEP
from quail_engine.engine.local.segments import Slots
from quail_engine.engine.local.staging import Returning, Staging
from quail_engine.engine.local.weights import Checkpoint, Config, open_checkpoint
from quail_engine.engine.rates import Pace, Rates, shape_of
from quail_engine.errors import EngineError
from quail_engine.prompts.request import FEATURE_STATES, HIDDEN, Logits
from quail_engine.roofline import Roofline

ROWS = {"cuda": 256}
"""Rows of a batch are padded to a multiple: matrix products of few shapes, and of whole tiles."""


@dataclass(frozen=True)
class Pending:
    """A batch that was launched."""

    plan: DevicePlan
    reads: int
    features: int  # width of a read of HIDDEN
    values: Returning
    ran: Callable[[], None]  # told when it has run

    def logits(self) -> list[Logits]:
        values = self.values.wait()
        self.ran()
        found: list[Logits] = [np.empty(0, np.float32)] * self.reads
        start = 0
        for group in self.plan.groups:
            width = self.features if group.rows[0] == HIDDEN else len(group.rows)
            count = len(group.members) * width
            for member, vector in zip(group.members, values[start : start + count].reshape(-1, width), strict=True):
                found[member] = vector
            start += count
        return found


class DeviceEngine(Engine):
    """Implements `engine.base.Engine` on one device. Create it with `load`."""

    in_flight = 2

    def __init__(
        self, model: DeviceModel, weights: str, device: torch.device, chosen: Chosen, arena: Arena, pace: Pace
    ) -> None:
        """`chosen`: the model's kernels, and what is said of them."""
        self.weights = weights
        self.precision = "fp8" if model.fp8 else "full"
        self.dtype = _dtype_name(model.dtype, model.fp8)
        self.device = f"{name_of(device)} ({chosen.about})"
        self.remarks = chosen.remarks
        self._model = model
        self._device = device
        self._arena = arena
        self._pace = pace
        self._staging = Staging(device)
        self._held = Placed()
        self._sums: dict[int, Tensor] = {}  # node → what `Sums` needs of it, for held nodes

    @property
    def roofline(self) -> Roofline:
        return self._pace.roofline

    def score(self, batch: Batch) -> list[Logits]:
        return self.submit(batch).logits()

    @memory_errors()
    @torch.inference_mode()
    def submit(self, batch: Batch) -> Pending:
        """Launches a batch. KV that it does not keep may be given away: whatever overwrites it runs behind it."""
        with current(self._device):
            return self._launch(batch)

    def _launch(self, batch: Batch) -> Pending:
        config, begun, work = self._model.config, perf_counter(), work_of(batch.nodes, self._held.ends)
        fresh = self._arena.take(batch.tokens)
        try:
            placed = self._held.with_batch(batch, fresh)
            plan = self._plan(batch, placed)
            attention = self._model.kernels.attention(plan.table, plan.rows, config.group)
            assert not plan.arrays.keys() & attention.arrays.keys()
            arrays = self._staging.upload({**plan.arrays, **attention.arrays})
            sums = Sums(batch, placed.ends, config, self._sums, placed.parents, self._device) if batch.hidden else None
            hidden = forward(self._model, plan, arrays, attention, self._arena, sums)
            means = lambda group: _means(batch, sums, group)  # noqa: E731
            values = self._staging.download(readout(self._model, plan, arrays, hidden, means))
        except BaseException:
            self._arena.give_back([fresh])
            raise
        self._hold(placed, fresh, batch.keep)
        self._sums = sums.kept(batch.keep) if sums else {n: held for n, held in self._sums.items() if n in batch.keep}
        features = config.hidden_size * FEATURE_STATES
        return Pending(plan, len(batch.reads), features, values, lambda: self._pace.ran(work, begun))

    def _plan(self, batch: Batch, placed: Placed) -> DevicePlan:
        return plan_batch(batch, placed, ROWS.get(self._device.type, ROW_STEP))

    def close(self) -> None:
        self._pace.close()
        del self._model, self._arena, self._held, self._sums

    def _hold(self, placed: Placed, fresh: Slots, keep: frozenset[int]) -> None:
        kept = placed.only(keep)
        self._arena.give_back([fresh, *self._held.slots.values()], kept.slots.values())
        self._held = kept


def _means(batch: Batch, sums: Sums | None, group: Group) -> Tensor:
    assert sums, "the batch says that it reads hidden features"
    return torch.stack([sums.features(batch.reads[member].node, *group.rows[1:]) for member in group.members])


def load(
    folder: Path,
    device: torch.device,
    dtype: str,
    *,
    fp8: bool,
    memory_fraction: float,
    token_budget: int,
    cpu_threads: int | None,
) -> DeviceEngine:
    """The engine for a converted model folder; see `build`. Raises ModelError for a damaged folder or an architecture that is
    not supported."""
    checkpoint = open_checkpoint(folder)
    return build(
        checkpoint,
        device,
        dtype,
        fp8=fp8,
        memory_fraction=memory_fraction,
        token_budget=token_budget,
        rates=Rates(shape_of(checkpoint.config), cpu_threads),
    )


def build(
    checkpoint: Checkpoint,
    device: torch.device,
    dtype: str,
    *,
    fp8: bool,
    memory_fraction: float,
    token_budget: int,
    rates: Rates,
) -> DeviceEngine:
    """The engine for an open checkpoint on a device that can be used.

    `memory_fraction`: of the memory that is free, what weights and KV may take. Raises EngineError where the device cannot run
    the model or it does not fit.
    """
    config = checkpoint.config
    if fp8:
        require_fp8(device, config.hidden_size, config.intermediate_size)
    chosen = torch.float32 if dtype == "float32" and not fp8 else torch.bfloat16
    before = free_bytes(device)
    with memory_errors(), current(device):
        kernels = choose_kernels(config, chosen, device, fp8)
        model = build_device_model(checkpoint, chosen, device, fp8, kernels.kernels)
        working = _working_bytes(config, chosen, token_budget) + reserved_bytes(device)
        room = int(before * memory_fraction) - (before - free_bytes(device)) - working
        slots = room // kv_bytes(config, chosen)
        if slots < token_budget:
            raise EngineError(
                f"{name_of(device)} has too little free memory for this model: after its weights there is room for the KV of "
                f"{max(0, slots):,} tokens, and a batch has {token_budget:,}. Set a smaller token_budget, a higher "
                "gpu_memory_fraction or a smaller model."
            )
        arena = Arena(config, slots, chosen, device)
    key = f"{_dtype_name(chosen, fp8)} on {name_of(device)}"  # of its rates, beside those of the CPU's number formats
    roofline = rates.recall().get(key) or Roofline(rates.shaped(key), machine_of(device, fp8))
    return DeviceEngine(model, checkpoint.source_sha256, device, kernels, arena, Pace(roofline, rates, key))


def _dtype_name(dtype: torch.dtype, fp8: bool) -> str:
    return "float8_e4m3fn" if fp8 else str(dtype).removeprefix("torch.")


def _working_bytes(config: Config, dtype: torch.dtype, tokens: int) -> int:
    """What a forward pass holds beside weights and KV, at most: residual, and the widest results that live at the same time."""
    heads = config.num_heads + 2 * config.num_kv_heads
    values = 3 * config.hidden_size + 2 * heads * config.head_dim + 4 * config.intermediate_size
    return tokens * (4 * config.hidden_size + values * dtype.itemsize)
