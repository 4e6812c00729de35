# ruff: noqa: E501 - SQL is easier to read on one line
"""DuckDB looks at conditions in an order of its own; questions are asked in SQL's order, and none that it would not reach."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest

from quail_engine import Connection

TABLES = """
create table t as select i as id, i % 4 as k, 'text ' || i as a, case when i < 3 then 'late ' else 'other ' end || i as b from range(8) r(i);
create table u as select i as uid, i as k, 'word ' || i as c from range(2) r(i);
create table many as select i as id, 'key ' || i as k, 'text ' || i as a from range(1000) r(i);
create table same as select i as id, 'late' as a from range(5) r(i);
create table even as select 'key ' || 2 * i as k from range(500) r(i);
"""
LATE, NO, X = "AI_FILTER('''late''?', t.b)", "AI_FILTER('''no''?', a)", "AI_CLASSIFY(b, ['x', 'y']) = 'x'"
TWICE = f"({LATE} and (AI_FILTER('''text''?', a) and (AI_FILTER('''text''?', a) or t.id < 5)))"


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        # WHERE is evaluated below a SEMI or ANTI join, and is asked about the rows that the join leaves: four have a partner.
        (f"select t.id from t semi join u on t.k = u.k and {NO} where {X}", 4),
        (f"select t.id from t anti join u on t.k = u.k and {NO} where {X}", 4 + 8),
        (f"select t.id from t semi join u on t.k = u.k and {LATE} where {X}", 4 + 2),
        (f"select t.id from t semi join u on t.k = u.k and {LATE} where t.id > 0 and {X}", 4 + 1),
        # A branch of the ON waits for its condition, though WHERE holds the rows back until all calls may ask.
        (
            f"select t.id from t anti join u on t.k = u.k and case when {LATE} then u.uid > 2 else AI_FILTER('''other''?', t.b) end where {X}",
            4 + 2 + 6,
        ),
        # Also where a query inside the join asks; its branches wait, and WHERE is asked about the two rows that are left.
        (
            f"select t.id from t semi join (select * from u where AI_FILTER('''word''?', c)) u on t.k = u.k and case when {LATE} then u.uid > 2 else AI_FILTER('''other''?', t.b) end where {X}",
            2 + 4 + 2 + 2,
        ),
        # So is an item that a query around has a condition on.
        (f"select id from (select t.id, {X} as x from t semi join u on t.k = u.k and {LATE}) where x", 4 + 2),
        # All columns of the other side are keys, whose values DuckDB also reads on this side.
        ("select m.id from many m join even e on m.k = e.k where AI_CLASSIFY(m.a, ['x', 'y']) = 'x'", 500),
        ("select m.id from many m join even e using (k) where AI_CLASSIFY(m.a, ['x', 'y']) = 'x'", 500),
        ("select m.id from many m join even e on m.k = e.k and AI_CLASSIFY(m.a, ['x', 'y']) = 'x'", 500),
        ("select m.id from many m join even e on m.k = e.k where e.k < 'key 3' and AI_SCORE('q', m.a) > 0.5", 112),
        # A condition inside a correlated subquery is asked about rows with a partner outside, once conditions there hold.
        (
            "select id from t where k > 90 and exists (select 1 from t i where i.k = t.k and AI_CLASSIFY(i.a, ['x', 'y']) = 'x')",
            0,
        ),
        ("select uid from u where exists (select 1 from t where t.k = u.k and AI_CLASSIFY(t.a, ['x', 'y']) = 'z')", 4),
        ("select uid, (select count(*) from t where t.k = u.k and AI_CLASSIFY(t.a, ['x', 'y']) = 'x') from u where uid = 1", 2),
        # Where OR or CASE looks at a subquery, its rows are those that it looks at: t.id 4 and 5 of the four with a partner.
        (
            "select id from t where exists (select 1 from u i where i.k = t.k and AI_FILTER('''no''?', i.c)) or t.id > 3 and exists (select 1 from u i where i.k = t.k and AI_FILTER('''no''?', i.c || t.a))",
            2 + 2,
        ),
        (
            "select case when t.id > 3 then exists (select 1 from u i where i.k = t.k and AI_FILTER('''no''?', i.c || t.a)) end from t",
            2,
        ),
        (
            "select id from t where exists (select 1 from u i where i.k = t.k and AI_FILTER('''no''?', i.c || t.b)) or id > 3 and exists (select 1 from u i where i.k = t.k and AI_FILTER('''no''?', i.c || t.a))",
            4 + 2,
        ),
        # WHERE makes an outer join an inner one, evaluated with it: the join finds no partner, and WHERE wants one.
        (f"select t.id from t left join u on t.k = u.k and {NO} where u.uid >= 0 and AI_FILTER('q', b)", 4),
        (f"select t.id from t left join u on t.k = u.k and {NO} where not u.c is null and AI_FILTER('q', b)", 4),
        (f"select t.id from t left join u on t.k = u.k and {NO} where u.uid is null and AI_FILTER('q', b)", 4 + 8),
        # The join lets no row through, as a query inside says.
        (f"select t.id from t semi join (select * from u where {NO.replace('a)', 'c)')}) u on t.k = u.k where {X}", 2),
        (f"select t.id from t anti join (select * from u where {NO.replace('a)', 'c)')}) u on t.k = u.k where {X}", 2 + 8),
        # A column of one value is a constant to DuckDB, and one that equals another is that other.
        ("select coalesce(AI_FILTER(a), AI_FILTER('q', a)) from same", 1),
        ("select AI_FILTER('q', a) from same s join u on s.id = u.uid + 10", 0),
        ("select id from same where id = 9 and AI_FILTER('q', id::varchar)", 0),
        ("select id, AI_FILTER('q', k::varchar) from (select id, k from t except select id, k from t) d where k = 1", 0),
        (
            "select d.id from (select id, k from t where k = 3) d join u on d.k = u.k where AI_CLASSIFY(d.k::varchar, ['x', 'y']) = 'x'",
            0,
        ),
        # What stands twice is computed once, and out of COALESCE for all rows.
        ("select coalesce(AI_FILTER('p', a), nullif(AI_FILTER('q', b), id = 3)) from t", 8),
        ("select coalesce(AI_FILTER('p', a), AI_FILTER('q', b)), coalesce(AI_FILTER('r', a), AI_FILTER('q', b)) from t", 8 + 8),
        # A key of GROUP BY that holds a call twice, each place with a guard of its own.
        (f"select {TWICE} x, count(*) from t group by {TWICE}", 8 + 8),
        (
            "select coalesce(AI_FILTER('p', a), AI_FILTER('q', b)) x, count(*) from t group by coalesce(AI_FILTER('p', a), AI_FILTER('q', b))",
            8,
        ),
    ],
)
def test_rows_and_requests(sql: str, asked: int, oracle: duckdb.DuckDBPyConnection, con: Connection) -> None:
    found = Counter(tuple(row.values()) for row in con.sql(sql).to_pylist())
    assert found == Counter(oracle.execute(sql).fetchall())
    assert con.report.asked == asked
