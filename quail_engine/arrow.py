"""Arrow arrays of NumPy's numbers and back, without a copy.

`pyarrow.array` and `to_numpy` import pandas first, wherever that is installed, to look whether they were given something of it:
half a second of a process that may have no use for pandas. These take the memory as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def of_numbers(values: NDArray[Any]) -> pa.Array:
    """Integers or floats, none of them NULL."""
    flat = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(flat.dtype), len(flat), [None, pa.py_buffer(flat)])


def of_flags(values: NDArray[np.bool_], known: NDArray[np.bool_] | None = None) -> pa.BooleanArray:
    """Booleans, NULL where they are not `known`."""
    bits = [None if flags is None else pa.py_buffer(np.packbits(flags, bitorder="little")) for flags in (known, values)]
    return pa.Array.from_buffers(pa.bool_(), len(values), bits)


def of_keys(keys: Sequence[bytes], size: int) -> pa.FixedSizeBinaryArray:
    """Keys of `size` bytes each."""
    joined = b"".join(keys)
    assert len(joined) == size * len(keys), f"keys have {size} bytes"
    return pa.Array.from_buffers(pa.binary(size), len(keys), [None, pa.py_buffer(joined)])


def numbers_of(values: pa.Array) -> NDArray[Any]:
    """Integers or floats as NumPy's; what stands where one is NULL means nothing."""
    dtype, buffer = values.type.to_pandas_dtype(), values.buffers()[1]
    return (
        np.frombuffer(buffer, dtype, len(values), values.offset * values.type.byte_width) if len(values) else np.zeros(0, dtype)
    )
