"""Segments: answers sealed into Parquet files that are named by the sha256 of their own bytes and never change.

Rows are sorted by key, so that equal answers make equal files. docs/answers.md documents the columns.
"""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from quail_engine.answers import files
from quail_engine.answers.answer import Answer
from quail_engine.answers.journal import Record
from quail_engine.answers.keys import KEY_BYTES
from quail_engine.arrow import numbers_of, of_keys

VERSION = "1"
VERSION_KEY = b"quail.answers.version"
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary(KEY_BYTES), nullable=False),
        pa.field("question", pa.binary(KEY_BYTES), nullable=False),
        pa.field("values", pa.list_(pa.field("element", pa.float32(), nullable=False)), nullable=False),
        pa.field("tokens", pa.uint32(), nullable=False),
        pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("template", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("dtype", pa.string(), nullable=False),
    ],
    metadata={VERSION_KEY: VERSION.encode()},
)
_ATTEMPTS = 5
QUERIES = 1_000  # that one DuckDB instance runs: until it is closed it keeps some 8 KB of every join


@dataclass(frozen=True, slots=True)
class Stored:
    """An answer as it lies in the store. Of two for one key the newest counts, so that asking again replaces."""

    time: int  # microseconds since 1970 UTC
    answer: Answer

    def newest(self, other: Stored | None) -> Stored:
        """The one that counts; the numbers decide between equal times, so that every reader chooses the same."""
        if other is None or (self.time, self.answer.values) >= (other.time, other.answer.values):
            return self
        return other


def table_of(records: Sequence[Record]) -> pa.Table:
    """The records as rows of a segment; of several answers to one key only the one that counts."""
    rows: dict[bytes, tuple[Stored, Record]] = {}
    for record in records:
        for key, answer in zip(record.keys, record.answers, strict=True):
            stored, known = Stored(record.time, answer), rows.get(key)
            if known is None or stored.newest(known[0]) is stored:
                rows[key] = (stored, record)
    keys = sorted(rows)
    stored_rows, origins = [rows[key][0] for key in keys], [rows[key][1] for key in keys]
    columns = [
        pa.array(keys, pa.binary(KEY_BYTES)),
        pa.array([origin.question for origin in origins], pa.binary(KEY_BYTES)),
        pa.array([stored.answer.values for stored in stored_rows], SCHEMA.field("values").type),
        pa.array([stored.answer.tokens for stored in stored_rows], pa.uint32()),
        pa.array([stored.time for stored in stored_rows], SCHEMA.field("time").type),
        pa.array([origin.template for origin in origins], pa.string()),
        pa.array([origin.model for origin in origins], pa.string()),
        pa.array([origin.dtype for origin in origins], pa.string()),
    ]
    return pa.table(columns, schema=SCHEMA)


def write(folder: Path, table: pa.Table) -> Path:
    """Writes a segment durably and gives its path. Raises OSError."""
    assert table.num_rows, "an empty segment has nothing to keep"
    sink = pa.BufferOutputStream()
    # Keys and margins do not compress; the columns that repeat shrink by their dictionaries.
    repeated = ["question", "tokens", "time", "template", "model", "dtype"]
    pq.write_table(table, sink, compression="zstd", use_dictionary=repeated, row_group_size=1 << 16)
    data = sink.getvalue().to_pybytes()
    path = folder / f"{hashlib.sha256(data).hexdigest()}.parquet"
    if not path.exists():
        files.write_private(path, data)
    return path


def as_segment(table: pa.Table) -> pa.Table:
    """Rows that came through DuckDB, in the types of a segment."""
    columns = [table[field.name].combine_chunks().cast(field.type) for field in SCHEMA]
    return pa.table(columns, schema=SCHEMA)


def is_whole(path: Path) -> bool:
    """Whether a segment has the content that its name says. Raises OSError."""
    return files.sha256(path) == path.stem


def _objection(path: Path) -> str:
    """Why a segment cannot be used; empty where it can."""
    try:
        if not is_whole(path):
            return "it is damaged (its content does not have the sha256 that names it)"
        version = (pq.read_schema(path).metadata or {}).get(VERSION_KEY, b"unknown").decode("ascii", "replace")
    except (OSError, pa.ArrowException, ValueError) as error:  # ValueError: a column's name is no UTF-8
        return f"it cannot be read ({error})"
    return "" if version == VERSION else f"its schema version is {version}, and this release reads {VERSION}"


class Segments:
    """The segments of a folder. Each is checked before its first use in a process. Safe to use from several threads."""

    def __init__(self, folder: Path, warn: Callable[[str], None]) -> None:
        self.folder = folder
        self._warn = warn
        self._objections: dict[str, str] = {}  # by file name
        self._database: duckdb.DuckDBPyConnection | None = None
        self._queries = 0  # of that database
        self._lock = threading.Lock()

    def paths(self) -> list[Path]:
        """The segments that can be used now; any other is reported once and left out."""
        return [path for path in sorted(self.folder.glob("*.parquet")) if not self._objection(path)]

    def _objection(self, path: Path) -> str:
        known = self._objections.get(path.name)
        if known is not None:
            return known
        objection = _objection(path)
        if not path.exists():  # compacted away since the listing; its answers lie in another segment
            return "it is gone"
        if objection:
            self._warn(f"answers: segment {path} is skipped: {objection}. `quail answers check` moves damaged ones away.")
        self._objections[path.name] = objection
        return objection

    def recall(self, keys: Sequence[bytes]) -> dict[bytes, Stored]:
        """The answers that lie in segments. Raises duckdb.Error where one cannot be read although its content is whole."""
        if not keys:
            return {}
        wanted = of_keys(keys, KEY_BYTES)
        found = self.query(
            'select key, "values", tokens, epoch_us(time) as time from segments semi join wanted using (key)',
            wanted=pa.table({"key": wanted}),
        )
        return {} if found is None else _stored(found)

    def latest(self) -> int:
        """When the newest answer was given, in microseconds since 1970 UTC; 0 without any. Raises duckdb.Error."""
        found = self.query("select epoch_us(max(time)) as time from segments")
        return int(found["time"][0].as_py() or 0) if found else 0

    def query(self, sql: str, **tables: pa.Table) -> pa.Table | None:
        """Runs a query over `segments` and the given tables; None where there are no segments. Raises duckdb.Error."""
        for attempt in range(_ATTEMPTS):
            paths = self.paths()
            if not paths:
                return None
            cursor = self._cursor()
            try:
                for name, table in tables.items():
                    cursor.register(name, table)
                names = ", ".join("'" + str(path).replace("'", "''") + "'" for path in paths)
                cursor.execute(f"create temp view segments as from read_parquet([{names}])")  # of this cursor alone
                relation = cursor.sql(sql)
                assert relation is not None, "a query gives rows"
                return relation.to_arrow_table()
            except duckdb.Error:
                # A file that another process compacted away is in the next listing under another name.
                if attempt == _ATTEMPTS - 1 or all(path.exists() for path in paths):
                    raise
            finally:
                cursor.close()
        raise AssertionError("the last attempt returns or raises")

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor of a DuckDB of our own: the user's settings and transactions have no part in the store."""
        with self._lock:
            if self._database is None or self._queries >= QUERIES:
                # The old one is let go, not closed: that would close other threads' cursors, the last of which takes it along.
                self._database = duckdb.connect(":memory:", config={"temp_directory": tempfile.gettempdir()})
                self._queries = 0
            self._queries += 1
            return self._database.cursor()

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None


def _stored(table: pa.Table) -> dict[bytes, Stored]:
    found: dict[bytes, Stored] = {}
    for batch in table.to_batches():
        keys, times, tokens = (batch[name].to_pylist() for name in ("key", "time", "tokens"))
        ends = numbers_of(batch["values"].offsets).tolist()
        numbers = np.asarray(batch["values"].values).tolist()
        for i, key in enumerate(keys):
            stored = Stored(times[i], Answer(tuple(numbers[ends[i] : ends[i + 1]]), tokens[i]))
            found[key] = stored.newest(found.get(key))
    return found
