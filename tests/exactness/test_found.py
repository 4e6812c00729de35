# ruff: noqa: E501 - SQL is easier to read on one line
"""Queries that were wrong once: what the differential or a hostile reader found, each with the most that it may ask."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest

from quail_engine import Connection

TABLES = """
create table t as select i as id, i % 4 as k, 'late ' || i as a from range(8) r(i);
create table u as select i as uid, i as k, 'word ' || i as c from range(2) r(i);
create table s as select 2 * i as k, 'text ' || i as b from range(3) r(i);
"""


@pytest.mark.parametrize(
    ("sql", "most"),
    [
        # FROM first: its joins are the query's joins. k leaves four rows of t without a partner, and four with one.
        ("from t anti join u on t.k = u.k select t.id where AI_FILTER('q', t.a) or t.id < 0", 4),
        ("from t semi join u on t.k = u.k where AI_FILTER('q', t.a) or t.id < 0", 4),
        ("from t join u on t.k = u.k and AI_FILTER('q', t.a)", 4),
        ("from t join u on t.k = u.k select t.id where AI_FILTER(PROMPT('Does it mention ''late''? {0}', t.a)) limit 1", 1),
        # Joins in brackets: their relations are named outside, and their ON sees none but theirs. Keys leave two pairs, and two rows of u.
        (
            "select t.id from t join (u join u w on u.k = w.k and AI_JOIN(PROMPT('{0} {1}', u.c, w.c))) on t.k = u.k where AI_FILTER('q', t.a)",
            6,
        ),
        (
            "select t.id from t left join (u right join u w on u.uid = w.uid + 1 and AI_FILTER('q', u.c)) on t.k = w.k where AI_FILTER('q', t.a) or u.uid is null",
            9,
        ),
        ("select t.id, u.uid from t join u join u w on w.k = u.k and AI_JOIN(PROMPT('{0} {1}', u.c, w.c)) on t.k = u.k", 2),
        # A later join fills in NULLs where WHERE looks: what a SEMI or ANTI join before it demands is not demanded there.
        (
            "select t.id, w.uid from t semi join u on t.k = u.k full join u w on t.id = w.uid + 100 where AI_FILTER(PROMPT('Does it mention ''word''? {0}', w.c))",
            2,
        ),
        (
            "select t.id, w.uid from t anti join u on t.k is not distinct from u.k right join u w on t.id = w.uid where AI_FILTER(PROMPT('Does it mention ''word''? {0}', w.c))",
            2,
        ),
        # DuckDB lost its database over a test of membership in the first ON.
        ("select t.id, w.uid from t left join u on t.k = u.k and AI_FILTER('q', t.a) full join u w on t.id >= w.uid", 8),
        ("select t.id, w.uid from t full join u on AI_FILTER('q', u.c) join u w on t.id >= w.uid", 2),
        # A dependency is no key of the join, though the select list shows it: keys leave four rows of t, two of u, three of t.
        ("select u.k from u join t on t.k = u.k where AI_CLASSIFY(t.a, ['x', 'y']) = 'x'", 4),
        ("select t.k from t left join u on u.k = t.k and AI_CLASSIFY(u.c, ['x', 'y']) = 'x'", 2),
        ("select s.k from s left join t on t.id = s.k and AI_CLASSIFY(t.a, ['x', 'y']) = 'x'", 3),
        # What names a group in IN: not a column of a join that only drops, and no value of UNNEST.
        (
            "select id from t where k in (select i.k from u i anti join u j on i.uid > j.uid where AI_FILTER(PROMPT('Does it mention ''word''? {0}', i.c)))",
            1,
        ),
        (
            "select id from t where k in (select unnest([k, k + 1]) from u where AI_FILTER(PROMPT('Does it mention ''word''? {0}', c)))",
            2,
        ),
        # A key that the subquery's equality gives the outer row: it told no partner, and the call was asked below the join.
        (
            "select t.id, (select count(*) from u i where i.k = t.k and AI_CLASSIFY(t.a, ['x', 'y']) = 'x' and i.k = 3) as n from t",
            0,
        ),
        (
            "select id from t where exists (select 1 from u where u.k = t.k and AI_CLASSIFY(t.a, ['x', 'y']) = 'x' and u.k = 3)",
            0,
        ),
        # A condition on the answer of a query inside, which DuckDB evaluates below its SEMI or ANTI join.
        ("select d.id from (select t.id, AI_FILTER('q', t.a) as x from t anti join u on t.k - 10 < u.k) d where d.x", 0),
        # A second LIMIT or OFFSET inside cuts what is certain, not what is open.
        (
            "select * from (select * from (select id from t where AI_FILTER(PROMPT('Does it mention ''late''? {0}', a))) offset 2) limit 3",
            8,
        ),
    ],
)
def test_rows_and_requests(sql: str, most: int, oracle: duckdb.DuckDBPyConnection, con: Connection) -> None:
    table = con.sql(sql)
    found = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    expected = oracle.execute(sql).fetchall()
    assert len(found) == len(expected) if " limit " in sql else Counter(found) == Counter(expected)
    assert con.report.asked <= most
