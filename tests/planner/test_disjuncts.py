# ruff: noqa: E501 - SQL is easier to read on one line
"""Conditions of one OR, and of an AND inside an expression, are asked one after the other: rows, and requests worked out by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import duckdb
import pytest
from planner_cases import contains
from text_first import put_texts_first

from quail_engine import Connection

EVEN, FIVE = contains("even", "body"), contains("five", "body")
TWENTY = contains("twenty", "body", selectivity=0.05)
NOTE = contains("note 1", "note")  # TRUE for 11 of 50 notes, on 75 rows; NULL on 57
Connected = Callable[..., Connection]


def rows(table: object) -> Counter[str]:
    return Counter(map(str, table.to_pylist()))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("sql", "asked", "at_once"),
    [
        (f"select id from t where {EVEN} or {FIVE}", 400 + 200, 800),
        # The hint puts the rare one last, of an OR.
        (f"select id from t where {TWENTY} or {EVEN}", 400 + 200, 800),
        (f"select id from t where {EVEN} or {FIVE} or {TWENTY}", 400 + 200 + 160, 1200),
        (f"select id from t where k = 0 or {TWENTY} or {EVEN}", 360 + 200, 720),
        (f"select id from t where k < 5 and ({EVEN} or k = 0 or {FIVE})", 160 + 80, 320),
        (f"select id from t where not ({EVEN} or {FIVE})", 400 + 200, 800),
        (f"select id from t where not {EVEN} or not {FIVE}", 400 + 200, 800),
        # A NULL decides nothing: of the notes 57 rows are NULL, and on 75 rows one is TRUE.
        (f"select id, {NOTE} or {EVEN} as x from t", 50 + 325, 450),
        (f"select id, {NOTE} and {EVEN} as x from t", 50 + 75 + 57, 450),
        (f"select id, not ({NOTE} and {EVEN}) as x from t where id < 70", 46 + 19 + 10, 46 + 70),
        # In a WHERE only TRUE counts, and DuckDB itself passes over the second where the first is NULL.
        (f"select id from t where k = 3 or ({NOTE} and {EVEN})", 45 + 68, 45 + 68),
        (f"select case when {EVEN} or {FIVE} then 1 when {TWENTY} then 2 end as x from t", 400 + 200 + 160, 800 + 160),
        (f"select id, case when k = 1 then {EVEN} or {FIVE} end as x from t", 40 + 40, 80),
        (f"select sum(case when {EVEN} or {FIVE} then 1 end) as n from t", 400 + 200, 800),
        (f"select count(*) filter (where {EVEN} or {FIVE}) as n from t group by k", 400 + 200, 800),
        (f"select id from t qualify {EVEN} or {FIVE} or row_number() over (partition by k order by id) = 1", 390 + 200 - 5, 780),
        (f"select t.id, u.k from t left join u on t.k = u.k and ({contains('even', 't.body')} or {contains('even', 'u.name')})", 400 + 5, 410),
        (f"with c as (select * from t where {EVEN} or {FIVE}) select id, {TWENTY} as x from c", 400 + 200 + 240, 800 + 240),
        # An AND of ORs, the rarer one first: 50 notes, the texts beside the others, those of both that are TRUE, the odd ones of these.
        (f"select id from t where ({EVEN} or {FIVE}) and ({TWENTY} or {NOTE})", 50 + 325 + 92 + 41, 0),
        # An OR of ANDs: the second one on 360 rows, whose notes are 45.
        (f"select id from t where ({EVEN} and {FIVE}) or ({NOTE} and {TWENTY})", 400 + 200 + 45 + 69, 0),
        # A label or a score decides as well.
        (f"select id from t where AI_SCORE('Contains ''even''?', body) > 0.5 or {FIVE}", 400 + 200, 800),
        # What is grouped by must stay one text.
        (f"select {EVEN} or {FIVE} as x, count(*) as n from t group by x", 800, 800),
        (f"select distinct {EVEN} or {FIVE} as x from t", 800, 800),
    ],
)  # fmt: skip
def test_asked_one_after_the_other(
    connected: Connected, oracle: duckdb.DuckDBPyConnection, sql: str, asked: int, at_once: int
) -> None:
    con, without = connected(sample_rows=0), connected(sample_rows=0, disable_rules="order_disjuncts")
    expected = rows(oracle.sql(sql).to_arrow_table())
    assert rows(con.sql(sql)) == rows(without.sql(sql)) == expected
    assert con.report.asked + con.report.recalled == asked
    if at_once:
        assert without.report.asked + without.report.recalled == at_once
    assert con.report.asked <= without.report.asked


def test_the_plan_says_so(connected: Connected) -> None:
    con = connected(sample_rows=0)
    con.sql(f"select id from t where {TWENTY} or {EVEN}")
    first = "AI_FILTER 'Contains 'even'? {0}'"
    assert f"each where those before it are not TRUE: {first}, AI_FILTER 'Contains 'twenty'? {{0}}'" in con.report.plan
    con.sql(f"select id, {EVEN} and {FIVE} as x from t")
    assert "each where those before it are not FALSE" in con.report.plan


def test_as_written_keeps_the_order_of_the_text(connected: Connected) -> None:
    con = connected()
    con.sql(f"select id from t where {contains('twenty', 'body', order='as_written')} or {contains('even', 'body')}")
    assert con.report.asked == 400 + 380


def test_a_sample_finds_what_decides_most(connected: Connected) -> None:
    con = connected(sample_rows=40)
    con.sql(f"select id from t where {contains('twenty', 'body')} or {EVEN}")
    assert con.report.sampled == 2 * 40
    # The other one is asked where the first is not TRUE, and of the sample.
    assert 600 <= con.report.asked <= 600 + 40
    con.sql(f"select id from t where {contains('twenty', 'body')} or {EVEN}")
    assert con.report.asked == 0


def test_a_sample_of_what_a_guard_leaves(connected: Connected) -> None:
    con = connected(sample_rows=10)
    con.sql(f"select id, case when k < 3 then {contains('twenty', 'body')} or id < 100 or {EVEN} end as x from t")
    assert con.report.sampled == 2 * 10
    assert 90 + 30 <= con.report.asked <= 90 + 30 + 10


def test_a_failed_condition_decides_nothing(connected: Connected) -> None:
    con = connected(mock_fail="twenty", max_error_ratio=1.0, sample_rows=0)
    assert (
        con.sql(
            f"select id from t where {contains('even', 'body', order='as_written')} or AI_FILTER('Is it one?', body)"
        ).num_rows
        >= 180
    )
    assert (con.report.asked, con.report.failed) == (400 + 200 + 20, 20 + 20)


def test_limit_asks_one_condition_of_a_row_at_a_time(connected: Connected, oracle: duckdb.DuckDBPyConnection) -> None:
    sql = f"select id from t where {TWENTY} or {EVEN} order by id limit 10"
    con = connected()
    assert con.sql(sql).to_pylist() == oracle.sql(sql).to_arrow_table().to_pylist()
    # Down to the tenth hit are 19 rows, nine of them odd; some more are asked for larger passes.
    assert 19 + 9 <= con.report.asked <= 1.5 * (19 + 9)


@pytest.mark.parametrize(
    ("condition", "apart"),
    [(f"{EVEN} or {FIVE}", 600), (f"not ({EVEN} and {FIVE})", 600), (f"({EVEN} and {FIVE}) or id < 20", 570)],
)
def test_conditions_about_one_long_text_are_asked_together(
    connected: Connected, oracle: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, condition: str, apart: int
) -> None:
    put_texts_first(monkeypatch)
    sql = f"select id from (select id, body || repeat(' ' || md5(id::varchar), 30) as body from t) where {condition}"
    con, other = connected(sample_rows=0), connected(sample_rows=0, disable_rules="ask_together")
    assert rows(con.sql(sql)) == rows(other.sql(sql)) == rows(oracle.sql(sql).to_arrow_table())
    assert con.report.asked == other.report.asked == apart, (
        "the second while the text's KV is held, where the first leaves it open"
    )
    assert con.report.tokens_fresh < 0.8 * other.report.tokens_fresh


@pytest.mark.parametrize("condition", [f"{EVEN} or {FIVE} or {TWENTY}", f"not ({EVEN} and {FIVE} and {TWENTY})"])
def test_what_all_conditions_know_is_seen(connected: Connected, oracle: duckdb.DuckDBPyConnection, condition: str) -> None:
    # A sample of all rows, on many of which two conditions decide.
    con = connected(sample_rows=400)
    con.sql(
        "create or replace table many as from t union all from t union all from t union all from t union all select id, k, body || ' again', note from t, range(7)"
    )
    oracle.execute(
        "create or replace table many as from t union all from t union all from t union all from t union all select id, k, body || ' again', note from t, range(7)"
    )
    sql = f"select id from many where {condition}"
    assert rows(con.sql(sql)) == rows(oracle.sql(sql).to_arrow_table())
    assert con.report.sampled >= 2 * 400
