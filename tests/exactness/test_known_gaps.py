# ruff: noqa: E501 - SQL is easier to read on one line
"""The smallest query of every gap between engine and bound. Strict: a gap that is closed fails here, and goes."""

from __future__ import annotations

import duckdb
import pytest

import quail_engine

TABLES = """
create table t as select i as id, i % 4 as k, 'text ' || i as a, 'other ' || i as b from range(8) r(i);
create table u as select i as uid, i as k, 'word ' || i as c from range(2) r(i);
create table same as select i as id, 'late' as a from range(5) r(i);
"""


def requests(sql: str) -> int:
    with quail_engine.connect(engine="mock") as con:
        con.sql(TABLES)
        con.sql(sql)
        return con.report.asked


@pytest.mark.xfail(
    raises=AssertionError,
    strict=True,
    reason="DuckDB folds the second call while it plans: its column has one value, and behind a name no call can be pinned to rows",
)
def test_a_column_of_one_value_behind_a_name() -> None:
    sql = "select (AI_FILTER('''no''?', id::varchar) and AI_FILTER('q', a)) as x, count(*) from same group by x"
    assert requests(sql) == 5


@pytest.mark.xfail(
    raises=duckdb.Error,
    strict=True,
    reason="DuckDB stops with an internal error of its own: a function beside EXISTS in the ON of a SEMI join over another",
)
@pytest.mark.parametrize(
    "sql",
    [
        "select t.id from t semi join u on t.k in (select x.k from u x) semi join u w on exists (select 1 from u x where x.k = t.k) or AI_FILTER(t.a)",
    ],
)
def test_exists_in_a_semi_joins_on(sql: str) -> None:
    oracle = quail_engine.oracle()
    oracle.execute(TABLES)
    oracle.execute(sql)
    requests(sql)
