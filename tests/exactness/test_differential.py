"""Generated queries with one to four AI calls, in every position, over generated rows.

Rows equal those of DuckDB's own evaluation with the mock's rules as plain functions (the oracle), and no query asks more
questions than its bound, which `bound.py` works out without our planner. 150 queries by default; `make exactness` runs
2,000 and prints how often each case occurred. A query is a function of its seed, the test's number, and the positions take
turns: Hypothesis varies the queries that it has seen, which leaves positions out.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from bound import bound_of
from generated_data import data, load
from known import may_ask_more, slack
from occurrences import Occurrences
from positions import Query
from queries import query

import quail_engine

EXAMPLES = int(os.environ.get("QUAIL_DIFFERENTIAL", "150"))
LONG = EXAMPLES >= 2000


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with quail_engine.oracle() as connection:
        yield connection


@pytest.fixture(scope="module")
def occurrences(request: pytest.FixtureRequest) -> Iterator[Occurrences]:
    found = Occurrences()
    yield found
    if LONG:
        with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            request.config.get_terminal_writer().write(f"\n{found.table()}\n")
        assert not found.rare(50), f"fewer than 50 times: {found.rare(50)}"


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_rows_and_requests(seed: int, oracle: duckdb.DuckDBPyConnection, occurrences: Occurrences) -> None:
    asked, rows = query(seed), data(seed)
    load(oracle.execute, rows)
    bound = bound_of(asked.sites, oracle)
    occurrences.add(bound)
    with quail_engine.connect(engine="mock") as con:
        load(con.sql, rows)
        found = listed(con.sql(asked.text))
        report = con.report
        con.sql(asked.text)
        assert con.report.asked == 0, "the second run asked again"
    assert_rows(found, asked, oracle)
    assert report.failed == 0
    if not may_ask_more(asked):
        assert report.asked + report.recalled <= bound.requests + slack(bound, rows), bound.inputs


def assert_rows(found: list[str], query: Query, oracle: duckdb.DuckDBPyConnection) -> None:
    """Rows equal the oracle's where the query determines them; under LIMIT alone as many, each of the unlimited result."""
    expected = listed(oracle.sql(query.text).to_arrow_table())
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
