"""Answers as one Parquet file, out of a store and into one. The file has the columns and the metadata of a segment."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quail_engine.answers import files, segments
from quail_engine.answers.folder import Folder
from quail_engine.answers.journal import read
from quail_engine.answers.segments import SCHEMA, Segments
from quail_engine.answers.upkeep import MERGED_ANSWERS
from quail_engine.errors import AnswerStoreError


def write_file(
    folder: Folder, sealed: Segments, path: Path, prompt: str | None, model: str | None, since: datetime | None
) -> int:
    """Writes the answers to which every given condition applies, each once, and gives their number.

    `prompt` is a part of the question as written. Raises AnswerStoreError where the file cannot be written, OSError and
    duckdb.Error where the store cannot be read.
    """
    found = sealed.query("select * from segments")
    tables = [segments.table_of(read(journal)[0]) for journal in folder.journal_paths()]
    table = pa.concat_tables([*tables, *([segments.as_segment(found)] if found else []), SCHEMA.empty_table()])
    if prompt is not None:
        table = table.filter(pc.match_substring(table["template"], prompt))
    if model is not None:
        table = table.filter(pc.equal(table["model"], model))
    if since is not None:
        table = table.filter(pc.greater_equal(table["time"], pa.scalar(since, SCHEMA.field("time").type)))
    table = _newest(table)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    try:
        files.write_private(path, sink.getvalue().to_pybytes())
    except OSError as error:
        raise AnswerStoreError(f"{path} cannot be written: {error}.") from error
    return len(table)


def read_file(folder: Folder, path: Path) -> int:
    """Adds a file's answers to the store and gives their number. Raises AnswerStoreError for another file, OSError."""
    if not path.is_file():
        raise AnswerStoreError(f"{path} cannot be read as answers: there is no such file.")
    try:
        table = pq.read_table(path)
        version = (table.schema.metadata or {}).get(segments.VERSION_KEY)
        if version != segments.VERSION.encode():
            raise AnswerStoreError(f"{path} is no export of answers in schema version {segments.VERSION}.")
        table = segments.as_segment(table).sort_by("key")
        whole = pc.all(pc.is_finite(pc.list_flatten(table["values"]))).as_py() is not False
    except (OSError, pa.ArrowException, KeyError) as error:
        raise AnswerStoreError(f"{path} cannot be read as answers: {str(error).rstrip('.')}.") from error
    if not whole:
        raise AnswerStoreError(f"{path} holds numbers that are not finite, as no answer is.")
    for start in range(0, table.num_rows, MERGED_ANSWERS):
        segments.write(folder.segments, table.slice(start, MERGED_ANSWERS))
    return len(table)


def _newest(table: pa.Table) -> pa.Table:
    """Sorted by key, and of each key the newest."""
    table = table.sort_by([("key", "ascending"), ("time", "descending")]).combine_chunks()
    if table.num_rows < 2:
        return table
    keys = table["key"].combine_chunks()
    first = pc.not_equal(keys[1:], keys[:-1])
    return table.filter(pa.concat_arrays([pa.array([True]), first]))
