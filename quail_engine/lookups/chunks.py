"""The inputs of a chunk of rows, and the chunks that were looked at last.

DuckDB hands a chunk to one look-up after the other, and to those in a guard of another one once more. Comparing texts with
those of a moment ago takes a small part of the time that a digest of each takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from quail_engine.arrow import numbers_of, of_numbers
from quail_engine.lookups.digests import Digests, Positions, digests_of
from quail_engine.lookups.inquiry import Inquiry

GroupKey = tuple[str | None, ...]

_MOST_CHUNKS, _MOST_BYTES = 8, 1 << 24  # that are remembered


@dataclass(frozen=True)
class Chunk:
    """The distinct inputs of some rows, by number."""

    columns: Sequence[pa.Array]  # of the rows: what names their groups, and their texts
    grouping: int  # columns that name groups
    symmetric: bool  # texts in either order are one input
    numbers: Positions  # by row: its input
    groups: Sequence[GroupKey]
    texts: Sequence[pa.Array]  # in the order in which they are asked
    digests: Digests
    found: dict[Inquiry, tuple[int, Positions]] = field(default_factory=dict)  # positions, at which state of the inquiry

    def positions(self, inquiry: Inquiry) -> Positions:
        """As `Inquiry.find`. The inquiry's lock is held."""
        state, positions = self.found.get(inquiry, (-1, self.numbers))
        if state != inquiry.state:
            state, positions = self.found[inquiry] = inquiry.state, inquiry.find(self.digests)
        return positions

    @property
    def nbytes(self) -> int:
        return sum(int(column.nbytes) for column in self.columns)


@dataclass(frozen=True)
class Inputs:
    """Of a chunk's inputs those on the rows on which a call is looked at."""

    chunk: Chunk
    numbers: Positions  # of the chunk's inputs
    codes: Positions  # by row, which of these numbers

    def positions(self, inquiry: Inquiry) -> Positions:
        return self.chunk.positions(inquiry)[self.numbers]

    @property
    def groups(self) -> list[GroupKey]:
        return [self.chunk.groups[number] for number in self.numbers.tolist()]

    @property
    def digests(self) -> Digests:
        return self.chunk.digests[self.numbers]

    def texts(self, inputs: Positions) -> list[pa.Array]:
        """The texts of some of these inputs, one column an argument."""
        taken = of_numbers(self.numbers[inputs])
        return [column.take(taken) for column in self.chunk.texts]


class RecentChunks:
    """The last few chunks. Threads share it: at worst, one computes what another is about to remember."""

    def __init__(self) -> None:
        self._recent: tuple[Chunk, ...] = ()

    def inputs(self, columns: Sequence[pa.Array], grouping: int, shown: pa.BooleanArray, inquiry: Inquiry) -> Inputs:
        """The inputs on the rows that are `shown`."""
        rows = shown.true_count
        found = self._find(columns, len(shown), grouping, inquiry)
        if found is not None and rows < len(shown):
            numbers, codes = np.unique(found.numbers[numbers_of(pc.indices_nonzero(shown))], return_inverse=True)
            return Inputs(found, numbers, codes)
        if rows < len(shown):  # so that no text is hashed that nobody looks at
            columns = [column.filter(shown) for column in columns]
            found = self._find(columns, rows, grouping, inquiry)
        if found is None:
            found = _chunk_of(columns, rows, grouping, inquiry)
            self._remember(found)
        return Inputs(found, np.arange(len(found.digests)), found.numbers)

    def _find(self, columns: Sequence[pa.Array], rows: int, grouping: int, inquiry: Inquiry) -> Chunk | None:
        kind = rows, grouping, inquiry.symmetric, len(columns)
        for chunk in self._recent:
            alike = kind == (len(chunk.numbers), chunk.grouping, chunk.symmetric, len(chunk.columns))
            if alike and all(one.equals(other) for one, other in zip(chunk.columns, columns, strict=True)):
                return chunk
        return None

    def _remember(self, chunk: Chunk) -> None:
        kept: list[Chunk] = []
        size = 0
        for each in (chunk, *self._recent[: _MOST_CHUNKS - 1]):
            size += each.nbytes
            kept += [each] if size <= _MOST_BYTES else []
        self._recent = tuple(kept)

    def clear(self) -> None:
        self._recent = ()


def _chunk_of(columns: Sequence[pa.Array], rows: int, grouping: int, inquiry: Inquiry) -> Chunk:
    numbers, distinct = _distinct(columns, rows)
    groups, texts = distinct[:grouping], distinct[grouping:]
    inputs = len(distinct[0]) if distinct else min(1, rows)
    keys = list(zip(*(column.to_pylist() for column in groups), strict=True)) if groups else [()] * inputs
    canonical = inquiry.canonical(texts)
    return Chunk(columns, grouping, inquiry.symmetric, numbers, keys, canonical, digests_of(canonical, inputs))


def _distinct(columns: Sequence[pa.Array], rows: int) -> tuple[NDArray[Any], list[pa.Array]]:
    """For every row the number of its input, and the columns of the distinct inputs in that order."""
    if not columns:
        return np.zeros(rows, np.int64), []
    encoded = [column.dictionary_encode(null_encoding="encode") for column in columns]
    indices = [numbers_of(column.indices).astype(np.int64) for column in encoded]
    if len(columns) == 1:
        return indices[0], [encoded[0].dictionary]
    codes = indices[0]
    for index, column in zip(indices[1:], encoded[1:], strict=True):
        # Numbered anew after each column, so that the product stays below rows times words.
        _, first, inverse = np.unique(codes * max(1, len(column.dictionary)) + index, return_index=True, return_inverse=True)
        codes = inverse.reshape(-1)
    picked = [column.dictionary.take(of_numbers(index[first])) for index, column in zip(indices, encoded, strict=True)]
    return codes, picked
