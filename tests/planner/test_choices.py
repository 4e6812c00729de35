"""Orders that the plan rejected: told with what they would cost, which is what they do cost."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from pages import Page
from planner_cases import contains

import quail_engine

TABLES = """
create table t as
    select i as id, i % 10 as k, md5('note ' || i % 50) || case when i % 50 < 11 then ' short' else '' end as note,
           md5(i::varchar) || case when i % 2 = 0 then ' even' else ' odd' end || case when i % 5 = 0 then ' five' else '' end
           as body
    from range(400) r(i);
create table u as select i as k, 'unit ' || i || case when i % 3 = 0 then ' even' else ' odd' end as name from range(10) r(i);
"""
"""Texts that begin with little in common, so that a request costs about the same whatever stands beside it."""

CONDITIONS = (("even", "body", 0.5), ("five", "body", 0.2), ("short", "note", 0.22))
"""Each with the share of rows for which it is TRUE."""


@pytest.fixture
def con() -> Any:
    with quail_engine.connect(engine="mock", answers=None, sample_rows=0, token_budget=100_000) as connection:
        connection.sql(TABLES)
        yield connection


def query(places: tuple[int, ...] = (0, 1, 2), **options: str) -> str:
    asked = (
        contains(phrase, column, selectivity=share, **options) for phrase, column, share in (CONDITIONS[i] for i in places)
    )
    return f"select id from t where {' and '.join(asked)}"


def plan(con: quail_engine.Connection, sql: str) -> dict[str, Any]:
    (found,) = con.explain(sql, format="json")
    assert isinstance(found, dict)
    return found


def asked_in_order(sql: str) -> tuple[int, int]:
    """Requests and tokens of a run that keeps to the text."""
    with quail_engine.connect(engine="mock", answers=None, sample_rows=0, token_budget=100_000) as connection:
        connection.sql(TABLES)
        connection.sql(sql)
        return connection.report.asked, connection.report.tokens_fresh


def test_rejected_orders_cost_what_they_are_said_to(con: quail_engine.Connection) -> None:
    (choice,) = plan(con, query())["choices"]
    ways = [choice["chosen"], *choice["rejected"]]
    assert sorted(way["order"] for way in ways) == sorted([[i] for i in order] for order in permutations(range(3)))
    for way in ways:
        order = tuple(i for (i,) in way["order"])
        requests, tokens = asked_in_order(query(order, order="as_written"))
        assert way["requests"]["value"] == pytest.approx(requests, rel=0.1)
        assert way["tokens_fresh"]["value"] == pytest.approx(tokens, rel=0.25)
    tokens = [way["tokens_fresh"]["value"] for way in ways]
    assert tokens[0] == min(tokens), "the chosen one"


def test_the_chosen_order_is_the_plan_s(con: quail_engine.Connection) -> None:
    found = plan(con, query())
    (choice,) = found["choices"]
    assert choice["chosen"]["order"] == found["steps"][0]["orders"][0]
    assert choice["why"].startswith("the cheapest")
    for figure in ("requests", "tokens_fresh", "seconds"):
        assert choice["chosen"][figure] == found["estimate"][figure]
    assert con.report.asked == 0


def test_joins_and_filters(con: quail_engine.Connection) -> None:
    join = "AI_JOIN(PROMPT('{{0}} shares a word with {{1}}', t.body, u.name){})"
    filtered = "AI_FILTER(PROMPT('Contains ''unit 3''? {{0}}', u.name){})"
    sql = f"select 1 from t join u on t.k = u.k and {join} where {filtered}"
    (choice,) = plan(con, sql.format(", {'selectivity': 0.5}", ", {'selectivity': 0.1}"))["choices"]
    assert choice["chosen"]["order"] == [[1], [0]]
    (written,) = choice["rejected"]
    assert written["order"] == [[0], [1]]
    kept = ", {'order': 'as_written'}"
    assert written["requests"]["value"] == pytest.approx(asked_in_order(sql.format(kept, kept))[0], rel=0.1)


def test_why_another_order_was_not_taken(con: quail_engine.Connection) -> None:
    assert plan(con, query((0, 2, 1), order="as_written"))["choices"] == [], "nothing is counted for an order that is given"
    (choice,) = plan(con, query((1, 2, 0)))["choices"]
    assert choice["why"]
    alike = f"select id from t where {contains('even', 'body')} and {contains('odd', 'body')}"
    (choice,) = plan(con, alike)["choices"]
    assert choice["why"] == "as written, for no other order saves 5 %"
    con.sql(query())
    assert plan(con, query())["choices"] == [], "all of it is answered"


def test_the_text_shows_two_and_the_page_all(con: quail_engine.Connection) -> None:
    lines = con.explain(query((0, 2, 1))).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Order: "))
    shown = [line for line in lines[at + 1 :] if line.startswith("  instead: ")]
    assert len(shown) == 2
    assert "(as written)" in shown[1]
    assert "x the tokens" in shown[1]
    page = Page(con.explain(query((0, 2, 1)), format="html"))
    (weighed,) = (table for table in page.tables if table[0][0] == "order of the conditions")
    assert len(weighed) == 1 + 6
    assert weighed[1][-1].startswith("chosen: ")
    assert all(cell.startswith("≈ ") for row in weighed[1:] for cell in row[1:4])
    assert json.dumps(con.explain(query(), format="json"))
