"""Generated queries with one to four AI calls, in every position, over generated tables.

Rows equal those of DuckDB's own evaluation with the mock's rules as plain functions (the oracle), and no query asks more
questions than its bound, which `bound.py` works out without our planner. Hypothesis draws both, so that what fails shrinks and
is printed as a line for `test_found.py`. About 150 queries by default, always the same. `make exactness` draws 2,000 new ones,
in every position under every kind of join, prints how often each case occurred, and its seed: QUAIL_SEED=… draws them again.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from bound import Bound, bound_of
from hypothesis import HealthCheck, Phase, given, seed, settings
from known import most_with_gaps
from occurrences import Occurrences
from positions import Query
from queries import POSITIONS, Case, cases
from statements import COPIED

import quail_engine
from quail_engine import Connection, RunReport

EXAMPLES = int(os.environ.get("QUAIL_DIFFERENTIAL", "150"))
LONG = EXAMPLES >= 2000
SEED = os.environ.get("QUAIL_SEED") or (str(int(time.time())) if LONG else "0")

# The default run draws a query's joins; a long one goes through all that a position can have.
CELLS = [(name, join) for name, position in POSITIONS.items() for join in (position.joins if LONG else (None,))]


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with quail_engine.oracle() as connection:
        yield connection


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Ours; every case has a session of its own on it, with no answers."""
    with duckdb.connect() as connection:
        yield connection
    COPIED.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def occurrences(request: pytest.FixtureRequest) -> Iterator[Occurrences]:
    found = Occurrences()
    yield found
    if LONG:
        with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            request.config.get_terminal_writer().write(f"\nQUAIL_SEED={SEED}\n{found.table()}\n")
        ran = sum(isinstance(item, pytest.Function) and item.module is request.module for item in request.session.items)
        if ran == len(CELLS) and not request.session.testsfailed:  # a selection, or a run that stopped, has no full table
            assert not found.rare(), f"too rare: {found.rare()}"


@pytest.mark.parametrize(("position", "join"), CELLS)
def test_rows_and_requests(
    position: str,
    join: str | None,
    oracle: duckdb.DuckDBPyConnection,
    database: duckdb.DuckDBPyConnection,
    occurrences: Occurrences,
) -> None:
    @seed(f"{SEED} {position} {join}")
    @settings(
        max_examples=max(1, round(EXAMPLES / len(POSITIONS) / (len(POSITIONS[position].joins) if LONG else 1))),
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases(position, join))
    def holds(case: Case) -> None:
        case.tables.load(oracle.execute)
        bound = bound_of(case.query.sites, oracle)
        occurrences.add(bound)
        check(case, bound, oracle, database)

    holds()


def check(case: Case, bound: Bound, oracle: duckdb.DuckDBPyConnection, database: duckdb.DuckDBPyConnection) -> None:
    """Rows and requests of one case, whose tables the oracle has loaded."""
    with quail_engine.connect(database, engine="mock", sample_rows=1) as con:  # the tables are small: from 8 rows on
        case.tables.load(con.sql)
        found, report = answered(con, case.query, case.in_transaction)
        case.tables.load(con.sql)
        _, again = answered(con, case.query, not case.in_transaction)
    assert_rows(found, case.query, oracle)
    if not case.query.unlimited:  # DuckDB's threads may bring other rows to a LIMIT the next time, and these are asked about
        assert again.asked == 0, "the second run asked again"
    assert report.failed == 0
    asked = report.asked + report.recalled
    if asked > bound.requests:
        assert asked <= most_with_gaps(bound, case.query.sites, case.tables, oracle), (asked, bound.inputs)


def answered(con: Connection, query: Query, in_transaction: bool) -> tuple[list[str], RunReport]:
    """Rows and report of a query; what a statement wrote, in a transaction that is taken back."""
    if in_transaction:
        con.sql("begin")
    try:
        table = con.sql(query.text)
        report = con.report
        return listed(con.sql(query.reads) if query.reads else table), report
    finally:
        if in_transaction:
            con.sql("rollback")


def assert_rows(found: list[str], query: Query, oracle: duckdb.DuckDBPyConnection) -> None:
    """Rows equal the oracle's where the query determines them; under LIMIT alone as many, each of the unlimited result."""
    if query.reads:
        oracle.execute(query.text).fetchall()
    expected = listed(oracle.sql(query.reads or query.text).to_arrow_table())
    if query.unlimited:
        whole = Counter(listed(oracle.sql(query.unlimited).to_arrow_table()))
        assert len(found) == len(expected)
        assert not Counter(found) - whole
    elif query.ordered:
        assert found == expected
    else:
        assert Counter(found) == Counter(expected)


def listed(table: pa.Table) -> list[str]:
    return list(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))
