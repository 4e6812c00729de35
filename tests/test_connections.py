"""Sessions that share a DuckDB database: each finds the functions there, whoever added them, and keeps to its own settings."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import duckdb
import pytest

from quail_engine import connect
from quail_engine.lookups import functions

ROWS = 50


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(f"create table t as select 'text ' || i as body from range({ROWS}) r(i)")
        yield connection


def asked_and_found(connection: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    with connect(connection, engine="mock", sample_rows=0) as con:
        found = con.sql("select body from t where AI_FILTER('Contains ''1''?', body)").num_rows
        return con.report.asked, found


def test_sessions_one_after_the_other(database: duckdb.DuckDBPyConnection) -> None:
    assert asked_and_found(database) == asked_and_found(database) == asked_and_found(database.cursor()) == (ROWS, 14)


def test_an_open_transaction_goes_on_and_takes_no_functions_with_it(database: duckdb.DuckDBPyConnection) -> None:
    for _ in range(2):  # the second time the functions are there
        database.execute("begin")
        database.execute("insert into t values ('text 111')")
        assert asked_and_found(database) == (ROWS + 1, 15)
        database.execute("rollback")
    assert asked_and_found(database) == (ROWS, 14)


def test_functions_outlive_the_connection_that_added_them(database: duckdb.DuckDBPyConnection) -> None:
    for _ in range(3):
        cursor = database.cursor()
        assert asked_and_found(cursor) == (ROWS, 14)
        cursor.close()
        del cursor
        gc.collect()


def test_sessions_that_begin_together(database: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    create, ready = functions.create_function, Barrier(3)

    def slowly(*arguments: Any) -> None:
        create(*arguments)
        time.sleep(0.01)

    monkeypatch.setattr(functions, "create_function", slowly)

    def run(cursor: duckdb.DuckDBPyConnection) -> tuple[int, int]:
        ready.wait()
        return asked_and_found(cursor)

    with ThreadPoolExecutor(3) as pool:
        assert set(pool.map(run, [database.cursor() for _ in range(3)])) == {(ROWS, 14)}
