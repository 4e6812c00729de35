"""Inputs by digest: 16 bytes name an input, and a table numbers the inputs that were met.

The table holds 16 bytes an input and 4 bytes a slot, up to three slots an input, so 10 M inputs take some 230 MB where a
Python dict of bytes takes ten times that; and it takes a chunk of digests at a time, some tens of nanoseconds each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quail_engine.arrow import numbers_of

DIGEST_BYTES = 16
Digests = NDArray[np.uint64]
"""Digests as pairs of 64-bit numbers, shape (inputs, 2)."""

Positions = NDArray[np.int64]

_BLOCK = 1 << 16  # digests that are placed at once when the table grows


def digests_of(columns: Sequence[pa.Array], rows: int) -> Digests:
    """A digest for each of `rows` inputs, whose texts stand in `columns`, one an argument."""
    if not columns:
        return np.zeros((rows, 2), np.uint64)
    if len(columns) == 1:
        return _hashed(columns[0].cast(pa.binary()).to_pylist())
    # The digest of digests: all are of one length, which keeps ('ab', '') and ('a', 'b') apart.
    encoded = [column.dictionary_encode() for column in columns]
    parts = [_hashed(e.dictionary.cast(pa.binary()).to_pylist())[numbers_of(e.indices)] for e in encoded]
    joined, step = np.hstack(parts).tobytes(), DIGEST_BYTES * len(columns)
    return _hashed([joined[at : at + step] for at in range(0, len(joined), step)])


def _hashed(texts: Sequence[bytes]) -> Digests:
    blake2b = hashlib.blake2b
    joined = b"".join([blake2b(text, digest_size=DIGEST_BYTES).digest() for text in texts])
    return np.frombuffer(joined, np.uint64).reshape(-1, 2)


class DigestTable:
    """Digests numbered 0, 1, 2 … as they came. Not thread-safe."""

    def __init__(self) -> None:
        self._count = 0
        self._digests = np.empty((0, 2), np.uint64)
        self._slots = np.full(1 << 10, -1, np.int32)  # a power of two; a digest lies in the first free slot from its own on

    def __len__(self) -> int:
        return self._count

    @property
    def digests(self) -> Digests:
        """All of them, in the order of their numbers."""
        return self._digests[: self._count]

    @property
    def nbytes(self) -> int:
        return int(self._digests.nbytes + self._slots.nbytes)

    def find(self, digests: Digests) -> Positions:
        """The number of each digest, -1 for those that are not in the table."""
        found = np.full(len(digests), -1, np.int64)
        rows, slots = np.arange(len(digests)), self._home(digests)
        while len(rows):
            numbers = self._slots[slots]
            filled = numbers >= 0
            rows, slots, numbers = rows[filled], slots[filled], numbers[filled]
            there, wanted = self._digests[numbers], digests[rows]
            same = (there[:, 0] == wanted[:, 0]) & (there[:, 1] == wanted[:, 1])
            found[rows[same]] = numbers[same]
            rows, slots = rows[~same], self._next(slots[~same])
        return found

    def add(self, digests: Digests) -> None:
        """Puts in distinct digests that are not there yet."""
        begin, end = self._count, self._count + len(digests)
        if end > len(self._digests):
            # Grown in place, and pages that were never written take no memory.
            self._digests.resize((max(end, 2 * begin, 1 << 10), 2), refcheck=False)
        self._digests[begin:end] = digests
        self._count = end
        if 3 * end > 2 * len(self._slots):
            self._slots = np.full(1 << (3 * end - 1).bit_length(), -1, np.int32)
            begin = 0
        for start in range(begin, end, _BLOCK):
            self._place(np.arange(start, min(start + _BLOCK, end), dtype=np.int32))

    def cut(self, count: int) -> None:
        """Forgets the digests that came after the first `count`."""
        self._count = count
        self._slots.fill(-1)  # not theirs alone: a digest may lie behind a younger one
        for start in range(0, count, _BLOCK):
            self._place(np.arange(start, min(start + _BLOCK, count), dtype=np.int32))

    def _place(self, numbers: NDArray[np.int32]) -> None:
        slots = self._home(self._digests[numbers])
        while len(numbers):
            free = self._slots[slots] < 0
            self._slots[slots[free]] = numbers[free]  # of several that want one slot, one gets it
            waiting = self._slots[slots] != numbers
            numbers, slots = numbers[waiting], self._next(slots[waiting])

    def _home(self, digests: Digests) -> Positions:
        return (digests[:, 0] & np.uint64(len(self._slots) - 1)).astype(np.int64)

    def _next(self, slots: Positions) -> Positions:
        return (slots + 1) & (len(self._slots) - 1)


def distinct(digests: Digests) -> NDArray[np.int64]:
    """The row of each digest's first occurrence, in the order of the rows."""
    if len(np.unique(digests[:, 0])) == len(digests):  # as a rule; half a digest sorts ten times faster than a whole one
        return np.arange(len(digests))
    whole: NDArray[Any] = np.ascontiguousarray(digests).view(np.dtype((np.void, DIGEST_BYTES))).reshape(-1)
    return np.sort(np.unique(whole, return_index=True)[1])
