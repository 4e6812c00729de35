"""DuckDB's side of look-ups: the functions that it calls, a chunk of rows at a time.

Registered once a database instance; which question a look-up is about comes with its first argument, a tag.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quail_engine.arrow import of_flags, of_numbers
from quail_engine.calls import Kind
from quail_engine.lookups.chunks import Inputs
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


_registering = threading.Lock()  # that nobody takes an instance for ready which is not yet


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Adds look-ups and stubs to a database instance, once."""
    # By a connection of its own: a transaction that is open in this one would be aborted where the instance has them, and take
    # them with it where it is rolled back.
    with _registering, connection.cursor() as own:
        try:  # listing an instance's functions takes twenty times as long
            create_function(own, OPEN, _open_function, "BOOLEAN")
        except duckdb.CatalogException:  # it has them
            return
        for name, (function, sql_type) in _functions().items():
            create_function(own, name, function, sql_type)


@cache
def _functions() -> dict[str, tuple[Callable[..., pa.Array], str]]:
    """All but OPEN, by name, with their SQL types. Kept until the process ends: DuckDB lets go of a function's Python object
    with the connection that created it, and still calls it for others."""
    look_ups = {name: (_look_up_function(arrow_type), sql_type) for name, (sql_type, arrow_type) in _TYPES.items()}
    stubs = {name: (_stub(name), sql_type) for name, sql_type in _STUBS.items()}
    return {**look_ups, **stubs}


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
        first = len(columns) - found.inquiry.width - (found.group_width or 0)
        guard, *inputs = map(_whole, (columns[1], *columns[first:]))
        return _look_up_chunk(found, guard, inputs, arrow_type)

    return look_up


def _open_function(*columns: pa.Array) -> pa.Array:
    """Whether a look-up with these columns would note its input, had it been released."""
    found = look_up_of(columns[0][0].as_py()) if len(columns[0]) else None
    if found is None:
        return pa.nulls(len(columns[0]), pa.bool_())
    guard, *texts = map(_whole, (columns[1], *columns[len(columns) - found.inquiry.width :]))
    shown = _shown(guard, texts)
    inputs = found.recent.inputs(texts, 0, shown, found.inquiry)
    with found.inquiry.lock:
        unknown = ~found.inquiry.known(inputs.positions(found.inquiry))
    open_ = _by_row(of_flags(unknown), inputs, shown)
    return pc.and_kleene(open_, shown)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _shown(guard: pa.Array, texts: Sequence[pa.Array]) -> pa.BooleanArray:
    """The rows on which SQL would look at the call: where its guard is TRUE and no argument is NULL."""
    shown = pc.and_kleene(guard, pc.is_valid(guard)) if guard.null_count else guard
    for column in texts:
        shown = pc.and_(shown, pc.is_valid(column)) if column.null_count else shown
    return shown


def _look_up_chunk(look_up: LookUp, guard: pa.Array, columns: Sequence[pa.Array], arrow_type: pa.DataType) -> pa.Array:
    """One chunk: the distinct inputs on guarded rows are looked up once each and their values taken by every row."""
    grouping = look_up.group_width or 0
    shown = _shown(guard, columns[grouping:])
    inputs = look_up.recent.inputs(columns, grouping, shown, look_up.inquiry)
    values = look_up.look_up(inputs)
    return _by_row(values if isinstance(values, pa.Array) else pa.array(values, arrow_type), inputs, shown)


def _by_row(values: pa.Array, inputs: Inputs, shown: pa.BooleanArray) -> pa.Array:
    """Each row's value; NULL of rows that are not shown."""
    codes = of_numbers(inputs.codes.astype(np.int32))
    if len(codes) < len(shown):
        codes = pc.replace_with_mask(pa.nulls(len(shown), pa.int32()), shown, codes)
    return values.take(codes)
