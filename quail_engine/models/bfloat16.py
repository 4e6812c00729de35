"""bfloat16 in NumPy, which has no such type: the upper half of a float32's bits, as uint16."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bits of the nearest bfloat16, ties to even; a NaN stays one."""
    bits = values.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype(np.uint16)


def from_bfloat16(bits: NDArray[Any]) -> NDArray[np.float32]:
    """The numbers of such bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
