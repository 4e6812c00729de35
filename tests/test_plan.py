# ruff: noqa: E501 - SQL is easier to read on one line
"""Plans: golden texts, and the guards, dependencies and levels behind them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import quail_engine
from quail_engine.calls import AiCall
from quail_engine.sql import PIN, analyze, split

SCHEMA = """
create table tickets (id int, team int, customer int, subject varchar, body varchar);
create table teams (team int, name varchar, description varchar);
create table customers (customer int, name varchar);
insert into tickets select i, i % 4, i % 3, 'subject ' || i, 'text ' || i % 25 from range(40) t(i);
insert into teams select i, 'team ' || i, 'what concerns team ' || i from range(4) t(i);
insert into customers select i, 'customer ' || i from range(3) t(i);
"""

QUERIES = {
    "filter": "select id from tickets where team = 3 and AI_FILTER(PROMPT('Is this urgent? {0}', body))",
    "join": "select t.id, m.name from tickets t join teams m on t.team = m.team "
    "and AI_JOIN(PROMPT('{0} is a matter for {1}', t.body, m.description)) where t.id > 10",
    "classes": "select AI_CLASSIFY(body, ['billing', 'delivery']) as topic, count(*) from tickets group by topic having count(*) > 3",
    "filter_and_join": "select t.id from tickets t join teams m on t.team = m.team and t.id > 7 "
    "and AI_JOIN(PROMPT('{0} is a matter for {1}', t.body, m.description)) where AI_FILTER('Is it urgent?', t.body)",
    "first_rows": "select id from tickets where team = 3 and AI_FILTER('Is it urgent?', body) order by id desc limit 5",
    "exists": "select name from teams m where exists (select 1 from tickets t where t.team = m.team and AI_FILTER('q', t.body))",
    "waits": "select AI_SCORE('Is it angry?', body) from tickets t join customers c using (customer) "
    "where AI_FILTER('Is it urgent?', body) or t.team is null",
    "constant": "select id, AI_FILTER('Is the sky blue?') from tickets",
}


@pytest.mark.parametrize("name", QUERIES)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    with quail_engine.connect(engine="mock") as con:
        con.sql(SCHEMA)
        text = con.explain(QUERIES[name])
    # Answer tables carry a number that grows through the process; tokens are those of layouts and batches.
    text = re.sub(r"__quail_answers_\d+_", "__quail_answers_N_", text)
    golden(f"plans/{name}.txt", re.sub(r"[\d,]+ (?=tokens|reused)", "N ", text) + "\n")


def calls(sql: str) -> tuple[AiCall, ...]:
    return analyze(sql, split(sql)[0]).calls


A, B = "AI_FILTER('a', x)", "AI_FILTER('b', y)"


@pytest.mark.parametrize(
    ("sql", "guard"),
    [
        (f"select * from t where p = 1 and {A}", "(p = 1) IS TRUE"),
        (f"select * from t where p and (q and {A})", "(q) IS TRUE AND (p) IS TRUE"),
        (f"select * from t where not (p and {A})", "(p) IS NOT FALSE"),
        (f"select * from t where p or {A}", "(p) IS NOT TRUE"),
        (f"select * from t where p or q or {A}", "(p) IS NOT TRUE AND (q) IS NOT TRUE"),
        (f"select p and {A} from t", "(p) IS NOT FALSE"),
        (f"select case when p then 1 when q then {A} end from t", "(p) IS NOT TRUE AND (q) IS TRUE"),
        (f"select case when p then 1 when {A} then 2 end from t", "(p) IS NOT TRUE"),
        (f"select case when p then 1 else {A} end from t", "(p) IS NOT TRUE"),
        (f"select case z when 1 then {A} end from t", "((z) = (1)) IS TRUE"),
        (f"select if(p, {A}, 1) from t", "(p) IS TRUE"),
        (f"select if(p, 1, {A}) from t", "(p) IS NOT TRUE"),
        (f"select coalesce(p, {A}) from t", "(p) IS NULL"),
        (f"select count(*) filter (where p and {A}) from t", "(p) IS TRUE"),
        (f"select sum({A}::int) filter (where p) from t", "(p) IS TRUE"),
        (f"select * from t where p /* why */ and {A} -- because", "(p) IS TRUE"),
        (f"select * from t where x in (1, 2) and {A}", "(x in (1, 2)) IS TRUE"),
        (f"select * from t where p between 1 and 0x10 and {A}", "(p between 1 and 0x10) IS TRUE"),
        (f"select * from t where {A}", ""),
    ],
)
def test_guards(sql: str, guard: str) -> None:
    assert [call.guard for call in calls(sql)] == [guard]


@pytest.mark.parametrize(
    ("sql", "levels"),
    [
        (f"select {B} from t where {A}", [1, 0]),
        (f"select * from t where {A} and {B}", [0, 0]),
        (f"select case when {A} then {B} end from t", [0, 1]),
        (f"select case when {A} then 1 else {B} end from t", [0, 1]),
        (f"select case when p then {A} else {B} end from t", [0, 0]),
        (f"select coalesce({A}, {B}) from t", [0, 1]),
        (f"with c as (select {A} a from t) select {B} from c", [0, 1]),
        (f"with c as (select {A} a from t) select {B} from u", [0, 0]),
        (f"select * from t where exists (select 1 from u where {A}) and {B}", [0, 1]),
        (f"select {A} from t union all select {B} from u", [0, 0]),
        (f"select * from (select {A} a from t) d join (select {B} b from u) e on a = b", [0, 0]),
        (f"select k from t group by k having {A} order by {B}", [0, 1]),
        ("select AI_FILTER('a', AI_CLASSIFY(x, ['p', 'q'])) from t", [1, 0]),
        (f"select {A} from t group by {A}", [0, 0]),
    ],
)
def test_levels(sql: str, levels: list[int]) -> None:
    assert [call.level for call in calls(sql)] == levels


@pytest.mark.parametrize(
    ("sql", "depends"),
    [
        ("select * from t where AI_FILTER('a', t.x)", ()),
        ("select * from t join u on t.k = u.k where AI_FILTER('a', t.x)", ('hash("u")', PIN)),
        ("select u.v from t join u on t.k = u.k where AI_FILTER('a', t.x)", ('"u"."v"',)),
        ("select * from t join u using (k) where AI_FILTER('a', t.x)", ('hash("u")', PIN)),
        ("select * from t join u on t.k = u.k where AI_FILTER('a', x)", ('hash("t")', 'hash("u")', PIN)),
        ("select * from t semi join u on t.k = u.k where AI_FILTER('a', t.x)", ()),
        ("select * from t join u on t.k = u.k and AI_FILTER('a', t.x) join v on v.k = u.k", ('hash("u")', PIN)),
        ("select u.v from t join u using (v) where AI_FILTER('a', t.x)", ('hash("u")', PIN)),
        ("select hash(u) from t join u on t.k = u.k where AI_FILTER('a', t.x) group by 1", ('hash("u")', PIN)),
        ("select AI_FILTER('a', t.x) from t join u on t.k = u.k", ('hash("u")', PIN)),
        ("select * from t where exists (select 1 from u where t.k = u.k and AI_FILTER('a', u.x))", ("t.k", PIN)),
        ("select AI_FILTER('a', max(t.x)) from t join u on t.k = u.k group by t.k", ()),
    ],
)
def test_dependencies(sql: str, depends: tuple[str, ...]) -> None:
    assert [call.depends for call in calls(sql)] == [depends]
