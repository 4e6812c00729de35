# ruff: noqa: E501 - SQL is easier to read on one line
"""Inputs of a condition are listed of the relations that it needs, not of the cross product with all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import duckdb
import pytest
from planner_cases import contains

from quail_engine import Connection

Connected = Callable[..., Connection]

WIDE = "create or replace table wide as select i as id, 'text ' || i as body, i % 3 as k from range(3000) r(i)"


def both(phrase: str, *columns: str) -> str:
    places = " ".join(f"{{{i}}}" for i in range(len(columns)))
    return f"AI_FILTER(PROMPT('Contain ''{phrase}''? {places}', {', '.join(columns)}))"


def test_three_relations_that_only_answers_link(connected: Connected) -> None:
    # 27 thousand million rows of a cross product: reading them would take minutes, asking about them for ever.
    con = connected(disable_rules=["order_joins"])  # which would ask about two pairs of a and c first, and no other
    con.sql(WIDE)
    joins = f"wide a join wide b on {both('x', 'a.body', 'b.body')} join wide c on {both('y', 'a.body', 'c.body')}"
    assert con.sql(f"select count(*) as n from {joins} where {contains('nowhere', 'a.body')}").to_pylist() == [{"n": 0}]
    assert con.report.asked == 3000
    assert con.sql(f"select count(*) as n from {joins} where {contains('text 77', 'a.body')} and c.id < 0").to_pylist() == [
        {"n": 0}
    ]
    assert con.report.asked == 0, "no row of the join is left, whatever the answers are"
    con.sql(f"select a.id from {joins} where {contains('text 29', 'b.body')} and c.id = 3 and a.id < 2")
    assert con.report.asked == 3000 + 2 * 111 + 2


@pytest.mark.parametrize(
    "sql",
    [
        f"select t.id, u.k from t join u on {both('even', 't.body', 'u.name')} where u.k > 3",
        f"select t.id, u.k from t, u where {both('even', 't.body', 'u.name')} and u.k = 6",
        f"from t cross join u where t.id < 9 and {both('even', 't.body', 'u.name')} and {contains('unit', 'u.name')}",
        f"select x.id, y.id from t as x /* left */ inner join t as y -- right\n on {both('twenty', 'x.body', 'y.body')} and x.id < 30 and y.id < 30 join u on x.k = u.k and {contains('odd', 'u.name')}",
        f"with few as (from t where id < 20) select few.id from few join u on true join u as v on {both('even', 'few.body', 'v.name')} where u.k = v.k and 1 = 1",
        f"select t.id from t join u on t.k = u.k and {both('even', 't.body', 'u.name')} join u w on w.k = u.k + 1 and {contains('odd', 'w.name')}",
        f"select t.id, w.k from t join u on {both('even', 't.body', 'u.name')} join (from u where k < 3) w on {both('unit', 'u.name', 'w.name')} where t.id < 10",
        f"select t.id, w.k from t join u on {both('even', 't.body', 'u.name')} join u w on {both('unit', 'u.name', 'w.name')} where t.id < 10 and (t.id = 4 or u.k = w.k)",
        f"select t.id from t join range(3) r(i) on t.id = r.i join u on {both('even', 't.body', 'u.name')}",
        f"select t.id from t join u on {both('even', 't.body', 'u.name')} where exists (select 1 from u v where v.k = t.k) and t.id < 30",
    ],
)
def test_rows_of_joins(connected: Connected, oracle: duckdb.DuckDBPyConnection, sql: str) -> None:
    con = connected()
    assert Counter(map(str, con.sql(sql).to_pylist())) == Counter(map(str, oracle.sql(sql).to_arrow_table().to_pylist()))
    assert "AiJoin" in con.report.plan


def test_an_empty_relation_leaves_nothing_to_ask(connected: Connected) -> None:
    con = connected()
    assert (
        con.sql(
            f"select t.id from t join u on {both('even', 't.body', 'u.name')} join u w on w.k > 99 where {contains('odd', 't.body')}"
        ).num_rows
        == 0
    )
    assert con.report.asked == 0
