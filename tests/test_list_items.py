# ruff: noqa: E501 - SQL is easier to read on one line
"""AI calls about the items of a list, in a lambda or a list comprehension: rows as the oracle's, requests worked out by hand."""

from __future__ import annotations

import pytest

import quail_engine

# Twelve rows of two items each, all different: 'x…' mentions 'refund', 'y…' does not; every third text mentions it.
TABLES = """
create table t as select i as id, i % 3 as k, 'text ' || i || case when i % 3 = 0 then ' refund' else '' end as a,
    ['x refund ' || i, 'y ' || i] as items, {'s': 'refund ' || i, 'n': i} as st from range(12) r(i);
create table u as select i as k, 'word refund ' || i as c from range(2) r(i);
create table holes as select i as id, case when i % 3 = 0 then null when i % 3 = 1 then [] else ['refund ' || i, null] end as items from range(9) r(i);
create table same as select ['a refund', 'b'] as items from range(4);
"""
REFUND = "AI_FILTER('Mentions ''refund''?', x)"
OTHER = "AI_FILTER('Mentions ''x''?', x)"
OF_TEXT = "AI_FILTER('Mentions ''refund''?', a)"


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        (f"select id, list_transform(items, lambda x: {REFUND}) from t order by id", 24),
        (f"select id, list_filter(items, lambda x: {REFUND} and {OTHER}) from t order by id", 24 + 12),
        (f"select id, list_transform(items, lambda x: x like 'x%' and {REFUND}) from t order by id", 12),
        (
            f"select id, list_transform(items, lambda x: case when {OTHER} then 1 when {REFUND} then 2 else 3 end) from t order by id",
            36,
        ),
        (f"select id, list_transform(items, lambda x, i: {REFUND} and i > 1) from t order by id", 12),
        (f"select id, list_transform(items, lambda x: {REFUND}) from t order by id limit 2", 4),
        (f"select id, list_transform(items, lambda x: {REFUND}) from holes order by id", 3),
        (f"select id, list_transform([items, [a]], lambda y: list_transform(y, lambda x: {REFUND})) from t order by id", 36),
        (
            f"select id, list_reduce(items, lambda so_far, x: case when {REFUND} then so_far || x else so_far end) from t order by id",
            12,
        ),
        (f"select id, list_transform([st], lambda x: x.n > 2 and {REFUND.replace('x)', 'x.s)')}) from t order by id", 9),
        (
            f"select id, list_transform([{{'p': [st]}}], lambda x: x.p[1].n > 2 and {REFUND.replace('x)', 'x.p[1].s)')}) from t order by id",
            9,
        ),
        (
            f"""select id, list_transform(items, lambda "X y": {REFUND.replace("x)", '"X y")')} and "X y" > 'y') from t order by id""",
            12,
        ),
        (f"select id, [{REFUND} for x in items if x like 'x%'] from t order by id", 12),
        (f"select id, [x for x in items if {REFUND}] from t order by id limit 2", 4),
        (f"select id, [{REFUND} and {OTHER} for x in items] from t order by id limit 2", 4 + 2),
        (f"select id, [{REFUND} or {OTHER} for x, i in items if i = 2 or {REFUND}] from t order by id", 24 + 12),
        (f"select id, [[{REFUND} for x in y] for y in [items, [a]]] from t order by id", 36),
        (f"select id from t where id > 100 and len(list_filter(items, lambda x: {REFUND})) > 0", 0),
        (f"select id from t where len(list_filter(items, lambda x: {REFUND})) > 0 and {OF_TEXT} order by id", 12 + 8),
        (f"select id, case when id > 5 then list_transform(items, lambda x: {REFUND}) end from t order by id", 12),
        # A parameter hides the select item of its name, which holds a call of its own.
        (f"select id, {OF_TEXT} as x, list_transform(items, lambda x: {REFUND}) from t order by id", 12 + 24),
        (f"select k, list_transform(list(a order by id), lambda x: {REFUND}) from t group by k order by k", 12),
        (
            f"select id, len([x for x in items if {REFUND}]) as n from t qualify row_number() over (partition by n order by id) = 1",
            24,
        ),
        (
            "select id, c from t join u on t.k = u.k and len([x for x in items if AI_FILTER(PROMPT('{0} shares a word with {1}', x, c))]) > 0 order by 1",
            16,
        ),
        (f"select list_transform(items, lambda x: {REFUND}) from same", 2),
        (f"select list_transform(['a refund', 'b'], lambda x: {REFUND})", 2),
        ("select id, list_transform(items, lambda x: AI_CLASSIFY(x, ['refund', 'y'])) from t order by id", 24),
    ],
)
def test_items_are_asked_about(sql: str, asked: int) -> None:
    oracle = quail_engine.oracle()
    oracle.execute(TABLES)
    expected = oracle.execute(sql).fetchall()
    with quail_engine.connect(engine="mock") as con:
        con.sql(TABLES)
        assert [tuple(row.values()) for row in con.sql(sql).to_pylist()] == expected
        assert con.report.asked == asked


def test_lists_are_written() -> None:
    with quail_engine.connect(engine="mock") as con:
        con.sql(TABLES)
        con.sql(f"update t set items = [x for x in items if {REFUND}] where id < 3")
        assert con.report.asked == 6
        con.sql(f"delete from t where len(list_filter(items, lambda x: not {REFUND})) > 0")
        assert con.report.asked == 18
        assert con.sql("select id, items from t").to_pylist() == [{"id": i, "items": [f"x refund {i}"]} for i in range(3)]
