"""Reads the safetensors files of a published checkpoint: names, shapes, and values some rows at a time.

The files may be damaged, so every length in them is checked against the bytes that are there; whatever is wrong is a
ModelError. Bytes stay on disk (memory-mapped) until they are asked for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quail_engine.errors import ModelError
from quail_engine.models.bfloat16 import from_bfloat16, to_bfloat16

_KINDS: dict[str, type[np.generic]] = {"BF16": np.uint16, "F16": np.float16, "F32": np.float32, "F8_E4M3": np.uint8}
_MOST_HEADER_BYTES = 1 << 27
_BLOCK_VALUES = 1 << 23


def _e4m3() -> NDArray[np.float32]:
    """The value of each byte in e4m3: a sign, four bits of exponent, three of mantissa; no infinity."""
    byte = np.arange(256)
    sign, exponent, mantissa = np.where(byte & 128, -1.0, 1.0), byte >> 3 & 15, byte & 7
    values = sign * np.where(exponent, (8 + mantissa) * 2.0 ** (exponent - 10), mantissa * 2.0**-9)
    values[byte & 127 == 127] = np.nan
    return values.astype(np.float32)


_E4M3 = _e4m3()


@dataclass(frozen=True)
class CheckpointTensor:
    name: str
    kind: str  # of `_KINDS`
    data: NDArray[Any]
    scales: NDArray[np.float32] | None = None  # of F8: what blocks of rows and columns are multiplied with
    block: tuple[int, int] = (1, 1)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def vector_blocks(self) -> Iterator[NDArray[np.float32]]:
        """A vector's values as float32, all at once. Raises ModelError where one is not finite."""
        yield self._finite(from_bfloat16(self.data) if self.kind == "BF16" else self.data.astype(np.float32))

    def bfloat16_blocks(self) -> Iterator[NDArray[np.uint16]]:
        """A matrix's values as bfloat16, some rows at a time."""
        rows, columns = self.shape
        step = max(1, _BLOCK_VALUES // columns)
        for start in range(0, rows, step):
            part = self.data[start : start + step]
            if self.kind == "BF16":
                self._finite(from_bfloat16(part))
                yield np.ascontiguousarray(part)
            else:
                values = _E4M3[part] * self._scales(start, len(part)) if self.kind == "F8_E4M3" else part.astype(np.float32)
                yield to_bfloat16(self._finite(values))

    def _scales(self, start: int, count: int) -> NDArray[np.float32]:
        assert self.scales is not None
        rows = np.arange(start, start + count) // self.block[0]
        found: NDArray[np.float32] = self.scales[rows[:, None], np.arange(self.shape[1]) // self.block[1]]
        return found

    def _finite(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        if not np.isfinite(values).all():
            raise ModelError(f"Tensor {self.name} holds numbers that are not finite: the file is damaged. Fetch it again.")
        return values


def read_checkpoint_tensors(folder: Path, block: tuple[int, int] | None) -> dict[str, CheckpointTensor]:
    """Every tensor of the folder's *.safetensors files. `block`: of the scales of F8 matrices. Raises ModelError."""
    paths = sorted(folder.glob("*.safetensors"))
    if not paths:
        raise ModelError(f"{folder} holds no *.safetensors file.")
    raw: dict[str, tuple[str, NDArray[Any]]] = {}
    for path in paths:
        raw |= _read_file(path)
    found = {}
    for name, (kind, data) in raw.items():
        if kind != "F8_E4M3":
            found[name] = CheckpointTensor(name, kind, data)
            continue
        _, scales = raw.get(f"{name}_scale_inv", ("", None))
        if block is None or scales is None or data.ndim != 2:
            raise ModelError(f"Tensor {name} is in 8 bits without block scales ({name}_scale_inv); this is not read.")
        expected = tuple(-(-size // by) for size, by in zip(data.shape, block, strict=True))
        if scales.shape != expected:
            raise ModelError(
                f"The model's file is damaged: {name}_scale_inv has the shape {scales.shape} instead of {expected}."
            )
        scale_kind = raw[f"{name}_scale_inv"][0]
        values = from_bfloat16(scales) if scale_kind == "BF16" else scales.astype(np.float32)
        found[name] = CheckpointTensor(name, kind, data, values, block)
    return {name: tensor for name, tensor in found.items() if not name.endswith("_scale_inv")}


def _read_file(path: Path) -> dict[str, tuple[str, NDArray[Any]]]:
    """Kind and values of each tensor; values are views of the mapped file."""
    try:
        view = np.memmap(path, np.uint8, mode="r")
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {error}.") from error
    length = int.from_bytes(view[:8].tobytes(), "little") if len(view) >= 8 else 0
    if not 0 < length <= min(len(view) - 8, _MOST_HEADER_BYTES):
        raise ModelError(f"{path} is damaged or cut short: its header runs past the end of the file.")
    try:
        header = json.loads(view[8 : 8 + length].tobytes())
        return {name: _tensor(view[8 + length :], entry) for name, entry in header.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path} is damaged or no safetensors file: {error!r}.") from error


def _tensor(data: NDArray[np.uint8], entry: Mapping[str, Any]) -> tuple[str, NDArray[Any]]:
    """Raises ValueError or the like for an entry that does not fit the bytes."""
    kind, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if kind not in _KINDS:
        raise ValueError(f"numbers of the type {kind} are not read")
    if not all(isinstance(size, int) and size > 0 for size in shape) or not 0 <= start <= end <= len(data):
        raise ValueError(f"shape {shape} at {start} to {end}")
    if end - start != math.prod(shape) * np.dtype(_KINDS[kind]).itemsize:
        raise ValueError(f"{end - start} bytes for the shape {shape}")
    return kind, np.frombuffer(data, _KINDS[kind], math.prod(shape), start).reshape(shape)
