# ruff: noqa: E501 - SQL is easier to read on one line
"""Six queries in the manner of TPC-H over 100,000 order lines: joins of three to six tables, EXISTS, a correlated subquery.

Each has an AI condition on a comment. Rows equal the oracle's; requests stay below the number of distinct comments that
the relational part of the query leaves, counted by the SQL that stands beside each.
"""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest

from quail_engine import Connection

TABLES = """
create macro scatter(i, column_number) as cast(hash(i * 16 + column_number) % 1000003 as bigint);
create table region as select i as r_key, 'region ' || i as r_name from range(5) r(i);
create table nation as select i as n_key, i % 5 as n_region, 'nation ' || i as n_name from range(25) r(i);
create table supplier as select i as s_key, i % 25 as s_nation, 'supplier ' || i || case when i % 10 = 3 then ' had complaints' else '' end as s_comment from range(200) r(i);
create table part as select i as p_key, 'brand ' || (i % 20) as p_brand, scatter(i, 9) % 50 as p_size from range(2000) r(i);
create table customer as select i as c_key, scatter(i, 1) % 25 as c_nation, 'segment ' || (i % 5) as c_segment from range(1500) r(i);
create table orders as
select i as o_key, scatter(i, 2) % 1500 as o_customer, date '1995-01-01' + cast(scatter(i, 3) % 1000 as integer) as o_date, 'priority ' || (i % 5) as o_priority,
       'order note ' || (i % 3000) || case when i % 7 = 0 then ' special requests' else '' end as o_comment
from range(25000) r(i);
create table lineitem as
select i as l_key, i // 4 as l_order, scatter(i, 4) % 2000 as l_part, scatter(i, 5) % 200 as l_supplier, 1 + scatter(i, 6) % 50 as l_quantity, (100 + i % 900) / 10.0 as l_price,
       date '1995-01-01' + cast(scatter(i, 7) % 1100 as integer) as l_ship,
       case when i % 97 = 0 then null else 'line note ' || (scatter(i, 8) % 2500) || case when scatter(i, 8) % 5 = 0 then ' damaged box' else '' end end as l_comment
from range(100000) r(i);
"""
DAMAGED = "AI_FILTER(PROMPT('Does it mention ''damaged''? {0}', l_comment))"
SPECIAL = "AI_FILTER(PROMPT('Does it mention ''special''? {0}', o_comment))"
COMPLAINTS = "AI_FILTER(PROMPT('Does it mention ''complaints''? {0}', s_comment))"

THREE = "from customer join orders on o_customer = c_key join lineitem on l_order = o_key where c_segment = 'segment 2' and o_date < date '1995-02-01' and l_ship > date '1995-06-01'"
SIX = """
from region join nation on n_region = r_key join customer on c_nation = n_key join orders on o_customer = c_key
join lineitem on l_order = o_key join supplier on s_key = l_supplier and s_nation = c_nation
where r_name = 'region 2' and o_date between date '1995-03-01' and date '1995-12-31'
"""
RETURNED = "from orders where o_date between date '1996-01-01' and date '1996-03-31' and exists (select 1 from lineitem where l_order = o_key and l_quantity > 40)"
LINES = "from orders join lineitem on l_order = o_key where o_date between date '1996-01-01' and date '1996-01-31'"
SMALL = "from part join lineitem on l_part = p_key where p_brand = 'brand 4' and l_quantity < (select 0.4 * avg(x.l_quantity) from lineitem x where x.l_part = p_key)"
FOUR = "from part join lineitem on l_part = p_key join supplier on s_key = l_supplier join nation on n_key = s_nation where p_size = 15 and n_name = 'nation 3'"

QUERIES = {
    "three tables, revenue an order": (
        f"select l_order, o_priority, sum(l_price) as revenue {THREE} and not {DAMAGED} group by all",
        [f"select distinct l_comment {THREE}"],
    ),
    "six tables, revenue a nation": (
        f"select n_name, count(*), sum(l_price) {SIX} and not {COMPLAINTS} group by n_name",
        [f"select distinct s_comment {SIX}"],
    ),
    "EXISTS without a call beside a call": (
        f"select o_priority, count(*) {RETURNED} and {SPECIAL} group by o_priority",
        [f"select distinct o_comment {RETURNED}"],
    ),
    "a call inside EXISTS": (
        f"select o_priority, count(*) from orders where o_date between date '1996-01-01' and date '1996-01-31' and exists (select 1 from lineitem where l_order = o_key and {DAMAGED}) group by 1",
        [f"select distinct l_comment {LINES}"],
    ),
    "correlated subquery": (
        f"select p_key, sum(l_price) / 7 as yearly {SMALL} and {DAMAGED} group by p_key",
        [f"select distinct l_comment {SMALL}"],
    ),
    "four tables, ordered, LIMIT": (
        f"select l_key, s_key {FOUR} and {DAMAGED} and not {COMPLAINTS} order by l_key limit 10",
        [f"select distinct l_comment {FOUR}", f"select distinct s_comment {FOUR}"],
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_rows_and_requests(name: str, oracle: duckdb.DuckDBPyConnection, con: Connection) -> None:
    sql, inputs = QUERIES[name]
    bound = sum(oracle.execute(f"select count(*) from ({query}) v(x) where x is not null").fetchall()[0][0] for query in inputs)
    table = con.sql(sql)
    expected = oracle.execute(sql).fetchall()
    assert expected, "the query has rows"
    found = zip(*(column.to_pylist() for column in table.columns), strict=True)
    assert Counter(map(_rounded, found)) == Counter(map(_rounded, expected))
    assert con.report.asked + con.report.recalled <= bound


def _rounded(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(round(float(v), 4) if isinstance(v, float) else v for v in row)
