# ruff: noqa: E501 - SQL is easier to read on one line
"""IN, NOT IN, ANY and ALL over a query that asks: rows by the oracle, and no question about a value that is in the set already."""

from __future__ import annotations

import duckdb
import pytest

from quail_engine import Connection

# Each y of p from 0 to 9, and NULL, has about twenty texts, of which every third is a hit.
TABLES = """
create table o as select i as id, case when i % 9 <> 8 then i % 12 end as x from range(40) r(i);
create table p as select case when i % 20 <> 19 then i % 10 end as y, i % 2 as z,
                         'text ' || i || case when i % 3 = 0 then ' hit' else '' end as c from range(200) r(i);
"""
HIT = "AI_FILTER('Mentions ''hit''?', c)"


@pytest.mark.parametrize(
    ("sql", "groups"),
    [
        (f"select id from o where x in (select y from p where {HIT}) order by 1", 11),
        (f"select id from o where x not in (select y from p where {HIT}) order by 1", 11),
        (f"select id from o where x not in (select y from p where y is not null and {HIT}) order by 1", 10),
        (f"select id from o where x not in (select y from p where y > 3 and {HIT}) order by 1", 6),
        (f"select id, x in (select p.y as q from p where p.z = 1 and {HIT}) as f from o order by 1", 6),
        (f"select id from o where x = any (select y from p where {HIT}) order by 1", 11),
        (f"select id from o where x <> all (select y from p where y is not null and {HIT}) order by 1", 10),
        (f"select id from o where (x, 1) in (select y, z from p where {HIT}) order by 1", 12),
        (f"with p2 as (select * from p) select id from o where x in (select y from p2 where {HIT}) order by 1", 11),
        (f"select id from o where x in (select y from p where z = id % 2 and {HIT}) order by 1", 12),
        (f"select id from o where exists (select 1 from p where y = x and {HIT}) order by 1", 10),
    ],
)
def test_one_true_is_enough(con: Connection, oracle: duckdb.DuckDBPyConnection, sql: str, groups: int) -> None:
    assert con.sql(sql).equals(oracle.sql(sql).to_arrow_table())
    # Among three texts of a group one is a hit: 1 + 2 are asked at most, of 200.
    assert con.report.asked <= 3 * groups


@pytest.mark.parametrize(
    "sql",
    [
        f"select id from o where x in (select max(y) from p where {HIT}) order by 1",
        f"select id from o where x in (select y from p where {HIT} group by y having count(*) > 5) order by 1",
        f"select id from o where x in (select y from p where {HIT} order by y limit 50) order by 1",
        f"select id from o where x in (select row_number() over (order by c) from p where {HIT}) order by 1",
        f"select id from o where (select count(*) from p where y = x and {HIT}) > 5 order by 1",
    ],
)
def test_where_rows_count(con: Connection, oracle: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert con.sql(sql).equals(oracle.sql(sql).to_arrow_table())
    assert con.report.asked <= 200


def test_a_name_inside_is_not_taken_for_one_outside(con: Connection) -> None:
    # `id` is no column of p, so the text differs from one outer row to the next: forty groups, none of which hits.
    sql = "select id from o where 1 in (select 1 from p where y = 0 and AI_FILTER('Mentions ''x''?', id || ' ' || z))"
    assert con.sql(sql).num_rows == 0
    assert con.report.asked == 40
    assert "until one is TRUE for each (1, id)" in con.explain(sql)


def test_in_is_explained(con: Connection) -> None:
    assert "until one is TRUE for each (y)" in con.explain(f"select id from o where x in (select y from p where {HIT})")
