"""Reads a GGUF file: its metadata and where each tensor's bytes lie.

The file may be damaged or hostile, so every length in it is checked against the bytes that are there; whatever is wrong is
a ModelError. Tensor bytes stay on disk (memory-mapped) until they are asked for.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quail_engine.errors import ModelError

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}  # by GGUF value type
_STRING, _ARRAY = 8, 9
_VERSIONS = (2, 3)
_MOST_DIMENSIONS = 4


@dataclass(frozen=True)
class Tensor:
    """One tensor's place in the file."""

    name: str
    shape: tuple[int, ...]  # outermost dimension first: a matrix is (rows, columns), as in torch
    quantisation: int  # GGML's number of the storage type
    row_bytes: int  # stored bytes of one row
    data: NDArray[np.uint8]  # (rows, row_bytes); a vector has one row


@dataclass(frozen=True)
class GgufFile:
    metadata: Mapping[str, Any]  # numbers, strings, booleans, and lists of them
    tensors: Mapping[str, Tensor]


def read_gguf(path: Path) -> GgufFile:
    """Metadata and tensor places of a GGUF file (version 2 or 3, little endian). Raises ModelError if it is not a sound one."""
    try:
        with path.open("rb") as file:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        raise ModelError(f"{path} cannot be read: {error}.") from error
    cursor = _Cursor(path, view)
    if cursor.take(4) != b"GGUF":
        raise ModelError(f"{path} is not a GGUF file.")
    version = cursor.scalar("<I")
    if version not in _VERSIONS:
        raise ModelError(f"{path} is GGUF version {version}; versions {', '.join(map(str, _VERSIONS))} can be read.")
    tensor_count, entry_count = cursor.scalar("<Q"), cursor.scalar("<Q")
    metadata: dict[str, Any] = {}
    for _ in range(entry_count):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.scalar("<I"))
    places = [cursor.place() for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment <= 0:
        raise ModelError(f"{path} is damaged: its alignment is {alignment!r}.")
    start = -(-cursor.position // alignment) * alignment
    tensors = {name: _tensor(path, view, start + offset, name, shape, kind) for name, shape, kind, offset in places}
    return GgufFile(metadata, tensors)


def _tensor(path: Path, view: mmap.mmap, start: int, name: str, shape: tuple[int, ...], quantisation: int) -> Tensor:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    try:
        block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(quantisation)]
    except (ValueError, KeyError) as error:
        raise ModelError(
            f"{path}: tensor {name} is stored as type {quantisation}, which this version does not know."
        ) from error
    columns = shape[-1]
    if columns % block:
        raise ModelError(f"{path} is damaged: tensor {name} has rows of {columns} values, not a multiple of {block}.")
    rows, row_bytes = math.prod(shape[:-1]), columns // block * block_bytes
    if start + rows * row_bytes > len(view):
        raise ModelError(f"{path} is damaged or cut short: tensor {name} lies beyond its end.")
    data = np.frombuffer(view, np.uint8, rows * row_bytes, start).reshape(rows, row_bytes)
    return Tensor(name, shape, quantisation, row_bytes, data)


class _Cursor:
    """Reads forward through the header, never past the end of the file."""

    def __init__(self, path: Path, view: mmap.mmap) -> None:
        self.path = path
        self.view = view
        self.position = 0

    def take(self, length: int) -> bytes:
        end = self.position + length
        if end > len(self.view):
            raise ModelError(f"{self.path} is damaged or cut short: its header runs past the end of the file.")
        taken = self.view[self.position : end]
        self.position = end
        return taken

    def scalar(self, layout: str) -> Any:
        (number,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return number

    def string(self) -> str:
        raw = self.take(self.scalar("<Q"))
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise ModelError(f"{self.path} is damaged: a string in its header is not UTF-8.") from error

    def value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self.scalar(_SCALARS[kind])
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            raise ModelError(f"{self.path} is damaged: value type {kind} does not exist.")
        item, count = self.scalar("<I"), self.scalar("<Q")
        if item in _SCALARS:
            layout = _SCALARS[item]
            return np.frombuffer(self.take(count * struct.calcsize(layout)), np.dtype(layout)).tolist()
        if item != _STRING:  # arrays of arrays are legal and used by no model; refusing them bounds the recursion
            raise ModelError(f"{self.path} holds an array of type {item}, which this version does not read.")
        return [self.string() for _ in range(count)]

    def place(self) -> tuple[str, tuple[int, ...], int, int]:
        """A tensor's name, shape (outermost first), storage type and offset from the start of the data."""
        name = self.string()
        dimensions = self.scalar("<I")
        if not 1 <= dimensions <= _MOST_DIMENSIONS:
            raise ModelError(f"{self.path} is damaged: tensor {name} has {dimensions} dimensions.")
        innermost_first = [self.scalar("<Q") for _ in range(dimensions)]
        if 0 in innermost_first:
            raise ModelError(f"{self.path} is damaged: tensor {name} is empty.")
        return name, tuple(reversed(innermost_first)), self.scalar("<I"), self.scalar("<Q")
