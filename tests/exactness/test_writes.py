# ruff: noqa: E501 - SQL is easier to read on one line
"""Statements that write, behind CTEs and with RETURNING: what they return and leave, and what they ask."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import quail_engine
from quail_engine import Connection, SqlError

TABLES = """
create table t as select i as id, i % 4 as k, case when i < 3 then 'late ' else 'text ' end || i as a from range(8) r(i);
create table r as select *, null::varchar as x from t;
create table kept (id integer primary key, x varchar); insert into kept values (1, 'old');
"""
LATE, CLASS = "AI_FILTER('Mentions ''late''?', a)", "AI_CLASSIFY(a, ['late', 'text'])"


@pytest.fixture
def con() -> Iterator[Connection]:
    with quail_engine.connect(engine="mock") as connection:
        connection.sql(TABLES)
        yield connection


@pytest.fixture
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with quail_engine.oracle() as connection:
        connection.execute(TABLES)
        yield connection


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize(
    ("sql", "written", "asked"),
    [
        # What a query in FROM asks about is read by SET alone.
        (f"update r set x = d.y from (select id, {CLASS} as y from t) d where d.id = r.id", "r", 8),
        (f"update r set x = d.y from (select id, {CLASS} as y from t where k = 1) d where d.id = r.id", "r", 2),
        (f"with c as (select id from t where {LATE}) insert into r (id) select id from c", "r", 8),
        (f"with c as (select * from t where k = 1) insert into r (id, x) with d as (from c) select id, {CLASS} from d", "r", 2),
        (f"with c as (select id, {CLASS} as y from t) update r set x = c.y from c where c.id = r.id", "r", 8),
        (f"with c as (select id from t where {LATE}) delete from r using c where c.id = r.id", "r", 8),
        (f"with c as (select id from t where {LATE}) delete from r where id in (from c) and k < 2", "r", 8),
        (f"insert into r (id, x) select id, {CLASS} from t where k = 1 returning id, upper(x) as y", "r", 2),
        ("insert into r (id, x) values (9, AI_CLASSIFY('late', ['late', 'text'])) returning *", "r", 1),
        (f"insert into kept select id, {CLASS} from t where k = 1 on conflict do update set x = excluded.x returning *", "kept", 2),
        (f"with c as (from t where k = 1) insert into kept select id, {CLASS} from c on conflict do nothing returning *", "kept", 2),
        (f"update r set x = {CLASS}, k = default where k = 1 returning r.*, 1 as one", "r", 2),
        (f"delete from r where {LATE} and k < 2 returning id", "r", 4),
        (f"delete from r where {LATE} and false returning id", "r", 0),
        (f"merge into r using (select id from t where {LATE}) d using (id) when matched then delete returning merge_action, id", "r", 8),
    ],
)  # fmt: skip
def test_rows_and_requests(
    con: Connection, oracle: duckdb.DuckDBPyConnection, sql: str, written: str, asked: int, in_transaction: bool
) -> None:
    expected = oracle.execute(sql).fetchall()
    if in_transaction:
        con.sql("begin")
    found = con.sql(sql)
    report = con.report
    if in_transaction:
        con.sql("commit")
    if " returning " in sql:
        assert sorted(map(repr, zip(*(c.to_pylist() for c in found.columns), strict=True))) == sorted(map(repr, expected))
        assert report.rows == len(expected)
    else:
        assert found.to_pylist() == [{"Count": expected[0][0]}]
    assert report.asked == asked
    left = oracle.execute(f"from {written} order by all").fetchall()
    assert [tuple(row.values()) for row in con.sql(f"from {written} order by all").to_pylist()] == left


def test_what_returns_is_written_once_and_taken_back(con: Connection) -> None:
    con.sql("create sequence s; create table n (i integer default nextval('s'), x varchar)")
    assert con.sql(f"insert into n (x) select {CLASS} from t where k = 1 returning i").to_pylist() == [{"i": 1}, {"i": 2}]
    con.sql("begin")
    assert con.sql(f"delete from r where {LATE} returning id").num_rows == 3
    con.sql("rollback")
    assert con.sql("select count(*) as n from r").to_pylist() == [{"n": 8}]


def test_what_returns_keeps_its_types(con: Connection) -> None:
    con.sql("create table w (e enum('p', 'q'), h hugeint, b bit, z timetz, n union(i int, s varchar))")
    row = "'q', 170141183460469231731687303715884105727, '0101', '10:00:00+02', 7"
    insert = f"insert into w select {row} where AI_FILTER('Mentions ''late''?', 'late') returning *"
    shown = "e::varchar, h::varchar, b::varchar, z::varchar, typeof(e), typeof(h), typeof(b), typeof(z), typeof(n)"
    returned = con.sql(f"{insert}; select {shown} from temp.main.__quail_result")
    assert returned.num_rows == 1
    assert returned.equals(con.sql(f"select {shown} from w"))


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        (f"delete from r where k = 1 returning {LATE}", "cannot stand before or after its query in a DELETE statement"),
        (f"with c as (from t) delete from r where k = 1 returning {LATE}", "before or after its query in a DELETE statement"),
        (f"with c as (from t) merge into r using (from t where {LATE}) d using (id) when matched then delete", "a MERGE that begins with WITH"),
    ],
)  # fmt: skip
def test_refusals(con: Connection, sql: str, says: str) -> None:
    with pytest.raises(SqlError, match=says) as error:
        con.sql(sql)
    assert "^" * len("AI_FILTER") in str(error.value)
    assert con.sql("select count(*) as n from r").to_pylist() == [{"n": 8}]
