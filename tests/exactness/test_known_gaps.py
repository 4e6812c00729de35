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
create table many as select i as id, 'key ' || i as k, 'text ' || i as a from range(1000) r(i);
create table even as select 'key ' || 2 * i as k from range(500) r(i);
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
    raises=AssertionError, strict=True, reason="the dependency is the join key, which DuckDB takes from the other side"
)
def test_condition_over_an_inner_join() -> None:
    # Even ids have a partner.
    assert requests("select m.id from many m join even e on m.k = e.k where AI_CLASSIFY(m.a, ['x', 'y']) = 'x'") == 500


@pytest.mark.xfail(
    raises=AssertionError, strict=True, reason="NULLIF names its operand twice: DuckDB evaluates it once, for all rows"
)
def test_nullif_in_a_branch_that_a_call_decides() -> None:
    assert requests("select coalesce(AI_FILTER('p', a), nullif(AI_FILTER('q', b), id = 3)) from t") == 8


@pytest.mark.xfail(
    raises=AssertionError,
    strict=True,
    reason="DuckDB evaluates WHERE below a SEMI join, whose ON asks and can stand in no guard",
)
def test_condition_over_a_semi_join_that_asks() -> None:
    # The join lets no row through.
    assert (
        requests(
            "select t.id from t semi join u on t.k = u.k and AI_FILTER('''no''?', a) where AI_CLASSIFY(b, ['x', 'y']) = 'x'"
        )
        == 4
    )


@pytest.mark.xfail(
    raises=AssertionError,
    strict=True,
    reason="DuckDB evaluates a condition of the rows inside before it joins them to those outside",
)
def test_correlated_subquery_beside_a_condition() -> None:
    assert (
        requests(
            "select id from t where k > 90 and exists (select 1 from t i where i.k = t.k and AI_CLASSIFY(i.a, ['x', 'y']) = 'x')"
        )
        == 0
    )
