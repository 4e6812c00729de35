# ruff: noqa: E501 - SQL is easier to read on one line
"""What is measured before a statement is planned: counts, samples, and when neither is worth its price."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from planner_cases import contains

from quail_engine import BudgetError, Connection
from quail_engine.resolve import Resolver

Connected = Callable[..., Connection]

MANY = """
create or replace table many as
    select i as id, i % 4 as k, 'row ' || i || case when i % 2 = 0 then ' even' else '' end || case when i % 20 = 0 then ' twenty' else '' end
           || case when i % 20 in (0, 1) then ' tenth' else '' end as body, 'note ' || i % 40 as note
    from range(2000) r(i)
"""
EVEN, TWENTY, TENTH = (contains(word, "body") for word in ("even", "twenty", "tenth"))


@pytest.fixture
def con(connected: Connected) -> Connection:
    connection = connected()
    connection.sql(MANY)
    return connection


def test_a_sample_puts_the_rare_condition_first(con: Connection) -> None:
    assert con.sql(f"select id from many where {EVEN} and {TWENTY}").num_rows == 100
    report = con.report
    assert report.sampled == 2 * 64
    # Asked of all rows is the rare one; of its 100 rows, and of the sample, the other.
    assert 2000 + 100 <= report.asked <= 2000 + 100 + 64


def test_what_a_sample_answered_is_not_asked_again(con: Connection) -> None:
    con.sql(f"select id from many where {EVEN} and {TWENTY}")
    con.sql(f"select id from many where {EVEN} and {TWENTY}")
    assert con.report.asked == 0
    assert con.report.sampled == 0


def test_a_sample_sees_that_conditions_go_together(con: Connection) -> None:
    # Of the rows that hold 'tenth' half hold 'even', of those that hold 'twenty' all hold both: after 'twenty' neither is of use.
    con.sql(f"select id from many where {EVEN} and {TENTH} and {TWENTY}")
    assert con.report.sampled == 3 * 64
    assert 2000 + 100 + 100 <= con.report.asked <= 2000 + 100 + 100 + 2 * 64


def test_the_sample_grows_with_the_table(connected: Connected) -> None:
    con = connected()
    con.sql("create or replace table more as select 'row ' || i as body from range(6400) r(i)")
    con.sql(f"select count(*) from more where {contains('1', 'body')} and {contains('2', 'body')}")
    assert con.report.sampled == 2 * 200


@pytest.mark.parametrize(
    ("condition", "settings"),
    [
        (f"{EVEN} and {TWENTY}", {"sample_rows": 0}),
        (f"{EVEN} and {TWENTY}", {"disable_rules": ["order_conjuncts"]}),
        (f"k = 0 and {EVEN} and {TWENTY}", {}),  # 500 rows: too few
        (f"{EVEN}", {}),
        (f"case when {EVEN} then {TWENTY} end", {}),
        (f"{EVEN} and {contains('twenty', 'body', selectivity=0.05)}", {}),
        (f"{EVEN} and {contains('twenty', 'body', order='as_written')}", {}),
        (f"{EVEN} and {TWENTY} limit 3", {}),
    ],
)
def test_no_sample(connected: Connected, condition: str, settings: dict[str, object]) -> None:
    con = connected(**settings)
    con.sql(MANY)
    con.sql(f"select id from many where {condition}")
    assert con.report.sampled == 0


def test_no_sample_before_a_budget_refuses(connected: Connected) -> None:
    con = connected(max_requests=1000)
    con.sql(MANY)
    with pytest.raises(BudgetError):
        con.sql(f"select id from many where {EVEN} and {TWENTY}")
    assert con.report.asked == 0
    con.sql(f"select id from many where {EVEN}{' and k < 2' * 2}")
    assert con.report.asked == 1000, "nothing was asked before"


def test_samples_of_other_rows(connected: Connected) -> None:
    """Rows with NULL, conditions of several columns, CTEs, and statements that write."""
    con = connected(sample_rows=50)
    con.sql(MANY)
    con.sql("update many set note = null where id % 10 = 3")
    few = contains("note 1", "note")
    con.sql(f"with c as (select * from many where k <> 1) select id from c where {EVEN} and {few}")
    # 40 notes, of which every tenth row lacks one: asked of all first.
    assert con.report.sampled <= 50 + 40
    assert con.report.asked <= 40 + 50 + 1500 * 11 // 40
    con.sql(f"create or replace table kept as select id from many where {TENTH} and {TWENTY} and not {contains('77', 'body')}")
    assert con.report.sampled == 150
    con.sql(f"delete from many where {EVEN} and {contains('13', 'body')}")
    assert 0 < con.report.sampled <= 100  # some of it was known
    left = sum(1 for i in range(2000) if i % 2 or "13" not in str(i))
    assert con.sql("select count(*) as n from many").to_pylist() == [{"n": left}]


def test_filters_of_a_join_are_sampled(con: Connection) -> None:
    con.sql("create or replace table units as select i as k, 'unit ' || i as name from range(3) r(i)")
    even, twenty = contains("even", "m.body"), contains("twenty", "m.body")
    pair = "AI_FILTER(PROMPT('Contain ''1''? {0} {1}', m.body, u.name))"
    con.sql(f"select m.id from many m join units u on m.k = u.k where {even} and {twenty}")
    # k of 0 to 2 have 1,500 rows; those that hold 'twenty' have 0.
    assert con.report.sampled == 2 * 64
    assert 1500 + 100 <= con.report.asked <= 1500 + 100 + 64
    # Rows that only an answer links to the units: the units are counted apart.
    con.sql(f"select m.id from many m join units u on {pair} where {contains('tenth', 'm.body')} and {contains('7', 'm.body')}")
    assert con.report.sampled == 2 * 64


def test_what_the_store_remembers_takes_the_place_of_a_sample(connected: Connected, tmp_path: Path) -> None:
    con = connected(answers=str(tmp_path / "answers"))
    con.sql(MANY)
    con.sql(f"select {EVEN}, {TWENTY} from many where id between 100 and 299")
    con.sql(f"select id from many where {EVEN} and {TWENTY}")
    assert con.report.sampled == 0
    # The 200 rows that were asked before are known: 1,800, and of the 100 that hold 'twenty' 90.
    assert (con.report.asked, con.report.recalled) == (1800 + 90, 200 + 10)


def test_the_order_stays_where_it_was_paid_for(connected: Connected, tmp_path: Path) -> None:
    # All rows that hold 'twenty' are even, and nearly all that the store remembers of 'even' is about those: NOT looks rare.
    con = connected(answers=str(tmp_path / "answers"))
    con.sql(MANY)
    sql = f"select id from many where not {EVEN} and {TWENTY}"
    con.sql(sql)
    first = con.report.asked
    assert 2000 + 100 <= first <= 2000 + 100 + 64
    con.sql(sql)
    assert con.report.asked == 0
    con.sql("insert into many select id + 5000, k, body || ' more', note from many where id < 200")
    con.sql(sql)
    assert con.report.asked == 200 + 10


@pytest.mark.parametrize("condition", [f"{EVEN} and {TENTH} and {TWENTY}", f"{TWENTY} or {TENTH} or {EVEN}"])
def test_what_is_answered_takes_one_run(
    connected: Connected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    con = connected(answers=str(tmp_path / "answers"))
    con.sql(MANY)
    sql, runs = f"select id from many where {condition} order by id", []
    first = con.sql(sql)
    for run in ("_keep", "_drain"):
        through = getattr(Resolver, run)
        monkeypatch.setattr(Resolver, run, lambda *given, through=through: (runs.append(1), through(*given)))
    assert con.sql(sql) == first
    assert (con.report.asked, len(runs)) == (0, 1)
    con.sql("insert into many select id + 5000, k, body || ' more', note from many where id < 200")
    assert con.sql(sql).num_rows == first.num_rows + sum(i < 200 for i in first["id"].to_pylist())
    assert 200 <= con.report.asked <= 3 * 200


def test_pruned_counts_what_was_made_needless(con: Connection) -> None:
    con.sql(f"select id from many where {EVEN} and {TWENTY}")
    assert con.report.pruned == 2 * 2000 - con.report.asked > 1800
    con.sql(f"select id from many where {contains('1', 'body')}")
    assert con.report.pruned == 0
    con.sql(f"select {contains('2', 'body')} from many where {EVEN} and {TWENTY}")
    assert con.report.pruned == 0, "what the select list needs is not counted"


@pytest.mark.parametrize(
    "condition", [f"{EVEN} is true", f"coalesce({EVEN}, false)", f"case when {EVEN} then true else false end"]
)
def test_a_sampled_condition_that_is_false_of_what_nobody_knows(con: Connection, condition: str) -> None:
    # Such a condition says nothing about the rows that no sample met: it must not keep others from being asked about them.
    assert con.sql(f"select id from many where {TENTH} and {condition}").num_rows == 100
    assert con.report.sampled == 2 * 64
