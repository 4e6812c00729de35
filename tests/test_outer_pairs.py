# ruff: noqa: E501 - SQL is easier to read on one line
"""AI conditions in the ON of joins that keep rows without a partner: pairs are listed, asked once, and joined."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest

from quail_engine import Connection

TABLES = """
create table a as select i as id, case when i <> 5 then i % 4 end as k, case when i <> 7 then 'left ' || i end as x from range(12) r(i);
create table b as select i as id, case when i <> 6 then i % 5 end as k, case when i <> 3 then 'right ' || i % 7 end as y from range(10) r(i);
create table c as select i as id, 'third ' || i as z from range(0, 12, 3) r(i);
"""
PAIR, LEFT, RIGHT = "AI_FILTER(PROMPT('p {0} {1}', a.x, b.y))", "AI_FILTER('l', a.x)", "AI_FILTER('r', b.y)"


def compare(con: Connection, oracle: duckdb.DuckDBPyConnection, sql: str) -> None:
    found, expected = (map(repr, table.to_pylist()) for table in (con.sql(sql), oracle.sql(sql).to_arrow_table()))
    assert Counter(found) == Counter(expected)


def inputs(oracle: duckdb.DuckDBPyConnection, arguments: str, source: str) -> int:
    """The number of distinct texts that a call is about."""
    given = " and ".join(f"{argument} is not null" for argument in arguments.split(", "))
    rows = oracle.execute(f"select count(*) from (select distinct {arguments} from {source} where {given})").fetchall()
    return int(rows[0][0])


@pytest.mark.parametrize("kind", ["left", "right", "full", "left outer"])
@pytest.mark.parametrize("rest", ["a.k = b.k", "a.k = b.k and a.id > b.id", "true"])
@pytest.mark.parametrize(("call", "arguments"), [(PAIR, "a.x, b.y"), (LEFT, "a.x"), (RIGHT, "b.y")])
def test_conditions_of_outer_joins(
    con: Connection, oracle: duckdb.DuckDBPyConnection, kind: str, rest: str, call: str, arguments: str
) -> None:
    sql = f"select a.id, b.id as other, a.k, b.k from a {kind} join b on {rest} and {call}"
    compare(con, oracle, sql)
    assert con.report.asked == inputs(oracle, arguments, f"a join b on {rest}")
    plan = con.explain(sql)
    assert ("AiJoin" if call is PAIR else "AiFilter") in plan
    assert "Rounds" not in plan


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        # A condition of WHERE on the kept side counts; one on the other side, or that NULLs may meet, does not.
        (f"select a.id, b.id from a left join b on a.k = b.k and {PAIR} where a.id < 4", "a join b on a.k = b.k and a.id < 4"),
        (f"select a.id, b.id from a left join b on a.k = b.k and {PAIR} where b.id is null", "a join b on a.k = b.k"),
        (f"select a.id, b.id from a right join b on a.k = b.k and {PAIR} where b.id < 4", "a join b on a.k = b.k and b.id < 4"),
        (f"select a.id, b.id from a full join b on a.k = b.k and {PAIR} where a.id is null", "a join b on a.k = b.k"),
        (f"select a.id, b.id from a left join b on a.k = b.k and {PAIR} left join c on c.id = a.id where a.id < 4", "a join b on a.k = b.k and a.id < 4"),
        (f"select a.id, b.id, c.id from a left join b on a.k = b.k and {PAIR} right join c on c.id = b.id where a.id is null", "a join b on a.k = b.k"),
        (f"select a.id, b.id from a join c on c.id = a.id left join b on a.k = b.k and {PAIR}", "a join b on a.k = b.k join c on c.id = a.id"),
        (f"with a2 as (select * from a where id < 6) select a.id, b.id from a2 as a left join b on a.k = b.k and {PAIR}", "a join b on a.k = b.k and a.id < 6"),
        (f"select * from (select a.id, b.id as other from a left join b on a.k = b.k and {PAIR}) d where other is null", "a join b on a.k = b.k"),
    ],
)  # fmt: skip
def test_what_else_the_query_says(con: Connection, oracle: duckdb.DuckDBPyConnection, sql: str, asked: str) -> None:
    compare(con, oracle, sql)
    assert con.report.asked <= inputs(oracle, "a.x, b.y", asked)
    assert "AiJoin" in con.explain(sql)


def test_one_side_is_asked_before_the_pairs(con: Connection, oracle: duckdb.DuckDBPyConnection) -> None:
    sql = f"select a.id, b.id from a left join b on a.k = b.k and {PAIR} and {LEFT}"
    compare(con, oracle, sql)
    true = inputs(oracle, "a.x, b.y", f"a join b on a.k = b.k and {LEFT}")
    assert con.report.asked == inputs(oracle, "a.x", "a join b on a.k = b.k") + true


@pytest.mark.parametrize("kind", ["semi", "anti"])
def test_semi_and_anti_joins(con: Connection, oracle: duckdb.DuckDBPyConnection, kind: str) -> None:
    # Alone a condition stops at its first TRUE; two cannot, and are listed.
    compare(con, oracle, f"select a.id from a {kind} join b on a.k = b.k and {PAIR}")
    assert con.report.asked <= inputs(oracle, "a.x, b.y", "a join b on a.k = b.k")
    sql = f"select a.id from a {kind} join b on a.k = b.k and {PAIR} and {RIGHT} where a.id > 1"
    compare(con, oracle, sql)
    assert "AiJoin" in con.explain(sql)
    assert con.report.asked <= inputs(oracle, "b.y", "a join b on a.k = b.k and a.id > 1") + inputs(
        oracle, "a.x, b.y", "a join b on a.k = b.k and a.id > 1"
    )


@pytest.mark.parametrize(
    "sql",
    [
        f"select a.id, b.id from a left join b on a.k = b.k or {PAIR}",
        f"select a.id, b.id from a left join b on a.k = b.k and not {PAIR}",
        f"select a.id, b.id, c.id from a left join b on a.k = b.k and {PAIR} left join c on c.id = b.id and AI_FILTER('t', c.z)",
        f"select a.id, b.id, c.id from a left join c on c.id = a.id and AI_FILTER('t', c.z) full join b on a.k = b.k and {PAIR}",
        f"select a.id, b.id from a left join b on a.k = b.k and {PAIR} where AI_FILTER('w', a.x)",
        f"select a.id, b.id from a full join b on a.k = b.k and {PAIR} where {LEFT} or {RIGHT}",
    ],
)
def test_what_stays_a_look_up(con: Connection, oracle: duckdb.DuckDBPyConnection, sql: str) -> None:
    compare(con, oracle, sql)
    assert "Rounds" in con.explain(sql)


def test_wide_pairs_are_no_look_ups(con: Connection) -> None:
    con.sql("create table n as select i as id, 'n ' || i % 10 as x from range(2000) r(i)")
    con.sql("select count(*) from n a left join n b on AI_FILTER(PROMPT('Is ''5'' in {0} and {1}?', a.x, b.x))")
    # Four million pairs of a hundred texts.
    assert (con.report.asked, con.report.calls) == (100, 100)
