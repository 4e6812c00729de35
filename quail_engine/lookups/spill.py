"""Rows that wait: in memory up to some bytes, beyond that in a temporary file that nobody else can open."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

import duckdb
import pyarrow as pa

_BATCH_BYTES = 1 << 22  # of a batch of the file
_SORT_MEMORY = 1 << 28  # bytes; DuckDB sorts what is more on disk


class Spill:
    """Record batches of one schema, kept in the order in which they came. Not thread-safe."""

    def __init__(self, schema: pa.Schema, memory_bytes: int) -> None:
        self.schema = schema
        self._memory_bytes = memory_bytes
        self._batches: list[pa.RecordBatch] = []  # what is still in memory, the youngest
        self._bytes = 0  # of these
        self._rows = 0
        self._file: IO[bytes] | None = None
        self._writer: pa.RecordBatchWriter | None = None

    def __len__(self) -> int:
        return self._rows

    @property
    def spilled(self) -> bool:
        """Whether a part of the rows lies in a file."""
        return self._file is not None

    def append(self, batch: pa.RecordBatch) -> None:
        """Raises OSError when the disk is full."""
        self._batches.append(batch)
        self._bytes += batch.nbytes
        self._rows += batch.num_rows
        if self._bytes > self._memory_bytes:
            self._write()

    def parts(self, rows: int, bytes_: int) -> Iterator[pa.RecordBatch]:
        """All rows, so many at once, or as many as have so many bytes. From now on none may be appended."""
        return _parts(self._all(), rows, bytes_)

    def sorted_parts(self, order: str, rows: int, bytes_: int) -> Iterator[pa.RecordBatch]:
        """As `parts`, ordered by SQL expressions over the columns; equal rows stay in their order if the expressions say so."""
        with duckdb.connect(config={"temp_directory": tempfile.gettempdir(), "memory_limit": f"{_SORT_MEMORY}B"}) as database:
            database.register("waiting", pa.RecordBatchReader.from_batches(self.schema, self._all()))
            yield from _parts(database.sql(f"FROM waiting ORDER BY {order}").to_arrow_reader(1 << 14), rows, bytes_)

    def close(self) -> None:
        """Forgets the rows and frees the file."""
        self._batches, self._bytes, self._rows = [], 0, 0
        if self._file is not None:
            self._file.close()
        self._file = self._writer = None

    def _write(self) -> None:
        if self._writer is None:
            self._file = tempfile.TemporaryFile(prefix="quail-")  # noqa: SIM115 - `close` closes it
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._writer = pa.ipc.new_stream(self._file, self.schema, options=options)
        table = pa.Table.from_batches(self._batches).combine_chunks()
        self._writer.write_table(table, max_chunksize=max(1, _BATCH_BYTES * table.num_rows // max(1, self._bytes)))
        self._batches, self._bytes = [], 0

    def _all(self) -> Iterator[pa.RecordBatch]:
        if self._file is not None and self._writer is not None:
            if self._batches:
                self._write()
            self._writer.close()
            self._file.seek(0)
            with pa.ipc.open_stream(self._file) as reader:
                yield from reader
        yield from self._batches


def _parts(batches: Iterator[pa.RecordBatch], rows: int, bytes_: int) -> Iterator[pa.RecordBatch]:
    part: list[pa.RecordBatch] = []
    held = size = 0
    for batch in batches:
        step = min(rows, max(1, bytes_ * batch.num_rows // max(1, batch.nbytes)))
        for start in range(0, batch.num_rows, step):
            piece = batch.slice(start, step)
            if part and (held + piece.num_rows > rows or size + piece.nbytes > bytes_):
                yield _joined(part)
                part, held, size = [], 0, 0
            part.append(piece)
            held, size = held + piece.num_rows, size + piece.nbytes
    if part:
        yield _joined(part)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of one schema, at least one row, as one."""
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
