"""DuckDB's side of look-ups: the functions that it calls, a chunk of rows at a time.

Registered once a database instance; which question a look-up is about comes with its first argument, a tag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quail_engine.calls import Kind
from quail_engine.lookups.inquiry import Arguments, digest_of
from quail_engine.lookups.statement import LookUp, look_up_of
from quail_engine.sql import LIST_LOOK_UP, LOOK_UPS, OPEN

_TYPES: dict[str, tuple[str, pa.DataType]] = {
    LOOK_UPS[Kind.FILTER]: ("BOOLEAN", pa.bool_()),
    LOOK_UPS[Kind.SCORE]: ("DOUBLE", pa.float64()),
    LOOK_UPS[Kind.CLASSIFY]: ("VARCHAR", pa.string()),
    LOOK_UPS[Kind.CLASSIFY_SCORES]: ("MAP(VARCHAR, DOUBLE)", pa.map_(pa.string(), pa.float64())),
    LIST_LOOK_UP: ("VARCHAR[]", pa.list_(pa.string())),
}
_STUBS = {
    "PROMPT": "VARCHAR",
    "AI_FILTER": "BOOLEAN",
    "AI_JOIN": "BOOLEAN",
    "AI_SCORE": "DOUBLE",
    "AI_CLASSIFY": "VARCHAR",
    "AI_CLASSIFY_SCORES": "MAP(VARCHAR, DOUBLE)",
}


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Adds look-ups and stubs to a database instance, once; outside any transaction."""
    present = connection.execute("SELECT 1 FROM duckdb_functions() WHERE function_name = '__quail_bool'").fetchall()
    if present:
        return
    for name, (sql_type, arrow_type) in _TYPES.items():
        create_function(connection, name, _look_up_function(arrow_type), sql_type)
    create_function(connection, OPEN, _open_function, "BOOLEAN")
    for name, sql_type in _STUBS.items():
        create_function(connection, name, _stub(name), sql_type)


def create_function(connection: duckdb.DuckDBPyConnection, name: str, function: Callable[..., pa.Array], sql_type: str) -> None:
    """A function of any number of arguments, called with Arrow columns, NULLs included."""
    # No side effects: a volatile function may not stand in a window's ORDER BY, and defeats DuckDB's join filters.
    connection.create_function(  # type: ignore[call-overload]
        name, function, None, sql_type, type="arrow", null_handling="special", side_effects=False
    )


def _stub(name: str) -> Callable[..., pa.Array]:
    def refuse(*_: pa.Array) -> pa.Array:
        raise ValueError(
            f"{name} was called where no plan sees it: inside a DuckDB view or macro, or from a tool without quail. "
            "Write the AI call in the query or model itself; a view over it becomes a table."
        )

    return refuse


def _look_up_function(arrow_type: pa.DataType) -> Callable[..., pa.Array]:
    def look_up(*columns: pa.Array) -> pa.Array:
        rows = len(columns[0])
        found = look_up_of(columns[0][0].as_py()) if rows else None
        if found is None:
            return pa.nulls(rows, arrow_type)
        first = len(columns) - found.width - (found.group_width or 0)
        guard, *inputs = map(_whole, (columns[1], *columns[first:]))
        return _look_up_chunk(found, guard, inputs, arrow_type)

    return look_up


def _open_function(*columns: pa.Array) -> pa.Array:
    """Whether a look-up with these columns would note its input, had it been released."""
    found = look_up_of(columns[0][0].as_py()) if len(columns[0]) else None
    if found is None:
        return pa.nulls(len(columns[0]), pa.bool_())
    guard, *arguments = map(_whole, (columns[1], *columns[len(columns) - found.width :]))
    known, canonical = found.inquiry.known, found.inquiry.canonical
    rows = zip(guard.to_pylist(), *(column.to_pylist() for column in arguments), strict=True)
    return pa.array(
        [bool(shown) and None not in inputs and digest_of(canonical(tuple(inputs))) not in known for shown, *inputs in rows],
        pa.bool_(),
    )


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _look_up_chunk(look_up: LookUp, guard: pa.Array, columns: Sequence[pa.Array], arrow_type: pa.DataType) -> pa.Array:
    """One chunk: the distinct inputs on guarded rows are looked up once each and their values taken by every row."""
    grouping = look_up.group_width or 0
    shown = pc.fill_null(guard, False)
    for column in columns[grouping:]:
        shown = pc.and_(shown, pc.is_valid(column))
    codes, inputs = _distinct([column.filter(shown) for column in columns], pc.sum(shown).as_py() or 0)
    with look_up.lock:
        look_up.rows += len(codes)
        if look_up.group_width is None:
            asked = map(look_up.inquiry.canonical, inputs)
            values = [look_up.value(digest_of(i), i) for i in asked]
        else:
            grouped = [(i[:grouping], look_up.inquiry.canonical(i[grouping:])) for i in inputs]
            values = [look_up.grouped_value(group, digest_of(i), i) for group, i in grouped]
    index = pc.replace_with_mask(pa.nulls(len(guard), pa.int32()), shown, pa.array(codes, pa.int32()))
    return pa.array(values, arrow_type).take(index)


def _distinct(columns: Sequence[pa.Array], rows: int) -> tuple[np.ndarray[Any, Any], Iterable[Arguments]]:
    """For every row the number of its input, and the distinct inputs in that order."""
    if not columns:
        return np.zeros(rows, np.int32), [()] if rows else []
    encoded = [column.dictionary_encode(null_encoding="encode") for column in columns]
    texts = [column.dictionary.to_pylist() for column in encoded]
    indices = [column.indices.to_numpy(zero_copy_only=False).astype(np.int64) for column in encoded]
    if len(columns) == 1:
        return indices[0], [(text,) for text in texts[0]]
    codes = indices[0]
    for index, words in zip(indices[1:], texts[1:], strict=True):
        # Numbered anew after each column, so that the product stays below rows times words.
        _, first, inverse = np.unique(codes * max(1, len(words)) + index, return_index=True, return_inverse=True)
        codes = inverse.reshape(-1)
    picked = [[words[i] for i in index[first].tolist()] for index, words in zip(indices, texts, strict=True)]
    return codes, list(zip(*picked, strict=True))
