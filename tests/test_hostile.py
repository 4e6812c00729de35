# ruff: noqa: E501 - SQL is easier to read on one line
"""Statements that once went wrong: each against the oracle's rows and, where it matters, the bound of questions."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import quail_engine
from quail_engine import Connection, QuailError, SqlError

TABLES = """
create table big as select i as id, i % 10 as team, 'text ' || i || case when i % 4 = 0 then ' refund' else '' end || case when i % 10 = 0 then ' late' else '' end as body from range(100) r(i);
create table t as select * from (values (1, 0, 'late refund', 'x'), (2, 1, 'late', null), (3, 0, null, 'refund'), (4, 2, '', 'y'), (5, null, 'Refund', 'x'), (6, 1, 'late refund', 'y')) v(id, k, a, b);
create table u as select * from (values (1, 0, 'refund word'), (2, 1, 'brown late'), (3, 1, null), (4, null, 'late'), (5, 2, '')) v(uid, k, c);
create schema s1; create schema s2;
create table s1.w as select id, a from t; create table s2.w as select id, b from t;
"""
L, R = "AI_FILTER('Mentions ''late''?', {})", "AI_FILTER('Mentions ''refund''?', {})"
LB, RB, LA, RA = L.format("body"), R.format("body"), L.format("a"), R.format("a")


@pytest.fixture
def con() -> Iterator[Connection]:
    with quail_engine.connect(engine="mock") as connection:
        connection.sql(TABLES)
        yield connection


@pytest.fixture(scope="module")
def reference() -> duckdb.DuckDBPyConnection:
    connection = quail_engine.oracle()
    connection.execute(TABLES)
    return connection


@pytest.mark.parametrize(
    ("sql", "most"),
    [
        (f"select id, {LB} as x from big where x and {RB} order by id limit 2", 200),
        (f"select id, {LB} as x from big where {RB} and not x order by id limit 3", 200),
        (f"select id, AI_SCORE('hashed', body) s, s * 2 d from big where {RB} order by d, id limit 2", 125),
        (f"select {LB} x, id from big where {RB} order by all limit 3", 125),
        (f"select * replace ({LB} as body) from big where {RB} order by body, id limit 3", 125),
        (f"select histogram(team) from big where {RB} limit 1", 100),
        (f"select AI_FILTER('Mentions ''late''?', histogram(t.a)::varchar) x from t join u using (k) where {RA}", 4 + 1),
        ("select count(*), AI_FILTER('Mentions ''x''?', 'x') from t where false", 1),
        (f"select k = 1 and {LA} x, count(*) from t group by k, {LA} order by all", 5),
        (f"select count(*) from t group by {LA} order by case when count(*) > 1 then {LA} end, 1", 5),
        (
            "select t.id % 2 as par, t.id from t join u on AI_JOIN(PROMPT('{0} shares {1}', t.a, u.c)) where par = 1 order by all",
            16,
        ),
        (f"select s1.w.id from s1.w join s2.w on s1.w.id = s2.w.id where {LA} order by 1", 5),
        (f"select count(*) from (select * from t) join u using (k) where {LA}", 4),
        (f"select id, {LA} as x, coalesce(x, AI_FILTER('Mentions ''x''?', b)) y from t order by id", 4 + 1),
        (f"select t.id from t semi join u on t.k in (select x.k from u x) and {LA} where t.id < 5 order by 1", 4),
        (
            "select t.id from t join u on t.k = u.k and AI_FILTER(PROMPT('p {0}', AI_CLASSIFY(t.a, ['x', 'y']))) and AI_JOIN(PROMPT('{0} shares {1}', t.b, u.c)) order by 1",
            12,
        ),
        (f"with c as (select * from t) select c.id as update from c where {LA} order by 1", 4),
        (f"select count(*) from t where {'case when id = 9 then true else ' * 60} {LA} {'end ' * 60}", 4),
        (f"select count(*) from t where {' and '.join(['id > 0'] * 700)} and {LA}", 4),
    ],
)
def test_rows_and_bounds(con: Connection, reference: duckdb.DuckDBPyConnection, sql: str, most: int) -> None:
    theirs = reference.sql(sql).to_arrow_table()
    assert con.sql(sql).to_pylist() == theirs.to_pylist()
    assert con.report.asked <= most


def test_a_prompt_of_many_arguments(con: Connection, reference: duckdb.DuckDBPyConnection) -> None:
    columns = ", ".join(f"'v{n}_' || i c{n}" for n in range(7))
    for connection in (con, reference):
        connection.sql(f"create table wide as select i id, {columns} from range(4096) r(i)")
    sql = "select id, AI_SCORE(PROMPT('hashed {0}{1}{2}{3}{4}{5}{6}', c0, c1, c2, c3, c4, c5, c6)) from wide order by id"
    assert con.sql(sql) == reference.sql(sql).to_arrow_table().rename_columns(con.sql(sql).column_names)


def test_update_where_false_changes_nothing(con: Connection) -> None:
    assert con.sql(f"update t set b = case when {LA} then 'z' end where false").to_pylist() == [{"Count": 0}]
    assert con.report.asked == 0


def test_update_keeps_defaults(con: Connection) -> None:
    con.sql("create table d (a varchar, b int default 7); insert into d values ('late', 1), ('x', 2)")
    con.sql(f"update d set b = default where {LA}")
    assert con.sql("select * from d order by a").to_pylist() == [{"a": "late", "b": 7}, {"a": "x", "b": 2}]


@pytest.mark.parametrize(
    ("table", "write"),
    [
        ('w ("where" int, "from" int, a varchar)', f'update w set "where" = 5, "from" = 6 where {LA}'),
        ('"set" (b int, a varchar)', f'update "set" set b = 1 where {LA}'),
        ('o ("from" boolean, x varchar)', f'insert into o ("from", x) select {LA}, a from t'),
        ('o ("values" boolean)', f'insert into o ("values") select {LA} from t'),
        ('"select" (x boolean)', f'insert into "select" select {LA} from t'),
        ("o (x boolean)", f'insert into o select {LA} as "returning" from t'),
    ],
)
def test_quoted_names_are_no_keywords(con: Connection, table: str, write: str) -> None:
    con.sql(f"create table {table}")
    con.sql(write)
    assert con.report.rows >= 0


def test_writes_that_write_nothing_or_have_odd_names(con: Connection) -> None:
    con.sql(f"create table if not exists t as select {LA} from t")
    assert con.sql("select count(*) n from t").to_pylist() == [{"n": 6}]
    con.sql(f'create view "table" as select {LA} x from t; create /* a view */ view v as select {LA} x from t')
    assert con.sql('select count(x) n from "table" union all select count(x) from v').to_pylist() == [{"n": 5}, {"n": 5}]


def test_a_table_may_be_named_like_a_function(con: Connection) -> None:
    con.sql("create table ai_score (id int); insert into ai_score (id) select 1")
    assert con.sql("select * from ai_score").to_pylist() == [{"id": 1}]


def test_explain_with_options_asks_nothing(con: Connection) -> None:
    assert con.sql(f"explain (format json) select {LA} from t").column(0).to_pylist()[0] == "quail_plan"
    assert con.report.asked == 0


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("select AI_CLASSIFY(a, ['late', 'refund']).upper() from t", "with a dot behind it"),
        ("select AI_FILTER('q', a) over () from t", "no aggregate"),
        ("select AI_FILTER('q', a) filter (where true) from t", "no aggregate"),
        ("select main.AI_FILTER('q', a) from t", "without a schema"),
        ("insert into t values (default, 1, 'x', AI_CLASSIFY('x', ['a', 'b']))", "DEFAULT cannot stand"),
        (f"create table z as select {LA} from t; select AI_FILTER(PROMPT('bad {{1}}', a)) from t", "has no argument"),
    ],
)
def test_clear_refusals(con: Connection, sql: str, says: str) -> None:
    with pytest.raises(SqlError, match=says):
        con.sql(sql)
    assert con.report.asked == 0
    assert con.sql("select count(*) n from duckdb_tables() where table_name = 'z'").to_pylist() == [{"n": 0}]


def test_a_hidden_volatile_value_does_not_ask_without_end(con: Connection) -> None:
    con.sql("create view v as select random()::varchar r from range(5)")
    with pytest.raises(QuailError, match="still finds texts"):
        con.sql("select AI_FILTER('q', r) from v")


def test_duckdbs_error_is_not_hidden_by_ours(con: Connection) -> None:
    sql = "select t.a::int from t join u on t.k = u.k and AI_JOIN(PROMPT('{0} shares a word with {1}', t.a, u.c))"
    with pytest.raises(duckdb.ConversionException):
        con.sql(sql)
    assert con.sql("select 1 one").to_pylist() == [{"one": 1}]


def test_order_by_holds_where_tables_keep_no_order(con: Connection) -> None:
    con.sql(
        "set threads = 4; set preserve_insertion_order = false; create table many as select i as id, 'text ' || (i % 7) as body from range(300000) r(i)"
    )
    found = con.sql("select id, AI_FILTER('q', body) as x, id from many order by id desc")
    assert found.column(0).to_pylist() == list(range(299_999, -1, -1))
    assert found.column_names == ["id", "x", "id"]
    con.sql("reset preserve_insertion_order")
