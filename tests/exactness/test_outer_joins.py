# ruff: noqa: E501 - SQL is easier to read on one line
"""Pairs that are listed before they are asked never make a row appear: an AI join under joins that fill in NULLs."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest

from quail_engine import Connection

TABLES = """
create table t as select i as id, i % 4 as k, 'late ' || i as a from range(8) r(i);
create table u as select i as uid, i as k, case when i = 1 then 'late word' else 'other' end as c from range(3) r(i);
"""
PAIR = "AI_JOIN(PROMPT('{0} shares a word with {1}', t.a, u.c))"


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        # k = k leaves six pairs, two of each u; those of u 1 are TRUE.
        (f"select t.id, u.uid from t left join u on t.k = u.k and {PAIR}", 6),
        (f"select t.id, u.uid from t right join u on t.k = u.k and {PAIR}", 6),
        (f"select t.id, u.uid from t full join u on t.k = u.k and {PAIR}", 6),
        (f"select t.id from t semi join u on t.k = u.k and {PAIR}", 6),
        (f"select t.id from t anti join u on t.k = u.k and {PAIR}", 6),
        # A join that comes later fills in NULLs for the rows that the AI join dropped, and WHERE looks at those.
        (f"select w.uid, t.id from t join u on t.k = u.k and {PAIR} right join u w on w.uid = t.id where t.id is null", 6),
        (f"select w.uid, t.id from t join u on t.k = u.k and {PAIR} full join u w on w.uid = t.id where t.id is null", 6),
        (f"select w.uid, t.id from t join u on t.k = u.k and {PAIR} left join u w on w.uid = t.id where w.uid is null", 6),
        # An AI join over rows that a LEFT join filled in: a NULL text is not asked, two texts a side are.
        (
            "select t.id, w.uid from t left join u on t.id = u.uid join u w on AI_JOIN(PROMPT('{0} shares a word with {1}', u.c, w.c))",
            4,
        ),
    ],
)
def test_rows_and_requests(sql: str, asked: int, oracle: duckdb.DuckDBPyConnection, con: Connection) -> None:
    found = [tuple(row.values()) for row in con.sql(sql).to_pylist()]
    assert Counter(found) == Counter(oracle.execute(sql).fetchall())
    assert con.report.asked <= asked
