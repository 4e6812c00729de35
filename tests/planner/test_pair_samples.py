"""Joins of which nothing is known are asked a sample of the pairs that are left, and the order follows what was answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb
import pytest

from quail_engine import Connection

Connected = Callable[..., Connection]

REPORTS = """
create or replace table reports as
    select i as id, 'report ' || i || case when i % 2 = 0 then ' serious' else '' end
           || case when i % 20 = 0 then ' rare' else '' end as text from range(100) r(i);
create or replace table terms as select 'term ' || i as term from range(40) r(i);
create or replace table drugs as
    select 'drug ' || i || case when i % 4 = 0 then ' rare' else '' end as name from range(40) r(i);
"""
"""Of 100 reports 50 are serious and 5 of these rare; of 40 drugs 10 are rare."""

SERIOUS = "AI_FILTER('Contains ''serious''?', r.text)"
ALL = "AI_JOIN(PROMPT('Contain ''r''? {0} {1}', r.text, a.term))"
RARE = "AI_JOIN(PROMPT('Contain ''rare''? {0} {1}', r.text, b.name))"
STAR = f"select count(*) as n from reports r join terms a on {ALL} join drugs b on {RARE} where {SERIOUS}"
COUNT = [{"n": 5 * 10 * 40}]


@pytest.fixture(autouse=True)
def tables(database: duckdb.DuckDBPyConnection) -> Iterator[None]:
    database.execute(REPORTS)
    yield
    database.execute("drop table reports; drop table terms; drop table drugs")


def test_the_join_that_refuses_most_comes_first(connected: Connected) -> None:
    con = connected()
    assert con.sql(STAR).to_pylist() == COUNT
    # A sample of 64 of the 2,000 pairs that the filter leaves to each; what comes first is asked about all of them.
    assert con.report.sampled == 2 * 64
    assert 100 + 2000 + 5 * 40 <= con.report.asked <= 100 + 2000 + 5 * 40 + 64
    assert con.report.plan.index("'rare'") < con.report.plan.index("Contain 'r'"), "the report shows the order that was taken"
    con.sql(STAR)
    assert (con.report.asked, con.report.sampled) == (0, 0)


def test_the_setting_bounds_the_sample(connected: Connected) -> None:
    con = connected(sample_rows=20)
    assert con.sql(STAR).to_pylist() == COUNT
    assert con.report.sampled == 2 * 20
    for settings in ({"sample_rows": 0}, {"disable_rules": "order_joins"}):
        without = connected(**settings)
        assert without.sql(STAR).to_pylist() == COUNT
        assert (without.report.asked, without.report.sampled) == (100 + 2000 + 50 * 40, 0)


@pytest.mark.parametrize(
    "sql",
    [
        f"select count(*) as n from reports r join terms a on {ALL} where {SERIOUS}",  # one join, whose turn is the last
        STAR.replace("text, a.term)", "text, a.term), {'selectivity': 1}").replace("name)", "name), {'selectivity': 0.05}"),
        STAR.replace("text, a.term)", "text, a.term), {'order': 'as_written'}"),
        STAR + " and r.id < 10",  # few pairs: asking them all costs less than knowing an order saves
    ],
)
def test_no_sample_where_it_decides_nothing(connected: Connected, sql: str) -> None:
    con = connected()
    con.sql(sql)
    assert con.report.sampled == 0


def test_the_order_follows_what_a_filter_left(connected: Connected) -> None:
    # Half of the drugs are thought to be left; none is, and with them go all pairs of both joins.
    gone = "AI_FILTER('Contains ''nothing''?', b.name)"
    con = connected(sample_rows=0)
    assert con.sql(f"{STAR} and {gone}").to_pylist() == [{"n": 0}]
    assert con.report.asked <= 100 + 40
