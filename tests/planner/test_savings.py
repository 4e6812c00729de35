# ruff: noqa: E501 - SQL is easier to read on one line
"""How many questions are left out where a condition is TRUE for a fifth of its inputs. `bench/requests.py` has the whole table."""

from __future__ import annotations

from collections.abc import Callable

from planner_cases import contains

from quail_engine import Connection

Connected = Callable[..., Connection]


def pair(question: str, left: str, right: str) -> str:
    """TRUE for about a fifth of all pairs, by the hash of their texts."""
    return f"AI_FILTER(PROMPT('{question} {{0}} {{1}}', {left}, {right}), {{'threshold': 0.9168}})"


def test_limit_over_ten_thousand_rows(connected: Connected) -> None:
    con = connected()
    con.sql(
        "create or replace table large as select i as id, hash(i) % 5 as fifth, 'row ' || i || case when fifth = 0 then ' fifth' else '' end as body from range(10000) r(i)"
    )
    assert con.sql(f"select id from large where {contains('fifth', 'body')} limit 10").num_rows == 10
    assert con.report.asked <= 10_000 / 50


def test_exists_among_five_hundred_partners(connected: Connected) -> None:
    con = connected()
    con.sql("create or replace table outer_rows as select i as id, 'customer ' || i as name from range(10) r(i)")
    con.sql("create or replace table partners as select 'partner ' || i as name from range(500) r(i)")
    found = con.sql(
        f"select id from outer_rows o where exists (select 1 from partners p where {pair('Do they know', 'o.name', 'p.name')})"
    )
    assert found.num_rows == 10
    assert con.report.asked <= 10 * 500 / 20


def test_star_of_three_filters_and_two_joins(connected: Connected) -> None:
    con = connected()
    for name, rows in (("reports", 60), ("reactions", 40), ("products", 40)):
        con.sql(
            f"create or replace table {name} as select '{name} ' || i || case when i % 5 = 0 then ' fifth' else '' end as text from range({rows}) r(i)"
        )
    filters = " and ".join(contains("fifth", f"{table}.text") for table in "rab")
    joins = (
        f"join reactions a on {pair('Mentions', 'r.text', 'a.text')} join products b on {pair('Caused by', 'r.text', 'b.text')}"
    )
    con.sql(f"select count(*) from reports r {joins} where {filters}")
    # In the order of the text the first join alone asks about 60 × 40 pairs; of each relation a fifth is left by its filter.
    assert con.report.asked <= 60 + 40 + 40 + 2 * (12 * 8) <= 60 * 40 / 5
