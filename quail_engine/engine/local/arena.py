"""KV on a device: slots, one a token, in one tensor a layer. Which slot is whose is known on the host alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from quail_engine.engine.local.segments import Slots
from quail_engine.engine.local.weights import Config

TRASH = 0
"""The slot that padding writes to; nobody reads it."""


class Arena:
    """Room for the KV of `slots` tokens. Work on it is in the order of the device's stream, so a slot may be given away again
    as soon as the last read of it was launched."""

    def __init__(self, config: Config, slots: int, dtype: torch.dtype, device: torch.device) -> None:
        shape = (config.num_layers, slots + 1, config.num_kv_heads, config.head_dim)
        # Zeros: what a kernel reads beside the keys that it wants must be numbers.
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.slots = slots
        self._free = np.arange(slots, TRASH, -1, dtype=np.int32)  # taken from the end
        self._count = slots

    @property
    def free(self) -> int:
        return self._count

    def take(self, count: int) -> Slots:
        """Slots that nobody has. Raises MemoryError when there are fewer."""
        if count > self._count:
            raise MemoryError(f"the KV of {count:,} tokens does not fit: {self._count:,} of {self.slots:,} slots are free")
        self._count -= count
        taken: Slots = self._free[self._count : self._count + count][::-1].copy()
        return taken

    def give_back(self, given: Iterable[Slots], kept: Iterable[Slots] = ()) -> None:
        """Frees the slots of `given`, but for those that are also in `kept`."""
        freed = np.zeros(self.slots + 1, bool)
        for slots, free in ((given, True), (kept, False)):
            for part in slots:
                freed[part] = free
        returned = np.flatnonzero(freed)
        self._free[self._count : self._count + len(returned)] = returned[::-1]
        self._count += len(returned)


def kv_bytes(config: Config, dtype: torch.dtype) -> int:
    """Of a token."""
    return 2 * config.num_layers * config.num_kv_heads * config.head_dim * dtype.itemsize
