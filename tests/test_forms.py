# ruff: noqa: E501 - SQL is easier to read on one line
"""Forms of a statement around its query, and of a call around its arguments."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import quail_engine
from quail_engine import Connection
from quail_engine.errors import SqlError

LATE = "AI_FILTER('Mentions ''late''?', body)"


@pytest.fixture
def con() -> Iterator[Connection]:
    with quail_engine.connect(engine="mock") as connection:
        connection.sql(
            "create table t as select i as id, 'text ' || i || case when i % 5 = 0 then ' late' else '' end as body from range(20) r(i)"
        )
        yield connection


def test_a_view_with_a_call_takes_a_views_place(con: Connection) -> None:
    con.sql("create view v as select 1 as a; create schema other; create view other.v as select 2 as a")
    con.sql(f"create or replace view V as select id from t where {LATE}")
    assert con.report.asked == 20
    con.sql(f"create or replace view v as (select id from t where {LATE} and id < 10)")  # and then a table's
    assert con.sql("from v order by 1").column("id").to_pylist() == [0, 5]
    assert con.sql("from other.v").column("a").to_pylist() == [2]
    con.sql(f'create or replace view memory."other".v (late) as select {LATE} from t')
    assert con.sql("select count(*) filter (late) as n from other.v").column("n").to_pylist() == [4]
    con.sql("create view kept as select 3 as a")
    with pytest.raises(duckdb.Error, match="kept"):
        con.sql(f"create view kept as select id from t where {LATE}")
    assert con.sql("from kept").column("a").to_pylist() == [3]


def test_summarize(con: Connection) -> None:
    table = con.sql(f"summarize select id, {LATE} as late from t")
    assert table.column("column_name").to_pylist() == ["id", "late"]
    assert table.column("count").to_pylist() == [20, 20]
    assert con.report.asked == 20
    assert con.sql(f"summarize (select {LATE} as late from t); summarize t").num_rows == 2


def test_with_before_a_statement_that_writes(con: Connection) -> None:
    con.sql(f"with c as (select * from t where {LATE}) insert into t select id + 200, body from c")
    assert (con.report.rows, con.report.asked) == (4, 20)
    con.sql(f"with c as (select id from t where {LATE}) delete from t where id > 99 and id in (select id from c)")
    assert (con.report.rows, con.report.asked) == (4, 0)
    con.sql(f"insert into t with c as (select * from t where {LATE}) select id + 100, body from c")
    assert (con.report.rows, con.report.asked) == (4, 0)
    con.sql(f"delete from t where id in (with c as (select id from t where {LATE}) select id from c)")
    assert (con.report.rows, con.report.asked) == (8, 0)


def test_labels_by_name(con: Connection) -> None:
    for call in (
        "AI_CLASSIFY(body, labels => ['late', 'text'])",
        "AI_CLASSIFY(body, ['late', 'text'])",
        "AI_CLASSIFY(body, labels := ['late', 'text'], on_overlong => 'null')",
    ):
        assert con.sql(f"select count(*) as n from t where {call} = 'late'").column("n").to_pylist() == [4]
    assert con.report.asked == 0
    with pytest.raises(SqlError, match="an input and a list of labels"):
        con.sql("select AI_CLASSIFY(body, ['a', 'b'], labels => ['a', 'b']) from t")
    with pytest.raises(SqlError, match="Unknown option 'labels'"):
        con.sql("select AI_FILTER(body, labels => ['a', 'b']) from t")
