# ruff: noqa: E501 - SQL is easier to read on one line
"""Generated queries: our rows against DuckDB's own evaluation with the mock's rules as plain functions (the oracle)."""

from __future__ import annotations

import os
from collections import Counter

import duckdb
import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import quail_engine

EXAMPLES = int(os.environ.get("QUAIL_DIFFERENTIAL", "150"))

TABLES = """
create table t as select * from (values
    (1, 0, 'late refund', 'x'), (2, 1, 'late', null), (3, 0, null, 'refund'), (4, 2, '', 'brown {0} ''q'''), (5, null, 'Refund ünï', 'x'),
    (6, 1, 'late refund', 'y'), (7, 3, 'brown fox', 'late'), (8, 2, 'nothing', 'nothing'), (9, null, null, null), (10, 0, 'late', 'x')
) v(id, k, a, b);
create table u as select * from (values
    (1, 0, 'refund word'), (2, 1, 'brown late'), (3, 1, null), (4, null, 'late'), (5, 2, ''), (6, 0, 'refund word')
) v(uid, k, c);
"""

CHEAP = ["{t}.id < 6", "{t}.k = 1", "{t}.k is null", "({t}.id * 7) % 11 = 3", "{t}.a is not null", "null", "{t}.b = 'x'"]
CALLS = [
    "AI_FILTER(PROMPT('Does it mention ''late''? {{0}}', {t}.a))",
    "AI_FILTER('Mentions ''refund''?', {t}.b)",
    "AI_FILTER(PROMPT('hashed {{0}} {{1}}', {t}.a, {t}.b))",
    "AI_SCORE(PROMPT('hashed {{0}}', {t}.a)) > 0.5",
    "AI_CLASSIFY({t}.a, ['late', 'refund', 'brown']) = 'late'",
    "AI_FILTER({t}.a, {{'threshold': 0.3}})",
    "AI_FILTER(PROMPT('is {{0}} odd', AI_CLASSIFY({t}.b, ['x', 'y'])))",
]
PAIR_CALLS = [
    "AI_JOIN(PROMPT('{{0}} shares a word with {{1}}', t.a, u.c))",
    "AI_FILTER(PROMPT('hashed {{0}} {{1}}', u.c, t.b))",
    "AI_FILTER('Mentions ''brown''?', u.c)",
    "AI_FILTER('Mentions ''late''?', t.a)",
]


def conditions(table: str, calls: list[str]) -> st.SearchStrategy[str]:
    """Boolean expressions over cheap conditions and AI calls."""
    leaves = st.sampled_from(CHEAP + calls + calls).map(lambda text: text.format(t=table))

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(inner, inner).map(lambda p: f"({p[0]} and {p[1]})"),
            st.tuples(inner, inner).map(lambda p: f"({p[0]} or {p[1]})"),
            inner.map(lambda p: f"(not {p})"),
            inner.map(lambda p: f"({p} is null)"),
            st.tuples(inner, inner, inner).map(lambda p: f"(case when {p[0]} then {p[1]} else {p[2]} end)"),
            st.tuples(inner, inner).map(lambda p: f"coalesce({p[0]}, {p[1]})"),
            st.tuples(inner, inner).map(lambda p: f"if({p[0]}, {p[1]}, null)"),
            st.tuples(inner, inner).map(lambda p: f"nullif({p[0]}, {p[1]})"),
        )

    return st.recursive(leaves, grow, max_leaves=4)


ONE = conditions("t", CALLS)
TWO = conditions("t", CALLS + PAIR_CALLS)
JOINS = ["join", "left join", "right join", "full join", "cross join where", "semi join", "anti join"]


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, str]:
    """A query and the name of its shape."""
    shape = draw(st.sampled_from(sorted(SHAPES)))
    one, other, pair = draw(ONE), draw(ONE), draw(TWO)
    join = draw(st.sampled_from(JOINS))
    equality = draw(st.sampled_from(["t.k = u.k and ", "", "t.id >= u.uid and "]))
    on = f"{equality}{pair}"
    text = SHAPES[shape].format(one=one, other=other, join=_join(join, on))
    return text, shape if "{join}" not in SHAPES[shape] else f"{shape}: {join.split()[0]}"


def limited(text: str) -> bool:
    return text.endswith(("limit 2", "limit 3 offset 1"))


def _join(kind: str, on: str) -> str:
    return f"t cross join u where {on}" if kind == "cross join where" else f"t {kind} u on {on}"


SHAPES = {
    "limit": "select id, {other} as x from t where {one} limit 2",
    "limit and offset": "select t.id from t join u on t.k = u.k and {one} where {other} limit 3 offset 1",
    "where": "select id, a from t where {one}",
    "where twice": "select id from t where {one} and ({other})",
    "select": "select id, {one} as x, {other} as y from t",
    "select and where": "select id, {one} as x from t where {other}",
    "join": "select t.id from {join}",
    "group by": "select {one} as x, count(*), min(id) from t group by x",
    "group by expression": "select {one}, count(*) from t group by {one}",
    "having": "select k, count(*) from t group by k having count(*) > 1 and min(id) < 5 and AI_FILTER('Mentions ''late''?', max(a))",
    "aggregate filter": "select k, count(*) filter (where {one}), sum(case when {other} then id end) from t group by k",
    "qualify": "select id from t qualify row_number() over (partition by k order by id) = 1 and ({one})",
    "window": "select id, rank() over (partition by {one} order by id) from t",
    "order by": "select id from t order by {one}, id",
    "distinct": "select distinct {one} as x, k from t",
    "cte twice": "with c as (select *, {one} as x from t) select p.id, q.x from c p join c q on p.id = q.k where p.x or q.x",
    "derived": "select id, x from (select id, k, {one} as x from t where {other}) d where x is not false",
    "union": "select id from t where {one} union all select id from t where {other}",
    "except": "select * from (select a from t except select a from t where {one}) t where AI_FILTER('Mentions ''late''?', a)",
    "intersect": "select a from t where {one} intersect select a from t where {other}",
    "exists": "select id from t where exists (select 1 from u where u.k = t.k and AI_FILTER('Mentions ''refund''?', u.c)) or {one}",
    "not exists": "select id from t where not exists (select 1 from u where u.k = t.k and AI_FILTER('Mentions ''late''?', u.c)) and {one}",
    "in": "select id from t where k in (select k from u where AI_FILTER('Mentions ''late''?', u.c)) and {one}",
    "not in": "select id from t where id not in (select uid from u where AI_FILTER('Mentions ''late''?', u.c)) or {one}",
    "scalar subquery": "select id, (select count(*) from u where u.k = t.k and AI_FILTER('Mentions ''word''?', u.c)) as n from t where {one}",
    "three tables": "select t.id from t join u on t.k = u.k left join u w on w.uid = t.id and AI_FILTER('Mentions ''late''?', w.c) where {one}",
}


def rows(table: pa.Table) -> Counter[str]:
    """Rows in any order."""
    return Counter(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


@pytest.fixture(scope="module")
def reference() -> duckdb.DuckDBPyConnection:
    connection = quail_engine.oracle()
    connection.execute(TABLES)
    return connection


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(queries())
def test_rows_equal_those_of_duckdb(reference: duckdb.DuckDBPyConnection, query: tuple[str, str]) -> None:
    text, _ = query
    try:
        expected = rows(reference.sql(text).to_arrow_table())
    except duckdb.Error:
        return  # not a query that DuckDB accepts, with or without us
    with quail_engine.connect(engine="mock") as con:
        con.sql(TABLES)
        found = rows(con.sql(text))
        assert con.report.failed == 0
        con.sql(text)
        assert con.report.asked == 0, "the second run asked again"
    if limited(text):
        whole = rows(reference.sql(text[: text.rindex(" limit")]).to_arrow_table())
        assert sum(found.values()) == sum(expected.values()), text
        assert not found - whole, text
    else:
        assert found == expected, text
