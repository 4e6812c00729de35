# ruff: noqa: E501 - SQL is easier to read on one line
"""Conditions of one AND are asked one after the other: rows, requests worked out by hand, and what decides the order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import duckdb
import pytest
from planner_cases import contains

from quail_engine import Connection
from quail_engine.plan.order import Asked, cheapest, expected_cost

EVEN, FIVE = contains("even", "body"), contains("five", "body")
TWENTY = contains("twenty", "body", selectivity=0.05)
Connected = Callable[..., Connection]


def rows(table: object) -> Counter[str]:
    return Counter(map(str, table.to_pylist()))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        # The hint puts the rare one first: 400 rows, and the 20 that it keeps.
        (f"select id from t where {EVEN} and {TWENTY}", 400 + 20),
        (f"select id from t where {TWENTY} and {EVEN}", 400 + 20),
        (f"select id from t where k = 0 and {EVEN} and {TWENTY}", 40 + 20),
        (f"select id from t where {EVEN} and k = 0 and ({TWENTY})", 40 + 20),
        # Nothing is known: as the text has them. Of 200 even texts 40 hold 'five'.
        (f"select id from t where {EVEN} and {FIVE}", 400 + 200),
        (f"select id from t where {EVEN} and {FIVE} and {TWENTY}", 400 + 20 + 20),
        (f"select id from t where not {EVEN} and {FIVE}", 400 + 200),
        (f"select id from t where {EVEN} and not {contains('five', 'body', selectivity=0.9)}", 400 + 320),
        (f"select count(*) filter (where {EVEN} and {TWENTY}) as n from t", 400 + 20),
        (f"select count(*) filter (where {EVEN} and {TWENTY}) as n, min(id) as i from t group by k", 400 + 20),
        (f"select id from t qualify {EVEN} and {TWENTY} and row_number() over (partition by k order by id) <= 10", 100 + 5),
        # All rows that hold 'twenty' have the same k.
        (f"select id from t where exists (select 1 from u where u.k = t.k and {contains('even', 'name')}) and {EVEN} and {TWENTY}", 400 + 20 + 1),
        # There are 50 different notes; 11 of them hold 'note 1', and stand on 75 rows.
        (f"select id from t where {TWENTY} and {contains('note 1', 'note')}", 50 + 75),
        # A part of the AND that is not one call.
        (f"select id from t where (id < 100 or {EVEN}) and {TWENTY}", 400 + 15),
        (f"select id from t where {TWENTY} and (id < 100 or {FIVE})", 400 + 15),
        (f"select id, {contains('five', 'body')} as five from t where {EVEN} and {TWENTY}", 400 + 20 + 20),
        (f"with c as (select * from t where {EVEN} and {TWENTY}) select * from c where {FIVE}", 400 + 20 + 20),
    ],
)  # fmt: skip
def test_asked_one_after_the_other(connected: Connected, oracle: duckdb.DuckDBPyConnection, sql: str, asked: int) -> None:
    con = connected(sample_rows=0)
    found = con.sql(sql)
    assert rows(found) == rows(oracle.sql(sql).to_arrow_table())
    assert con.report.asked + con.report.recalled == asked


def test_as_written_keeps_the_order_of_the_text(connected: Connected) -> None:
    con = connected()
    con.sql(f"select id from t where {contains('even', 'body', order='as_written')} and {TWENTY}")
    assert con.report.asked == 400 + 200
    assert "one after the other" in con.report.plan


def test_writing_statements(connected: Connected, oracle: duckdb.DuckDBPyConnection) -> None:
    con = connected(sample_rows=0)
    con.sql("create or replace table v as from t")
    oracle.execute("create or replace table v as from t")
    for sql, asked in (
        (f"update v set k = -1 where {EVEN} and {TWENTY}", 400 + 20),
        (f"delete from v where {FIVE} and {contains('odd', 'body', selectivity=0.01)}", 400 + 200),
    ):
        con.sql(sql)
        assert con.report.asked + con.report.recalled == asked
        oracle.execute(sql)
        assert rows(con.sql("from v")) == rows(oracle.sql("from v").to_arrow_table())


def test_a_failed_condition_makes_the_others_needless(connected: Connected) -> None:
    con = connected(mock_fail="twenty", max_error_ratio=1.0, sample_rows=0)
    assert con.sql(f"select id from t where {TWENTY} and {EVEN}").num_rows == 0
    assert (con.report.asked, con.report.failed) == (400, 20)


def test_limit_asks_the_rare_condition_first(connected: Connected, oracle: duckdb.DuckDBPyConnection) -> None:
    sql = f"select id from t where {EVEN} and {TWENTY} order by id limit 3"
    con, as_it_comes = connected(), connected(disable_rules="order_conjuncts")
    for each in (con, as_it_comes):
        assert each.sql(sql).to_pylist() == oracle.sql(sql).to_arrow_table().to_pylist()
    # Down to the third hit are 41 rows, of which 21 are even; some more are asked for larger passes.
    assert 41 + 3 <= con.report.asked <= 1.5 * (41 + 3)
    assert as_it_comes.report.asked >= 41 + 21


def test_limit_learns_from_its_answers(connected: Connected, oracle: duckdb.DuckDBPyConnection) -> None:
    # No hint: the order turns once it is seen that half of the texts are even and one in twenty holds 'twenty'.
    sql = f"select id from t where {EVEN} and {contains('twenty', 'body')} order by id desc limit 8"
    learning, as_it_comes = connected(), connected(disable_rules="order_conjuncts")
    fixed = connected()
    for con, text in ((learning, sql), (as_it_comes, sql), (fixed, sql.replace("body)", "body, {'order': 'as_written'})"))):
        assert con.sql(text).to_pylist() == oracle.sql(sql).to_arrow_table().to_pylist()
    assert as_it_comes.report.asked == fixed.report.asked >= 160 + 80
    assert learning.report.asked < 0.9 * as_it_comes.report.asked


def test_limit_asks_few_inputs_first(connected: Connected, oracle: duckdb.DuckDBPyConnection) -> None:
    # Ten names stand beside 400 texts: once they are known most rows need no question.
    names, texts = contains("unit 7", "u.name"), contains("5", "t.body")
    sql = f"select t.id from t join u using (k) where {texts} and {names} order by t.id limit 5"
    learning, as_it_comes = connected(), connected(disable_rules="order_conjuncts")
    for con in (learning, as_it_comes):
        assert con.sql(sql).to_pylist() == oracle.sql(sql).to_arrow_table().to_pylist()
    assert learning.report.asked < 0.85 * as_it_comes.report.asked


def test_filters_of_a_join(connected: Connected, oracle: duckdb.DuckDBPyConnection) -> None:
    even, twenty = contains("even", "t.body"), contains("twenty", "t.body", selectivity=0.05)
    sql = f"select t.id from t join u using (k) where {even} and {twenty}"
    con = connected(sample_rows=0)
    assert rows(con.sql(sql)) == rows(oracle.sql(sql).to_arrow_table())
    assert con.report.asked == 400 + 20


def test_cheapest_order() -> None:
    def independent(selectivities: tuple[float, ...]) -> Callable[..., float]:
        def share(done: tuple[int, ...]) -> float:
            result = 1.0
            for i in done:
                result *= selectivities[i]
            return result

        return share

    same = [Asked(1, 100)] * 3
    assert cheapest(same, 100, independent((0.5, 0.5, 0.5))) == (0, 1, 2)
    assert cheapest(same, 100, independent((0.9, 0.5, 0.1))) == (2, 1, 0)
    # A dear condition waits although it is rarer; few inputs come first although they refuse less.
    assert cheapest([Asked(10, 100), Asked(1, 100)], 100, independent((0.1, 0.5))) == (1, 0)
    assert cheapest([Asked(1, 100), Asked(1, 3)], 100, independent((0.1, 0.5))) == (1, 0)
    assert expected_cost((0, 1), [Asked(1, 100), Asked(2, 100)], 100, independent((0.25, 0.5))) == pytest.approx(100 + 2 * 25)
    # Eight conditions are not tried in all orders, and ranks are exact for independent ones.
    rates = (0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
    assert cheapest([Asked(1, 100)] * 8, 100, independent(rates)) == (7, 6, 5, 4, 3, 2, 1, 0)
