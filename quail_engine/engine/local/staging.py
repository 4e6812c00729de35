"""A batch's arrays on their way to the device and back: one copy each way, from memory that copies can run from beside work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from quail_engine.engine.local.segments import Slots

_ALIGNED = 64  # numbers: every array begins at a multiple of 256 bytes, so that kernels are compiled for one alignment
_IN_FLIGHT = 2


@dataclass
class _Buffer:
    pinned: Tensor
    done: torch.cuda.Event  # the copy out of it


class Staging:
    """One thread at a time. Two buffers in turn: the plan of a batch is written while the one before it is copied."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._buffers: list[_Buffer | None] = [None] * _IN_FLIGHT
        self._turn = 0

    def upload(self, arrays: Mapping[str, Slots]) -> dict[str, Tensor]:
        """The arrays on the device, views of one tensor. The copy is launched, not waited for."""
        places: dict[str, slice] = {}
        size = 0
        for name, array in arrays.items():
            places[name] = slice(size, size + len(array))
            size = -(-(size + len(array)) // _ALIGNED) * _ALIGNED
        buffer = self._pinned(size) if self._device.type == "cuda" else None
        host = buffer.pinned if buffer else torch.empty(size, dtype=torch.int32)
        view: np.ndarray = np.asarray(host)
        for name, array in arrays.items():
            view[places[name]] = array
        there = host[:size].to(self._device, non_blocking=True)
        if buffer:
            buffer.done.record(torch.cuda.current_stream(self._device))
        return {name: there[place] for name, place in places.items()}

    def download(self, values: Tensor) -> Returning:
        """Launches the copy back of `values`, fp32."""
        if self._device.type != "cuda":
            return Returning(values, None)
        host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
        host.copy_(values, non_blocking=True)
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record(torch.cuda.current_stream(self._device))
        return Returning(host, done)

    def _pinned(self, size: int) -> _Buffer:
        """The next buffer, as soon as its last copy is done."""
        self._turn = (self._turn + 1) % _IN_FLIGHT
        buffer = self._buffers[self._turn]
        if buffer:
            buffer.done.synchronize()
        if buffer is None or len(buffer.pinned) < size:
            room = torch.empty(max(size, 1) * 3 // 2, dtype=torch.int32, pin_memory=True)
            buffer = self._buffers[self._turn] = _Buffer(room, torch.cuda.Event())  # type: ignore[no-untyped-call]
        return buffer


@dataclass(frozen=True)
class Returning:
    """Values on their way from the device."""

    host: Tensor
    done: torch.cuda.Event | None

    def wait(self) -> np.ndarray:
        if self.done:
            self.done.synchronize()
        found: np.ndarray = self.host.cpu().numpy()  # nothing more is copied, but from devices that are no CUDA's
        return found
