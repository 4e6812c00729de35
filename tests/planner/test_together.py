# ruff: noqa: E501 - SQL is easier to read on one line
"""Conditions about one text share its KV: rows, requests and tokens, worked out by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from planner_cases import contains
from text_first import put_texts_first

from quail_engine import Connection, waiting

LONG = """
create or replace table long as
    select id, k, body || repeat(' ' || md5(id::varchar), 30) as body, body as short,
           case when id % 4 > 0 then repeat(note || ' ', 100) end as note
    from t
"""
"""The 400 texts at some 1,000 bytes each; of the notes, 50 different ones, more are NULL."""

EVEN, FIVE, NOTE = contains("even", "body"), contains("five", "body"), contains("note 1 ", "note")
TWENTY = contains("twenty", "body", selectivity=0.05)
ALL_EVEN = contains("even", "body", selectivity=0.99)
APART = "ask_together"
Connected = Callable[..., Connection]


def rows(table: object) -> Counter[str]:
    return Counter(map(str, table.to_pylist()))  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def tables(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    put_texts_first(monkeypatch)
    for name in ("database", "oracle"):
        request.getfixturevalue(name).execute(LONG)


ON_KV, AT_ONCE = "asked where the one before is TRUE, on its KV", "asked together"


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        (f"select id from long where {EVEN} and {FIVE}", 400 + 200),
        (f"select id from long where {EVEN} and not {FIVE}", 400 + 200),
        (f"select id from long where not {FIVE} and {EVEN}", 400 + 320),
        (f"select id from long where k < 3 and not ({FIVE}) and {EVEN} is true", 120 + 80),
        (f"select id from long where {EVEN} and ({FIVE} or {contains('twenty', 'body')})", 400 + 200 + 160),
        # The rare one is first. All that hold 'twenty' are even.
        (f"select id from long where {EVEN} and {FIVE} and {TWENTY}", 400 + 20 + 20),
        (f"select id from long where not {EVEN} and {FIVE} and {TWENTY}", 400 + 20),
        # 50 notes, and one of them on 4 rows, whose numbers are even: first the notes, then the texts beside it.
        (f"select id from long where {EVEN} and {contains('note 2 ', 'note', selectivity=0.02)} and {FIVE}", 50 + 4 + 4),
        (f"select count(*) filter (where {EVEN} and {FIVE}) as n from long group by k", 400 + 200),
        (f"with c as (select * from long where {EVEN} and {FIVE}) select id from c where {contains('twenty', 'short')}", 600 + 40),
        (f"select long.id from long join u on long.k = u.k and u.k < 5 left join u w on w.k = u.k and {EVEN} and {FIVE}", 200 + 120),
    ],
)  # fmt: skip
def test_a_later_question_reads_the_kv_of_the_first(
    connected: Connected, oracle: duckdb.DuckDBPyConnection, sql: str, asked: int
) -> None:
    con, other = connected(sample_rows=0), connected(sample_rows=0, disable_rules=APART)
    expected = rows(oracle.sql(sql).to_arrow_table())
    assert rows(con.sql(sql)) == rows(other.sql(sql)) == expected
    assert (con.report.asked, other.report.asked) == (asked, asked)
    assert ON_KV in con.report.plan
    assert con.report.tokens_reused > other.report.tokens_reused
    assert con.report.tokens_fresh < other.report.tokens_fresh


@pytest.mark.parametrize(
    ("sql", "together", "apart"),
    [
        # An answer that is no condition by itself does not say whether the row needs the next one.
        (f"select id from long where {EVEN} is true and {FIVE} is true", 400 + 400, 400 + 200),
        (f"select id from long where (id < 100 or {EVEN}) and {FIVE}", 300 + 400, 300 + 250),
        # Of the other call's rows some need the answer that this one's do not.
        (f"select id, {FIVE} as f from long where {EVEN} and {FIVE} union all select id, {FIVE} from long", 400 + 400, 400 + 400),
        # So few notes would be refused that a batch more costs as much.
        (f"select id from long where {NOTE} and {contains('note', 'note')} and {EVEN} and {FIVE}", 50 + 50 + 7, 50 + 1 + 7),
        (f"select id from long where id < 2 and {ALL_EVEN} and {contains('five', 'body', selectivity=0.99)}", 2 + 2, 2 + 1),
    ],
)  # fmt: skip
def test_long_texts_are_read_once(
    connected: Connected, oracle: duckdb.DuckDBPyConnection, sql: str, together: int, apart: int
) -> None:
    con, other = connected(sample_rows=0), connected(sample_rows=0, disable_rules=APART)
    expected = rows(oracle.sql(sql).to_arrow_table())
    assert rows(con.sql(sql)) == rows(other.sql(sql)) == expected
    assert (con.report.asked, other.report.asked) == (together, apart)
    assert AT_ONCE in con.report.plan
    assert con.report.tokens_fresh < (0.8 if together > 1.2 * apart > 200 else 1.01) * other.report.tokens_fresh


def test_a_second_condition_costs_its_question(connected: Connected) -> None:
    con = connected()
    con.sql(f"select id from long where {EVEN}")
    first = con.report.tokens_fresh
    con = connected(sample_rows=0)
    con.sql(f"select id from long where {EVEN} and {FIVE}")
    assert first < con.report.tokens_fresh <= 1.01 * first


@pytest.mark.parametrize(
    "condition",
    [
        f"{EVEN} and {NOTE}",  # different texts
        f"{EVEN} and {contains('five', 'body', order='as_written')}",
        f"{EVEN} and AI_CLASSIFY(note, ['a', 'b']) = 'a'",
        f"{EVEN} and {FIVE} limit 3",
        "AI_FILTER(PROMPT('Contain ''even''? {0} {1}', body, note)) and AI_FILTER(PROMPT('Contain ''five''? {0} {1}', body, note))",
    ],
)
def test_one_after_the_other(connected: Connected, condition: str) -> None:
    con, other = connected(sample_rows=0), connected(sample_rows=0, disable_rules=APART)
    for each in (con, other):
        each.sql(f"select id from long where {condition}")
    assert con.report.asked == other.report.asked
    assert "KV" not in con.report.plan


def test_prompts_that_put_the_question_first_share_no_text(connected: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    con = connected(sample_rows=0)
    con.sql(f"select id from long where {EVEN} and {FIVE}")
    assert con.report.asked == 400 + 200
    assert "KV" not in con.report.plan


PAIRS = f"""
select long.id, u.k from long join u on AI_FILTER(PROMPT('Shares a word? {{0}} {{1}}', long.short, u.name))
where {contains("even", "long.body")} and {contains("five", "long.body")} and long.k + 5 > u.k and u.k < 3
"""


def test_filters_beside_an_ai_join(connected: Connected, oracle: duckdb.DuckDBPyConnection) -> None:
    con, other = connected(sample_rows=0), connected(sample_rows=0, disable_rules=APART)
    plan = con._session.explain(con._connection, PAIRS)[0]
    assert [node.on_kv for node in plan.nodes[:3]] == [False, True, False]  # type: ignore[union-attr]
    assert rows(con.sql(PAIRS)) == rows(other.sql(PAIRS)) == rows(oracle.sql(PAIRS).to_arrow_table())
    assert con.report.asked == other.report.asked == 400 + 200 + 40 * 3
    assert ON_KV in con.report.plan
    assert con.report.tokens_fresh < 0.75 * other.report.tokens_fresh
    assert plan.estimate.requests.value == 400 + 200 + 100 * 3  # type: ignore[union-attr]
    con.sql(PAIRS)
    assert con.report.asked == 0


@pytest.mark.parametrize(
    ("condition", "asked", "says"),
    [
        (f"({EVEN} or {FIVE})", 400 + 200, "not TRUE"),
        (f"(not {EVEN} or {FIVE})", 400 + 200, "not TRUE"),
        (f"(id < 100 or ({EVEN} and {FIVE}))", 300 + 150, "not FALSE"),
    ],
)
@pytest.mark.parametrize("failing", [None, "twenty"])
def test_other_junctions(
    connected: Connected, oracle: duckdb.DuckDBPyConnection, condition: str, asked: int, says: str, failing: str | None
) -> None:
    sql = f"select id, {condition} as f from long where id <> 7 or {condition}"
    given = {"sample_rows": 0, "mock_fail": failing, "max_error_ratio": 1.0}
    con, other = connected(**given), connected(**given, disable_rules=APART)
    assert rows(con.sql(sql)) == rows(other.sql(sql))
    con, other = connected(**given), connected(**given, disable_rules=APART)
    sql = f"select id, {condition} as f from long"
    found = rows(con.sql(sql))
    assert found == rows(other.sql(sql))
    if failing is None:
        assert found == rows(oracle.sql(sql).to_arrow_table())
    assert con.report.asked == other.report.asked
    assert failing or con.report.asked == asked
    assert f"where the one before is {says}, on its KV" in con.report.plan


def test_what_the_store_knows_makes_questions_needless(connected: Connected, tmp_path: Path) -> None:
    # 80 texts hold 'five', and half of the first 200 'even'. Texts that spill to disk are read twice.
    con = connected(answers=str(tmp_path), sample_rows=0, missing_bytes=1000)
    con.sql(f"select id from long where {FIVE}")
    con.sql(f"select id from long where {EVEN} and {FIVE}")
    assert (con.report.asked, con.report.recalled) == (80, 400)
    con.sql(f"select id from long where {EVEN} and {FIVE}")
    assert (con.report.asked, con.report.recalled) == (0, 80 + 400)
    con = connected(sample_rows=0, missing_bytes=1000)
    con.sql(f"select id from long where id < 200 and {EVEN}")
    sql = f"select id from long where {contains('a', 'body')} and {EVEN}"
    assert "300 requests, 0 recalled" in con.explain(sql), "what will happen is told"
    con.sql(sql)
    with_a = con.sql(f"select count(*) as n from long where id >= 200 and {contains('a', 'body')}").to_pylist()[0]["n"]
    con = connected(sample_rows=0, missing_bytes=1000)
    con.sql(f"select id from long where id < 200 and {EVEN}")
    con.sql(sql)
    assert (con.report.asked, con.report.recalled) == (100 + 200 + with_a, 200)


def test_a_sample_is_part_of_what_is_asked(connected: Connected) -> None:
    con = connected(sample_rows=40)
    con.sql(f"select id from long where {EVEN} and {contains('a', 'body')}")
    assert con.report.sampled == 2 * 40
    report, other = con.report, connected(sample_rows=40, disable_rules=APART)
    other.sql(f"select id from long where {EVEN} and {contains('a', 'body')}")
    assert report.asked == other.report.asked < 2 * 400


def test_a_text_stays_beside_its_questions_in_large_rounds(connected: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    def tokens(**settings: object) -> int:
        con = connected(sample_rows=0, **settings)
        con.sql(f"select id from long where {EVEN} and {FIVE}")
        return con.report.tokens_fresh

    whole = tokens()
    monkeypatch.setattr(waiting, "ASKED_ROWS", 50)
    assert tokens() <= 1.02 * whole
    assert tokens(max_missing_per_round=100) <= 2 * whole


def test_writing_statements(connected: Connected, oracle: duckdb.DuckDBPyConnection) -> None:
    con = connected(sample_rows=0)
    for sql, asked in (
        (f"update long set k = -1 where {EVEN} and {FIVE}", 400 + 200),
        (f"delete from long where {FIVE} and {contains('odd', 'body')}", 200 + 80),  # of the even ones it is known
    ):
        con.sql(sql)
        assert con.report.asked == asked
        oracle.execute(sql)
        assert rows(con.sql("from long")) == rows(oracle.sql("from long").to_arrow_table())


def test_failures_refuse(connected: Connected) -> None:
    con = connected(mock_fail="twenty", max_error_ratio=1.0, sample_rows=0)
    assert con.sql(f"select id from long where {EVEN} and {FIVE}").num_rows == 20
    assert (con.report.asked, con.report.failed) == (400 + 180, 20)


def test_the_plan_says_what_it_saves(connected: Connected) -> None:
    con = connected()
    sql = f"select id from long where {EVEN} and {FIVE}"
    (plan,) = con._session.explain(con._connection, sql)
    (step,) = plan.nodes[0].together  # type: ignore[union-attr]
    assert step.conditions == ((0,), (1,))
    chosen, apart, at_once = step.chosen, step.apart, step.otherwise
    assert step.cascades
    assert (chosen.requests, chosen.tokens_fresh, chosen.seconds) == (
        plan.estimate.requests,
        plan.estimate.tokens_fresh,
        plan.estimate.seconds,
    )
    assert (chosen.requests.value, apart.requests.value, at_once.requests.value) == (600, 600, 800)
    assert chosen.tokens_fresh.value < at_once.tokens_fresh.value < apart.tokens_fresh.value
    assert apart.tokens_fresh.value > 1.3 * chosen.tokens_fresh.value
    assert apart.seconds.value > 1.3 * chosen.seconds.value
    data = con.explain(sql, format="json")[0]["steps"][0]["together"][0]
    assert data["conditions"] == [[0], [1]]
    assert [way["what"] for way in data["rejected"]] == ["the text anew for each", "all at once, on one KV"]
    told = con.explain(sql)
    assert f"instead: the text anew for each, ≈ 600 requests, ≈ {apart.tokens_fresh.value:,} tokens, ≈ " in told
    assert "instead: all at once, on one KV, ≈ 800 requests, " in told
    assert "estimate: 400 rows, 400 inputs, ≈ 200 TRUE" in told  # the first is asked of all rows, whatever is answered
    assert "estimate: ≈ 400 rows" in told  # the second where the first is supposed to be TRUE
