# ruff: noqa: E501 - SQL is easier to read on one line
"""Rows and the number of requests sent to the engine, each against its bound, worked out by hand in the test."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import quail_engine
from quail_engine import Connection
from quail_engine.sql import split

REFUND = "AI_FILTER(PROMPT('Does it mention ''refund''? {0}', body))"


@pytest.fixture
def con() -> Iterator[Connection]:
    """`tickets`: 100 rows of 100 texts; a text mentions 'refund' when id is divisible by 4, 'late' when by 10."""
    with quail_engine.connect(engine="mock") as connection:
        connection.sql(
            """
            create table tickets as
            select i as id, i % 10 as team, 'ticket ' || i || case when i % 4 = 0 then ' refund' else '' end
                   || case when i % 10 = 0 then ' late' else '' end as body
            from range(100) r(i);
            create table teams as select i as team, 'team ' || i as name from range(3) r(i);
            """
        )
        yield connection


def rows(con: Connection, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in con.sql(sql).to_pylist()]


def test_filter_is_asked_once_a_row(con: Connection) -> None:
    assert rows(con, f"select count(*) from tickets where {REFUND}") == [(25,)]
    assert con.report.asked == 100


def test_equality_join_then_filter(con: Connection) -> None:
    # Teams 0 to 2 have 10 tickets each: 30 of 100 survive the join.
    assert rows(con, f"select count(*) from tickets t join teams using (team) where {REFUND}") == [(10,)]
    assert con.report.asked == 30


def test_filter_beside_a_condition_that_duckdb_would_not_run_first(con: Connection) -> None:
    # (id * 7) % 11 = 3 holds for id % 11 = 2: 2, 13, …, 90 — nine rows.
    expected = [(i,) for i in range(100) if (i * 7) % 11 == 3 and i % 4 == 0]
    assert rows(con, f"select id from tickets where (id * 7) % 11 = 3 and {REFUND} order by id") == expected
    assert con.report.asked == 9


def test_or_asks_only_where_the_cheap_side_is_not_true(con: Connection) -> None:
    expected = [(i,) for i in range(100) if i < 60 or i % 4 == 0]
    assert rows(con, f"select id from tickets where id < 60 or {REFUND} order by id") == expected
    assert con.report.asked == 40


def test_or_with_null(con: Connection) -> None:
    # The cheap side is NULL for even ids: those are asked, too.
    sql = f"select count(*) from tickets where (case when id % 2 = 1 then true end) or {REFUND}"
    assert rows(con, sql) == [(75,)]
    assert con.report.asked == 50


def test_case_asks_each_row_of_one_branch(con: Connection) -> None:
    sql = """
        select count(*) filter (where x) from (
            select case when id < 30 then AI_FILTER('Mentions ''refund''?', body)
                        when id < 50 then AI_FILTER('Mentions ''late''?', body) end as x from tickets)
    """
    assert rows(con, sql) == [(8 + 2,)]
    assert con.report.asked == 30 + 20


def test_case_condition_and_branch_are_calls(con: Connection) -> None:
    # The branch is looked at where its condition is TRUE: 25 rows mention a refund.
    sql = f"select count(*) from tickets where case when {REFUND} then AI_FILTER('Mentions ''late''?', body) end"
    assert rows(con, sql) == [(5,)]
    assert con.report.asked == 100 + 25


def test_coalesce_of_two(con: Connection) -> None:
    # The first is NULL where its text is: id < 40. Only there is the second looked at.
    sql = """
        select count(*) filter (where c = 'refund') from (
            select coalesce(AI_CLASSIFY(case when id >= 40 then body end, ['refund', 'ticket']),
                            AI_CLASSIFY('second ' || body, ['refund', 'ticket'])) as c from tickets)
    """
    assert rows(con, sql) == [(25,)]
    assert con.report.asked == 60 + 40


def test_in_and_exists_beside_a_call(con: Connection) -> None:
    # 30 rows have a team; of them those under 50 are 15.
    sql = f"""
        select count(*) from tickets t
        where team in (select team from teams) and exists (select 1 from teams x where x.team = t.team and t.id < 50) and {REFUND}
    """
    expected = len([i for i in range(50) if i % 10 < 3 and i % 4 == 0])
    assert rows(con, sql) == [(expected,)]
    assert con.report.asked == 15


def test_call_inside_exists(con: Connection) -> None:
    sql = "select count(*) from teams t where exists (select 1 from tickets x where x.team = t.team and AI_FILTER('Mentions ''late''?', x.body))"
    assert rows(con, sql) == [(1,)]
    # Of team 0 the first ticket decides; the other teams' ten each have to be read.
    assert con.report.asked == 1 + 10 + 10


def test_qualify(con: Connection) -> None:
    sql = f"select id from tickets qualify row_number() over (partition by team order by id) = 1 and {REFUND} order by id"
    assert rows(con, sql) == [(0,), (4,), (8,)]
    assert con.report.asked == 10


def test_having(con: Connection) -> None:
    # Groups of ten; count(*) > 5 leaves all, min(id) < 3 leaves three groups.
    sql = """
        select team from tickets group by team
        having count(*) > 5 and min(id) < 3 and AI_FILTER('Mentions ''ticket''?', max(body)) order by team
    """
    assert rows(con, sql) == [(0,), (1,), (2,)]
    assert con.report.asked == 3


def test_aggregate_filter_and_argument(con: Connection) -> None:
    sql = f"select count(*) filter (where id < 20 and {REFUND}), sum(case when id >= 90 and {REFUND} then 1 end) from tickets"
    assert rows(con, sql) == [(5, 2)]
    assert con.report.asked == 20 + 10


def test_equal_texts_are_asked_once(con: Connection) -> None:
    con.sql("create table many as select i as id, 'text ' || (i % 5) as body from range(1000) r(i)")
    assert rows(con, "select count(*) from many where AI_FILTER('Mentions ''3''?', body)") == [(200,)]
    assert con.report.asked == 5
    assert con.report.calls == 1000


def test_null_is_null_and_not_asked(con: Connection) -> None:
    sql = "select AI_FILTER('q', x), AI_SCORE('q', x), AI_CLASSIFY(x, ['a', 'b']), NOT AI_FILTER('q', x) from (select null::varchar x)"
    assert rows(con, sql) == [(None, None, None, None)]
    assert con.report.asked == 0


def test_empty_text_is_asked(con: Connection) -> None:
    assert rows(con, "select AI_FILTER('Mentions ''x''?', t) from (values ('')) v(t)") == [(False,)]
    assert con.report.asked == 1


@pytest.mark.parametrize(
    "sql",
    [
        f"describe select id, {REFUND} from tickets",
        f"select {REFUND} from tickets limit 0",
        f"select * from (select {REFUND} from tickets) where false limit 0",
        f"select {REFUND} from (select * from tickets where false limit 0)",
        f"explain select {REFUND} from tickets",
        "select count(*) from tickets where body = 'AI_FILTER(x)' -- AI_FILTER(body)",
    ],
)
def test_probes_ask_nothing(con: Connection, sql: str) -> None:
    con.sql(sql)
    assert con.report.asked == 0


def test_the_same_question_in_several_places(con: Connection) -> None:
    sql = f"""
        with asked as (select *, {REFUND} as refund from tickets)
        select count(*) from asked a join asked b using (id) where a.refund and {REFUND.replace("body", "b.body")}
    """
    assert rows(con, sql) == [(25,)]
    assert con.report.asked == 100


def test_filter_and_score_share_an_answer(con: Connection) -> None:
    rows(con, "select AI_FILTER('Mentions ''late''?', body), AI_SCORE('Mentions ''late''?', body) from tickets")
    assert con.report.asked == 100


def test_answers_are_recalled(con: Connection) -> None:
    rows(con, f"select {REFUND} from tickets where id < 10")
    rows(con, f"select {REFUND} from tickets where id < 30")
    assert (con.report.asked, con.report.recalled) == (20, 10)


def test_ai_join_beside_an_equality(con: Connection) -> None:
    con.sql("create table words as select i as team, 'late word ' || i as word from range(4) r(i)")
    # Teams 0 to 3: 40 pairs after the equality. Only tickets of team 0 say 'late'; every pair but theirs shares nothing.
    sql = "select t.id from tickets t join words w on t.team = w.team and AI_JOIN(PROMPT('{0} shares a word with {1}', t.body, w.word)) order by 1"
    assert rows(con, sql) == [(i,) for i in range(0, 100, 10)]
    assert con.report.asked == 40


def test_ai_join_in_a_cte_under_a_where(con: Connection) -> None:
    con.sql("create table words as select i as team, 'late word ' || i as word from range(4) r(i)")
    sql = """
        with words2 as (select * from words where team < 2),
             pairs as (select t.id, w.word from tickets t join words2 w on t.team = w.team
                       and AI_JOIN(PROMPT('{0} shares a word with {1}', t.body, w.word)) where t.id < 50)
        select count(*) from pairs
    """
    assert rows(con, sql) == [(5,)]
    assert con.report.asked == 10


def test_left_join_keeps_its_rows(con: Connection) -> None:
    sql = """
        select count(*), count(n.name) from tickets t
        left join teams n on t.team = n.team and AI_FILTER(PROMPT('Is ''9'' in {0} and {1}?', t.body, n.name))
    """
    assert rows(con, sql) == [(100, 0)]
    assert con.report.asked == 30


def test_one_sided_condition_costs_rows_not_pairs(con: Connection) -> None:
    # 30 tickets have a partner; each is asked once, however many partners it has.
    con.sql("create table doubled as select * from teams union all select * from teams")
    sql = f"select count(*) from tickets t join doubled n on t.team = n.team and {REFUND}"
    assert rows(con, sql) == [(20,)]
    assert con.report.asked == 30


def test_set_operation_is_not_pushed_into(con: Connection) -> None:
    sql = f"select count(*) from (select body from tickets except select body from tickets where id >= 20) where {REFUND}"
    assert rows(con, sql) == [(5,)]
    assert con.report.asked == 20


def test_a_call_on_a_calls_answer_waits_for_it(con: Connection) -> None:
    sql = "select count(*) from tickets where AI_FILTER('Mentions ''refund''?', AI_CLASSIFY(body, ['refund', 'ticket']))"
    assert rows(con, sql) == [(25,)]
    assert con.report.asked == 100 + 2


def test_where_before_select(con: Connection) -> None:
    sql = f"select AI_FILTER('Mentions ''late''?', body) from tickets where not {REFUND}"
    assert len(rows(con, sql)) == 75
    assert con.report.asked == 100 + 75


def test_constant_call_is_asked_once(con: Connection) -> None:
    assert len(rows(con, "select AI_FILTER('Is it positive?') from tickets")) == 100
    assert con.report.asked == 1
    assert "reads no column" in con.report.warnings[0]


def test_writes(con: Connection) -> None:
    con.sql(f"create table urgent as select id, {REFUND} as refund from tickets")
    assert (con.report.asked, con.report.rows) == (100, 100)
    con.sql(f"insert into urgent select id + 100, {REFUND} from tickets where id < 10")
    assert (con.report.asked, con.report.recalled, con.report.rows) == (0, 10, 10)
    assert rows(con, "select count(*), count(*) filter (where refund) from urgent") == [(110, 28)]


def test_copy(con: Connection, tmp_path: object) -> None:
    con.sql(f"copy (select id, {REFUND} as refund from tickets) to '{tmp_path}/t.parquet'")
    assert rows(con, f"select count(*) from '{tmp_path}/t.parquet' where refund") == [(25,)]
    assert con.report.asked == 0


def test_several_statements_at_once(con: Connection) -> None:
    con.sql(f"create table a as select id from tickets where {REFUND}; insert into a select 1000; select count(*) from a")
    assert con.report.asked == 100
    assert rows(con, "select count(*) from a") == [(26,)]


def test_names_are_those_that_duckdb_gives(con: Connection) -> None:
    table = con.sql("select id, AI_FILTER(PROMPT('a {0}', body)), id, AI_SCORE('q', body) > 0.5 from tickets limit 1")
    oracle = quail_engine.oracle()
    oracle.execute("create table tickets (id int, body varchar)")
    oracle.execute("select id, AI_FILTER(PROMPT('a {0}', body)), id, AI_SCORE('q', body) > 0.5 from tickets limit 1")
    assert table.column_names == [column[0] for column in oracle.description]


def test_inside_a_users_transaction() -> None:
    shared = duckdb.connect()
    con = quail_engine.connect(shared, engine="mock")
    shared.execute("create table t as select 'a refund' body")
    shared.execute("begin")
    con.sql("create table u as select AI_FILTER('Mentions ''refund''?', body) r from t")
    shared.execute("rollback")
    assert shared.execute("select count(*) from duckdb_tables() where table_name = 'u'").fetchall() == [(0,)]
    con.sql("create table u as select AI_FILTER('Mentions ''refund''?', body) r from t")
    assert (con.report.asked, con.report.recalled) == (0, 1)
    assert shared.execute("select * from u").fetchall() == [(True,)]


@pytest.mark.parametrize(
    ("sql", "found", "asked"),
    [
        # Every fourth ticket mentions a refund: 0, 4, 8, 12, 16 are the first five, and 17 rows are read to find them.
        (f"select id from tickets where {REFUND} limit 5", 5, 17),
        (f"select id from tickets where id % 4 = 0 and {REFUND} limit 5", 5, 5),
        (f"select id from tickets where {REFUND} limit 3 offset 2", 3, 17),
        (f"select id from tickets where id >= 90 and {REFUND} limit 50", 2, 10),
        (f"select id from tickets where id < 3 or {REFUND} limit 3", 3, 0),
        (f"select t.id from tickets t join teams n on t.team = n.team and {REFUND} where n.name = 'team 0' limit 2", 2, 4),
        (f"create table first_one as select id from tickets where {REFUND} limit 1", 1, 1),
    ],
)
def test_limit_stops_early(con: Connection, sql: str, found: int, asked: int) -> None:
    con.sql("set threads = 1")  # a scan in order, so that the numbers are exact
    table = con.sql(sql)
    assert (con.report.rows if con.report.rows >= 0 else table.num_rows) == found
    assert con.report.asked <= asked * 5 // 4


def test_limit_over_many_rows(con: Connection) -> None:
    con.sql(
        "create table many as select i as id, 'text ' || i || case when i % 2 = 0 then ' hit' else '' end as body from range(10000) r(i)"
    )
    table = con.sql(
        "select id, AI_SCORE('hashed', body) as score from many where AI_FILTER('Mentions ''hit''?', body) limit 10"
    )
    assert table.num_rows == 10
    assert all(i % 2 == 0 for i in table.column("id").to_pylist())
    assert None not in table.column("score").to_pylist()
    assert con.report.asked <= 200


@pytest.mark.parametrize(
    "sql",
    [
        f"select id, {REFUND} as x from tickets order by x, id desc limit 2",
        f"select team from tickets where {REFUND} group by team limit 1",
        f"select count(*) from tickets where {REFUND} limit 1",
        f"select id from tickets where coalesce({REFUND}, true) limit 2",
        f"select distinct team from tickets where {REFUND} limit 1",
        f"select id from tickets t right join teams n on t.team = n.team and {REFUND} limit 100",
    ],
)
def test_limit_that_needs_all_rows(con: Connection, sql: str) -> None:
    oracle = quail_engine.oracle()
    oracle.execute(
        "create table tickets as select i as id, i % 10 as team, 'ticket ' || i || case when i % 4 = 0 then ' refund' else '' end as body from range(100) r(i); create table teams as select i as team from range(3) r(i)"
    )
    expected = oracle.sql(sql).to_arrow_table().num_rows
    assert con.sql(sql).num_rows == expected
    assert con.report.asked in (100, 30)


def test_update(con: Connection) -> None:
    con.sql("alter table tickets add column refund boolean")
    con.sql(
        f"update tickets as x set refund = {REFUND}, team = team + 100 where id < 20 and AI_FILTER('Mentions ''ticket''?', x.body)"
    )
    assert con.report.asked == 20 + 20
    assert con.report.rows == 20
    assert rows(con, "select count(*), count(*) filter (where refund), min(team) from tickets where team >= 100") == [
        (20, 5, 100)
    ]


def test_update_from_another_table(con: Connection) -> None:
    con.sql(f"update tickets set body = n.name from teams n where tickets.team = n.team and {REFUND}")
    assert (con.report.asked, con.report.rows) == (30, 10)
    assert rows(con, "select count(*) from tickets where body like 'team %'") == [(10,)]


def test_delete(con: Connection) -> None:
    con.sql(f"delete from tickets where id < 50 and {REFUND}")
    assert (con.report.asked, con.report.rows) == (50, 13)
    con.sql(f"delete from tickets using teams n where tickets.team = n.team and not {REFUND}")
    assert rows(con, "select count(*) from tickets") == [(100 - 13 - 20,)]
    assert con.report.asked == 0
    con.sql("delete from tickets where id >= 0 and AI_FILTER('Mentions ''ticket''?', body)")
    assert rows(con, "select count(*) from tickets") == [(0,)]


def test_merge(con: Connection) -> None:
    con.sql("create table kept (id bigint, refund boolean); insert into kept values (4, null)")
    con.sql(
        f"""
        merge into kept using (select id, {REFUND} as refund from tickets where id < 8) new on kept.id = new.id
        when matched then update set refund = new.refund when not matched then insert values (new.id, new.refund)
        """
    )
    assert con.report.asked == 8
    assert rows(con, "select count(*), count(*) filter (where refund) from kept") == [(8, 2)]


@pytest.mark.parametrize(
    ("sql", "ids", "asked"),
    [
        # 96, 92, … mention a refund: from 99 down to 92 are eight rows.
        (f"select id from tickets where {REFUND} order by id desc limit 2", [96, 92], 8),
        (f"select id from tickets where {REFUND} order by team, id desc limit 2 offset 1", [60, 40], 6),
        (f"select id as n, AI_SCORE('q', body) as s from tickets where team = 2 and {REFUND} order by n limit 1", [12], 2 + 1),
        (
            f"select id from tickets where {REFUND} and AI_FILTER('Mentions ''late''?', body) order by id desc limit 1",
            [80],
            20 + 5,
        ),
    ],
)
def test_order_by_and_limit_stop_early(con: Connection, sql: str, ids: list[int], asked: int) -> None:
    table = con.sql(sql)
    assert table.column(0).to_pylist() == ids
    assert con.report.asked <= asked * 5 // 4


def test_exists_stops_at_the_first_true(con: Connection) -> None:
    con.sql(
        "create table partners as select i as pid, i % 2 as k, 'partner ' || i || case when i % 5 = 0 then ' hit' else '' end as text from range(200) r(i)"
    )
    con.sql("create table outers as select i as id, i % 2 as k, 'outer ' || i as name from range(10) r(i)")
    # Every group of 100 partners has a hit among each five; 1 + 2 + 4 + 8 of each outer row are asked at most.
    sql = "select count(*) from outers o where {} (select 1 from partners p where p.k = o.k and AI_FILTER('Mentions ''hit''?', p.text || ' ' || o.name))"
    assert rows(con, sql.format("exists")) == [(10,)]
    assert con.report.asked <= 10 * 15
    assert rows(con, sql.format("not exists")) == [(0,)]
    assert con.report.asked == 0


def test_exists_groups_by_all_that_it_reads(con: Connection) -> None:
    # Two outer rows with one text but other keys: a TRUE for one says nothing about the other.
    con.sql("create table o as select * from (values (1, 'same'), (2, 'same'), (null, 'same')) v(k, name)")
    con.sql("create table p as select * from (values (1, 'hit'), (2, 'miss'), (2, 'miss too')) v(k, text)")
    sql = "select k from o where exists (select 1 from p where p.k = o.k and AI_FILTER(PROMPT('Is ''i'' in {0} {1}', p.text, 'i' || o.name))) order by k"
    assert rows(con, sql) == [(1,), (2,)]
    assert con.report.asked <= 3
    sql = sql.replace("''i''", "''hit''").replace("'i' || o.name", "'hit' || o.name")
    assert rows(con, sql) == [(1,)]
    assert con.report.asked == 3


def test_anti_join_stops_and_is_right(con: Connection) -> None:
    con.sql("create table o as select i as k, 'o' || i as name from range(6) r(i)")
    con.sql(
        "create table p as select i % 6 as k, 'p' || i || case when i % 6 < 3 then ' hit' else '' end as text from range(120) r(i)"
    )
    sql = "select o.k from o anti join p on o.k = p.k and AI_FILTER('Mentions ''hit''?', p.text) order by 1"
    assert rows(con, sql) == [(3,), (4,), (5,)]
    assert con.report.asked == 3 * 1 + 3 * 20


def test_symmetric_pairs_are_asked_once(con: Connection) -> None:
    con.sql("create table words as select i as id, 'word' || (i % 3) || ' common' as word from range(6) r(i)")
    join = "select count(*) from words a join words b on a.id <> b.id and AI_FILTER(PROMPT('{0} shares a word with {1}', a.word, b.word)%s)"
    # Three distinct texts: nine ordered pairs, six unordered ones.
    assert rows(con, join % ", {'symmetric': true}") == [(30,)]
    assert con.report.asked == 6
    assert rows(con, join % "") == [(30,)]
    assert con.report.recalled + con.report.asked == 9


@pytest.mark.parametrize("noted", [30, 2])  # with two, more rounds than a statement takes that never ends; the last is not full
def test_a_round_notes_no_more_than_it_may(noted: int) -> None:
    with quail_engine.connect(engine="mock", max_missing_per_round=noted) as con:
        con.sql("create table many as select 'text ' || i as body from range(101) r(i)")
        assert rows(con, "select count(*) from many where AI_FILTER('Mentions ''text''?', body)") == [(101,)]
        assert con.report.asked == 101


def test_a_statement_without_ai_calls_is_not_parsed(con: Connection) -> None:
    split.cache_clear()
    con.sql("select 'paid and said: a text that mentions nothing' -- and a comment")
    assert split.cache_info().misses == 0
    con.sql("select 'AI_FILTER(x)' -- which only a look at its tokens tells")
    assert split.cache_info().misses == 1


def test_a_filter_is_asked_before_the_pairs(con: Connection) -> None:
    con.sql("create table words as select i as team, 'late word ' || i as word from range(4) r(i)")
    # 40 tickets have a team of 0 to 3; ten of them mention a refund, and only their pairs are asked.
    join = "tickets t join words w on t.team = w.team and AI_JOIN(PROMPT('{0} shares a word with {1}', t.body, w.word))"
    refund = REFUND.replace("body", "t.body")
    for sql in (f"select t.id from {join} where {refund} order by 1", f"select t.id from {join} and {refund} order by 1"):
        assert rows(con, sql) == [(i,) for i in range(0, 100, 20)]
        assert con.report.asked + con.report.recalled == 40 + 10
    written = refund[:-1] + ", {'order': 'as_written'})"
    assert rows(con, f"select count(*) from {join} where {written}") == [(5,)]
    assert con.report.recalled + con.report.asked == 40 + 10


def test_a_condition_stays_above_its_join(con: Connection) -> None:
    # One text is left by the join: 'b'. DuckDB would know a row IS NULL to be FALSE, and move the call below the join.
    con.sql("create table a as select * from (values (1, 0, null), (2, 3, 'b'), (3, 2, 'x')) v(id, k, a)")
    con.sql("create table b as select * from (values (1, 1, ''), (2, 3, 'b'), (3, 1, null)) v(uid, k, c)")
    one = (
        "select a.a from a, b where case when a.a is not null then a.id > 2 else exists (select 1 from b x where x.k = a.k) end"
    )
    con.sql(f"{one} union all select a.a from a join b on a.k = b.k where AI_FILTER('q', a.a) is null")
    assert con.report.asked == 1
    con.sql("create table nothing as select * from b where false")
    con.sql("select a.k from a right join nothing n on a.k = n.k where AI_FILTER('another', a.a)")
    assert con.report.asked == 0


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        # 40 tickets of teams 0 to 3 meet a word; those of team 0 share one with it.
        (
            "select t.id from tickets t join words w on t.team = w.team and AI_FILTER(PROMPT('{0} shares a word with {1}', t.body, w.word)) where not AI_FILTER('q', t.body)",
            40 + 10,
        ),
        # An expression over both sides, which DuckDB does not join by: (id + 3) is divisible by 7 for 14 tickets.
        ("select t.id from tickets t join words w on (t.id + w.team * 100) % 103 = 4 and w.team < 2 where not AI_FILTER('q', t.body)", 2),
        (f"select id from (select id, {REFUND} or id < 0 as x from tickets where (id * 7) % 11 = 3) d where x", 9),
        (f"with c as (select id, {REFUND} or id < 0 as x from tickets where AI_FILTER('Mentions ''late''?', body)) select id from c where x", 100 + 10),
    ],
)  # fmt: skip
def test_earlier_conditions_of_one_conjunction(con: Connection, sql: str, asked: int) -> None:
    con.sql("create table words as select i as team, 'late word ' || i as word from range(4) r(i)")
    con.sql(sql)
    assert con.report.asked == asked


@pytest.mark.parametrize("join", ["semi", "anti"])
@pytest.mark.parametrize("condition", ["not AI_FILTER('q', t.body)", "AI_CLASSIFY(t.body, ['x', 'y']) = 'x'"])
def test_a_condition_over_a_semi_join(con: Connection, join: str, condition: str) -> None:
    # Teams 0 to 2 are in `teams`: 30 tickets have one of them, 70 another.
    con.sql(f"select t.id from tickets t {join} join teams u on t.team = u.team where {condition}")
    assert con.report.asked == {"semi": 30, "anti": 70}[join]
