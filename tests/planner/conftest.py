"""A database for the planner's tests, and plans of it that may do less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import duckdb
import pytest
from planner_cases import TABLES

import quail_engine
from quail_engine import Connection


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(TABLES)
        yield connection


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with quail_engine.oracle() as connection:
        connection.execute(TABLES)
        yield connection


@pytest.fixture
def connected(database: duckdb.DuckDBPyConnection) -> Iterator[Callable[..., Connection]]:
    """A session on the database that has no answers yet, with settings of its own."""
    with ExitStack() as open_:

        def connect(**settings: Any) -> Connection:
            return open_.enter_context(quail_engine.connect(database, engine="mock", **settings))

        yield connect
