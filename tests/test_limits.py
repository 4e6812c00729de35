# ruff: noqa: E501 - SQL is easier to read on one line
"""Calls that only show something are asked about the rows that come out: LIMIT, OFFSET, QUALIFY, ties, levels."""

from __future__ import annotations

import duckdb
import pytest

import quail_engine
from quail_engine import Connection

TABLES = """
create table t as select i as id, i % 10 as k, case when i % 7 <> 3 then 'text ' || i || case when i % 4 = 0 then ' hit' else '' end end as a,
                         i % 2 as tie, 'only ' || i % 3 as few from range(200) r(i);
create table u as select i as k, 'name ' || i as name from range(5) r(i);
"""
HIT = "AI_FILTER('Mentions ''hit''?', a)"


def compare(con: Connection, oracle: duckdb.DuckDBPyConnection, sql: str, asked: int) -> None:
    found = con.sql(sql)
    assert found.equals(oracle.sql(sql).to_arrow_table())
    assert con.report.asked + con.report.recalled == asked


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        # Of ids 199 to 190, 199 and 192 have no text.
        ("select id, AI_SCORE('a1', a) as s from t order by id desc limit 10", 8),
        ("select id, AI_SCORE('a2', a) as s from t limit 10", 9),
        ("select id, AI_SCORE('a3', a) from t limit 5 offset 20", 4),
        ("select id, AI_SCORE('a4', a) from t offset 197", 2),
        ("select id, AI_SCORE('a5', a) from t limit 10 offset 1000", 0),
        ("select *, AI_SCORE('a6', few) as s from t order by id limit 10", 3),
        ("select t.*, AI_SCORE('a7', name) as s from t join u using (k) order by id desc limit 7", 5),
        ("select AI_SCORE('a8', a) + 1, AI_CLASSIFY(a, ['text', 'hit']), id from t where k = 2 order by id limit 3", 2 * 3),
        (
            "with c as (select * from t where k < 5) select id, AI_SCORE('a9', a) s, s > 0.5 as hot from c order by id limit 5",
            4,
        ),
        ("from t select id, AI_FILTER('a10', a) x order by id limit 2", 2),
        ("(select id, AI_FILTER('a11', a) x from t order by id limit 2)", 2),
        ("select id, AI_FILTER('a12', a) x, AI_FILTER('a12', a) y from t order by 1 desc limit 2", 1),
        ("select id, row_number() over (order by id desc) as n, AI_FILTER('a13', a) x from t order by n limit 3", 2),
        ("select AI_CLASSIFY(a, case when id > 0 then ['p', 'q'] else ['x', 'y'] end) from t order by id limit 2", 2),
        ("select k, AI_FILTER('a14', a) x from t qualify row_number() over (partition by k order by id) = 1 order by k", 9),
        (
            "select k, AI_FILTER('a15', a) x from t qualify row_number() over (partition by k order by id) = 1 order by k limit 2",
            2,
        ),
        ("select id, AI_FILTER('a16', a || ' ' || name) x from t left join u using (k) order by id limit 10", 4),
    ],
)
def test_rows_that_come_out(con: Connection, oracle: duckdb.DuckDBPyConnection, sql: str, asked: int) -> None:
    compare(con, oracle, sql, asked)


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        # From 199 down to the third hit, 184, are thirteen texts; a quarter more may be asked for larger passes.
        (f"select id, AI_SCORE('b1', a) as s from t where {HIT} order by id desc limit 3", 13 * 5 // 4 + 3),
        ("select id, AI_SCORE('b2', a) as s from t where AI_FILTER('b2?', few) is not null order by id limit 3", 3 + 3),
        ("select id, AI_SCORE('b3', a) as s from t order by AI_SCORE('b3 too', few), id limit 3", 3 + 3),
        ("with c as (select *, AI_FILTER('b4', few) as f from t) select id, f, AI_SCORE('b4 too', a) as s from c order by id limit 3", 3 + 3),
        ("select id, AI_SCORE('b5', a) as s from t where exists (select 1 from u where u.k = t.k and AI_FILTER('b5?', name)) order by id desc limit 3", 5 + 3),
    ],
)  # fmt: skip
def test_rows_that_come_out_of_other_calls(con: Connection, oracle: duckdb.DuckDBPyConnection, sql: str, asked: int) -> None:
    found = con.sql(sql)
    assert found.equals(oracle.sql(sql).to_arrow_table())
    assert con.report.asked <= asked


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        (f"with f as (select id, AI_SCORE('i1', a) as s from t where {HIT} order by id desc) select * from f limit 3", 13 * 5 // 4 + 3),
        (f"with f as (select * from t where {HIT} order by id desc), g as (select id, few, AI_SCORE('i2', a) from f) select * from g limit 3", 171 + 3),
        ("with f as (select *, AI_SCORE('i3', a) as s from t order by id desc), g as (select * from f) from g limit 3 offset 1", 3),
        (f"select * from (select id, id, k from t join u using (k) where {HIT} order by id desc) limit 2", 12 * 5 // 4),
        (f"with f as (select id, AI_SCORE('i8', a) as s, AI_SCORE('i9', a) as unread from t where {HIT} order by id desc) select s, id as n from f limit 3", 13 * 5 // 4 + 3),
        (f"with f as (select id, few, AI_SCORE('j1', a) as s from t where {HIT} order by id desc), g as (select f.s as r, few from f) select r, r as again from g limit 3", 13 * 5 // 4 + 3),
        (f"select id from (select id, AI_SCORE('j2', a) from t where {HIT} order by id desc) limit 3", 13 * 5 // 4),
        (f"select d.id, k, from (select id, k from t where {HIT} order by id desc) d limit 3", 13 * 5 // 4),
        (f"select d from (select id, k from t where {HIT} order by id desc) d limit 3", 171),
        (f"from t where {HIT} order by id desc limit 3", 13 * 5 // 4),
        (f"with c as (from t) from c join u using (k) where {HIT} order by id desc limit 2", 12 * 5 // 4),
        (f"from (from t where {HIT} order by id desc) limit 3", 13 * 5 // 4),
        (f"with c as (from t where {HIT} order by id desc) select id from c limit 2 offset 1", 13 * 5 // 4),
        (f"select * from (select * from (select id from t where {HIT} order by id desc) limit 4 offset 1) limit 2 offset 1", 171),
        ("with f as (select id, AI_SCORE('i4', few) as s from t) select * from f order by s, id limit 1", 3),
        ("with f as (select id, AI_SCORE('i5', few) as s from t order by id) select * from f union all select * from f limit 1", 3),
        ("with f as (select id, AI_SCORE('i6', few) as s from t order by id limit 4) select * from f limit 1", 3),
        ("with f as (select k, sum(AI_SCORE('i7', few)) as s from t group by k order by k) select * from f limit 1", 3),
    ],
)  # fmt: skip
def test_limit_over_a_query_that_is_passed_on(oracle: duckdb.DuckDBPyConnection, sql: str, asked: int) -> None:
    with quail_engine.connect(engine="mock") as con:
        con.sql(TABLES)
        assert con.sql(sql).equals(oracle.sql(sql).to_arrow_table())
        assert con.report.asked <= asked


def test_calls_that_wait_for_each_other(con: Connection, oracle: duckdb.DuckDBPyConnection) -> None:
    # The branch is asked only where the condition is TRUE.
    first = con.sql("select id from t where id < 10 and AI_FILTER('c1', a)").num_rows
    case = "case when AI_FILTER('c1', a) then AI_SCORE('c2', a) else -1 end"
    compare(con, oracle, f"select id, {case} as s from t order by id limit 10", 9 + first)
    nested = "AI_FILTER(PROMPT('c3 {0}', AI_CLASSIFY(a, ['text', 'hit'])))"
    compare(con, oracle, f"select id, {nested} as s from t order by id limit 10", 9 + 1)
    compare(
        con, oracle, "select id, coalesce(AI_FILTER('c4', a), AI_FILTER('c5', few)) as s from t order by id limit 10", 9 + 1
    )
    guarded = "case when k = 3 then AI_SCORE('c6', few) when k < 5 then AI_SCORE('c7', a) end"
    compare(con, oracle, f"select id, {guarded} as s from t order by id limit 10", 1 + 4)


def test_pairs_are_asked_in_one_order(con: Connection) -> None:
    sql = "select x.id, AI_FILTER(PROMPT('d1 {0} {1}', x.few, y.few), {'symmetric': true}) f from t x join t y on x.id = 2 - y.id order by x.id limit 3"
    assert con.sql(sql).num_rows == 3
    assert con.report.asked == 2  # 0 with 2, 1 with itself


def test_lists_of_labels(con: Connection) -> None:
    found = con.sql("select id, AI_CLASSIFY(a, ['text', 'hit'], output_mode => 'multi') as x from t order by id limit 2")
    assert all(isinstance(row, list) for row in found.column("x").to_pylist())
    assert con.report.asked == 2


def test_ties(con: Connection) -> None:
    # Any ten rows of two hundred equal ones, and their answers.
    found = con.sql("select id, AI_SCORE('e1', few) as s from t order by tie limit 10").to_pylist()
    assert len(found) == 10
    assert all(row["s"] is not None and row["id"] % 2 == 0 for row in found)
    assert con.report.asked == 3
    con.sql("create table wide as select i as id, i % 3 as tie, 'text ' || i as a from range(500000) r(i)")
    found = con.sql("select id, AI_SCORE('e2', a) as s from wide order by tie limit 10").to_pylist()
    assert len({row["id"] for row in found if row["s"] is not None and row["id"] % 3 == 0}) == 10
    assert con.report.asked in (10, 20)  # a scan of several threads may come out with other rows once


def test_written_results_have_the_querys_columns(con: Connection) -> None:
    con.sql("create table top3 as (select id, AI_SCORE('f1', a), id from t order by id limit 2)")
    assert (con.report.asked, con.report.rows) == (2, 2)
    con.sql("insert into top3 select id, AI_SCORE('f1', a), 0 from t order by id limit 1 offset 1")
    assert (con.report.asked, con.report.recalled) == (0, 1)
    table = con.sql("from top3")
    assert (table.num_rows, table.num_columns) == (3, 3)
    con.sql("set preserve_insertion_order = false")
    assert con.sql("select id, AI_SCORE('f1', a) s from t order by id desc limit 2").column("id").to_pylist() == [199, 198]
    con.sql("set preserve_insertion_order = true")


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        ("select id, AI_SCORE('g1', few) as s from t order by s, id limit 2", 3),
        ("select id, AI_SCORE('g2', few) as s from t order by 2, 1 limit 2", 3),
        ("select id, AI_FILTER('g11', few) from t order by all limit 2", 3),
        ("select *, AI_FILTER('g12', few) from t order by 1 limit 2", 3),
        ("select distinct AI_FILTER('g3', few) as s from t limit 1", 3),
        ("select AI_FILTER('g4', few) as s, count(*) from t group by s order by s limit 1", 3),
        ("select avg(AI_SCORE('g5', few)) from t limit 1", 3),
        ("select id, sum(AI_SCORE('g6', few)) over (order by id) from t order by id desc limit 1", 3),
        ("select id, AI_SCORE('g7', few) as s from t where s > 0 order by id limit 1", 3),
        ("select id, AI_SCORE('g8', few) as s from t qualify s = max(s) over () order by id limit 1", 3),
        ("select id, AI_SCORE('g9', COLUMNS('few')) from t order by id limit 3", 3),
        ("select AI_FILTER('g10', few) from t union all select AI_FILTER('g10', name) from u limit 1", 3 + 5),
    ],
)
def test_rows_that_do_not_come_out_and_count(con: Connection, oracle: duckdb.DuckDBPyConnection, sql: str, asked: int) -> None:
    found = con.sql(sql)
    assert found.num_rows == oracle.sql(sql).to_arrow_table().num_rows
    if "union" not in sql:
        assert found.equals(oracle.sql(sql).to_arrow_table())
    assert con.report.asked <= asked


def test_explain_says_so(con: Connection) -> None:
    text = con.explain("select id, AI_SCORE('h1', a) as s from t order by id limit 3")
    assert "ShownRows: ask about the rows that come out only\n  AI_SCORE 'h1 {0}'\n    of a, each distinct input once" in text
