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
    reason="DuckDB takes a column of one value for a constant and folds the second call while it plans",
)
def test_coalesce_over_a_column_of_one_value() -> None:
    assert requests("select coalesce(AI_FILTER(a), AI_FILTER('q', a)) from same") == 1


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


@pytest.mark.xfail(
    raises=AssertionError,
    strict=True,
    reason="id may be a column of the rows inside, so it cannot stand in a guard there",
)
def test_correlated_subquery_that_a_column_without_its_relation_decides_about() -> None:
    inside = "exists (select 1 from u i where i.k = t.k and AI_FILTER('''no''?', i.c || {}))"
    assert requests(f"select id from t where {inside.format('t.b')} or id > 3 and {inside.format('t.a')}") == 4 + 2


@pytest.mark.xfail(
    raises=AssertionError,
    strict=True,
    reason="WHERE makes the join an inner one, evaluated with it; a guard cannot tell the rows that an outer join fills in",
)
def test_condition_over_an_outer_join_that_asks() -> None:
    # The join finds no partner, and WHERE wants one.
    assert (
        requests(
            "select t.id from t left join u on t.k = u.k and AI_FILTER('''no''?', a) where u.uid >= 0 and AI_FILTER('q', b)"
        )
        == 4
    )


@pytest.mark.xfail(
    raises=AssertionError,
    strict=True,
    reason="DuckDB evaluates WHERE below a SEMI join, whose relation asks and can stand in no guard",
)
def test_condition_over_a_semi_join_with_a_query_that_asks() -> None:
    # The join lets no row through.
    joined = "(select * from u where AI_FILTER('''no''?', c)) u"
    assert requests(f"select t.id from t semi join {joined} on t.k = u.k where AI_CLASSIFY(b, ['x', 'y']) = 'x'") == 2
