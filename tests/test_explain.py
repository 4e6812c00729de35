# ruff: noqa: E501 - SQL is easier to read on one line
"""EXPLAIN: what it counts is what is then asked, it asks nothing itself, and what nobody knows is unknown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pages import Page

import quail_engine
from quail_engine import waiting
from quail_engine.engine.mock import MockEngine

URGENT = "AI_FILTER(PROMPT('Does it say ''urgent''? {0}', body))"
ANGRY = "AI_FILTER(PROMPT('Does it say ''angry''? {0}', body))"
TICKETS = """
create table tickets as
select i as id, i % 4 as team, case when i % 3 = 0 then 'urgent ' when i % 3 = 1 then 'angry ' else 'calm ' end || i % 20 as body
from range(60) t(i);
create table teams as select i as team, 'angry 1' || i as about from range(4) t(i);
"""


@pytest.fixture
def con() -> Iterator[quail_engine.Connection]:
    with quail_engine.connect(engine="mock") as connection:
        connection.sql(TICKETS)
        yield connection


def calls(con: quail_engine.Connection, sql: str, **options: Any) -> list[dict[str, Any]]:
    (plan,) = con.explain(sql, format="json", **options)
    return [call for step in plan["steps"] for call in step["calls"]]


def value(call: dict[str, Any], name: str, of: str = "estimate") -> Any:
    figure = call[of][name]
    return None if figure is None else figure["value"]


# Statements in which no answer decides what is asked: their counts are exact.
CERTAIN = {
    "filter": f"select id from tickets where team = 3 and {URGENT}",
    "select": f"select id, {URGENT} as u, AI_SCORE('Is it angry?', body) as a from tickets",
    "classes": "select AI_CLASSIFY(body, ['urgent', 'angry']) as c, count(*) from tickets group by 1",
    "join": "select 1 from tickets t join teams m on t.team = m.team and AI_JOIN(PROMPT('{0} shares a word with {1}', t.body, m.about))",
    "constant": "select id, AI_FILTER('Is the sky blue?') from tickets",
    "same": f"select id, {URGENT} as u, {URGENT} as again from tickets",
    "labels": "select AI_CLASSIFY(body, l) as c from (select body, ['a', 'b' || team] as l from tickets)",
    "create": f"create table t as select id from tickets where {URGENT}",
    "update": f"update tickets set team = 9 where {URGENT}",
}


@pytest.mark.parametrize("name", CERTAIN)
def test_what_is_estimated_is_what_is_asked(con: quail_engine.Connection, name: str) -> None:
    found = calls(con, CERTAIN[name], analyze=True)
    assert found
    for call in found:
        for figure in ("rows", "inputs", "requests", "recalled", "tokens_fresh", "tokens_reused"):
            assert value(call, figure) == value(call, figure, "happened"), figure
            assert call["estimate"][figure]["source"] == "measured"
    asked = sum(value(call, "requests") for call in found if call["same_as"] is None)
    assert asked > 0


def test_estimating_asks_nothing_and_keeps_nothing(con: quail_engine.Connection, tmp_path: Path) -> None:
    with quail_engine.connect(engine="mock", answers=str(tmp_path / "answers")) as other:
        other.sql(TICKETS)
        before = other.sql("select table_name from duckdb_tables() where temporary").to_pylist()
        for sql in CERTAIN.values():
            other.explain(sql)
        assert not (tmp_path / "answers").exists()
        assert other.sql("select count(*) from tickets where team = 9").column(0).to_pylist() == [0]
        assert other.sql("select table_name from duckdb_tables() where temporary").to_pylist() == before
        assert other.report.asked == 0


def test_known_answers_are_recalled(con: quail_engine.Connection) -> None:
    sql = f"select id from tickets where {URGENT}"
    con.sql(f"select id from tickets where team = 1 and {URGENT}")
    asked = con.report.asked
    (call,) = calls(con, sql)
    assert value(call, "recalled") == asked
    assert value(call, "requests") == value(call, "inputs") - asked
    con.sql(sql)
    assert con.report.asked == value(call, "requests")
    (call,) = calls(con, sql)
    assert (value(call, "requests"), value(call, "tokens_fresh"), value(call, "seconds")) == (0, 0, 0)
    assert call["estimate"]["true"] == {"value": 20, "source": "measured"}


def test_numbers_that_answers_decide_say_so(con: quail_engine.Connection) -> None:
    sql = "select AI_SCORE('Is it rude?', body) from tickets where AI_FILTER(PROMPT('Does it say ''urgent''? {0}', body), {'selectivity': 0.25})"
    first, second = sorted(calls(con, sql), key=lambda call: call["level"])
    assert first["estimate"]["inputs"] == {"value": 60, "source": "measured"}
    assert first["estimate"]["true"] == {"value": 15, "source": "hinted"}
    assert first["selectivity"] == {"value": 0.25, "source": "hinted"}
    assert second["estimate"]["inputs"] == {"value": 15, "source": "hinted"}
    assert second["selectivity"] is None
    assert second["estimate"]["true"] is None
    assert con.explain(sql) == con.explain(sql)
    assert "≈ 15 requests" in con.explain(sql)


def test_only_what_was_counted_is_unmarked(con: quail_engine.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = f"select id from tickets where {URGENT}"
    happened = con.explain(sql, analyze=True).partition("happened:")[2]
    assert "≈" not in happened.partition("off by")[0]
    con.sql("update tickets set body = 'later ' || body")
    (call,) = calls(con, sql)
    assert call["estimate"]["tokens_fresh"]["source"] == "measured"
    assert call["estimate"]["seconds"]["source"] == "assumed", "the mock's rates are"
    # Rates that were measured still leave a time that is an estimate.
    rates = replace(MockEngine.roofline, machine=replace(MockEngine.roofline.machine, measured=True))
    monkeypatch.setattr(MockEngine, "roofline", rates)
    (call,) = calls(con, sql)
    assert call["estimate"]["seconds"]["source"] == "calculated"
    assert "≈ 0.00 s (calculated)" in con.explain(sql)
    # Of more than a part the tokens follow from those of the first one.
    monkeypatch.setattr(waiting, "ASKED_ROWS", 7)
    (call,) = calls(con, sql)
    assert {call["estimate"][name]["source"] for name in ("tokens_fresh", "tokens_reused", "seconds")} == {"sampled"}
    assert call["estimate"]["requests"] == {"value": 60, "source": "measured"}


def test_rows_of_conditions_in_an_order(con: quail_engine.Connection) -> None:
    found = calls(con, f"select id from tickets where {URGENT} and {ANGRY} and AI_FILTER('x', body)", analyze=True)
    for of in ("estimate", "happened"):
        met = [(value(call, "rows", of), value(call, "inputs", of), value(call, "true", of)) for call in found]
        assert sorted(met, reverse=True)[0][:2] == (60, 60)
        met.sort(reverse=True)
        assert [rows for rows, _, _ in met[1:]] == [true for _, _, true in met[:-1]]  # each where those before it are TRUE


@pytest.mark.parametrize("stop", ["limit 2", "order by id limit 2"])
def test_early_stops_are_in_the_numbers(con: quail_engine.Connection, stop: str) -> None:
    (call,) = calls(con, f"select id from tickets where {URGENT} {stop}")
    assert value(call, "requests") < 20
    assert call["estimate"]["requests"]["source"] == "assumed"


def test_the_share_of_known_answers_is_remembered(con: quail_engine.Connection) -> None:
    con.sql(f"select {URGENT} from tickets where id < 45")
    (call,) = calls(con, f"select id from tickets where {URGENT}")
    assert call["selectivity"] == {"value": pytest.approx(1 / 3), "source": "remembered"}
    assert call["estimate"]["true"] == {"value": 20, "source": "remembered"}


def test_analyze_puts_what_happened_beside_it(con: quail_engine.Connection) -> None:
    sql = f"select id from tickets where {URGENT} limit 5"
    (call,) = calls(con, sql, analyze=True)
    assert value(call, "requests", "happened") == 13
    assert value(call, "true", "happened") == 5
    wrong = value(call, "requests", "happened") / value(call, "requests")
    assert call["error_factor"]["requests"] == pytest.approx(max(wrong, 1 / wrong))
    text = con.explain(
        f"create table t as select id, {ANGRY} as a from tickets; select * from t where {ANGRY.replace('body', 'id::varchar')}",
        analyze=True,
    )
    assert text.count("happened:") == 2


def test_a_pair_tells_the_other_orientation(con: quail_engine.Connection) -> None:
    with quail_engine.connect(engine="mock") as other:
        other.sql(
            "create table a as select repeat('long ', 40) || i as x from range(10) t(i); create table b as select 'short ' || i as y from range(10) t(i)"
        )
        (call,) = calls(other, "select 1 from a join b on AI_JOIN(PROMPT('{0} shares a word with {1}', a.x, b.y))")
        (alternative,) = call["alternatives"]
        turned = "select 1 from a join b on AI_JOIN(PROMPT('{0} shares a word with {1}', a.x, b.y), {'anchor': 1})"
        assert value(calls(other, turned)[0], "tokens_fresh") == alternative["tokens_fresh"]["value"]


def test_sums_and_schema(con: quail_engine.Connection) -> None:
    (plan,) = con.explain(f"select {ANGRY} as a from tickets where {URGENT}", format="json")
    assert json.loads(json.dumps(plan)) == plan
    assert plan["version"] == 2
    assert set(plan) == {"version", "model", "layouts", "steps", "estimate", "happened", "choices", "notes"}
    assert plan["layouts"] == [{"model": "mock", "name": "mock/1", "shares": "questions"}]
    assert plan["happened"] is None
    counted = [call for step in plan["steps"] for call in step["calls"]]
    assert plan["estimate"]["requests"]["value"] == sum(value(call, "requests") for call in counted)
    assert plan["estimate"]["true"] is None
    assert plan["estimate"]["kv_bytes"] is None
    # The documentation's table names every key.
    documented = (Path(__file__).parent.parent / "docs" / "explain.md").read_text()
    assert {*plan, *plan["steps"][0], *counted[0], *plan["estimate"]} <= set(
        documented.replace("`", " ").replace(",", " ").split()
    )


@pytest.mark.parametrize("ask", [quail_engine.Connection.sql, quail_engine.Connection.explain])
def test_a_mistyped_function_is_named(con: quail_engine.Connection, ask: Callable[..., object]) -> None:
    with pytest.raises((duckdb.CatalogException, quail_engine.SqlError), match=r"Did you mean AI_FILTER\?"):
        ask(con, "select id from tickets where AI_FLITER('Is it urgent?', body)")
    con.sql("create macro ai_filters(x) as x")
    ask(con, "select ai_filters(id) from tickets")


def test_what_duckdb_refuses_is_told_with_its_place(con: quail_engine.Connection) -> None:
    with pytest.raises(duckdb.CatalogException, match=r"(?s)nowhere does not exist.*\n *\^{7}$"):
        con.explain(f"select id from nowhere where {URGENT}")


def test_unknown_is_said(con: quail_engine.Connection, tmp_path: Path) -> None:
    # A table that an earlier statement of the text would make is not there yet.
    later = f"create table soon as select body, {URGENT} as u from tickets; select * from soon where {ANGRY}"
    assert "Nothing is estimated. Catalog Error: Table with name soon does not exist" in con.explain(later)
    with quail_engine.connect(model=str(tmp_path / "absent"), answers=str(tmp_path / "answers")) as local:
        local.sql(TICKETS)
        (plan,) = local.explain(f"select id from tickets where {URGENT}", format="json")
        assert plan["estimate"] is None
        assert "absent" in plan["notes"][0]
        assert set(plan["steps"][0]["calls"][0]["estimate"].values()) == {None}
    assert con.explain("select 1") == "No AI calls: DuckDB runs this as it is."
    assert con.explain("select 1", format="json") == []
    with pytest.raises(quail_engine.QuailError, match="format"):
        con.explain("select 1", format="xml")


def test_sql_and_python_say_the_same(con: quail_engine.Connection) -> None:
    sql = CERTAIN["filter"]
    rows = con.sql(f"explain {sql}").to_pylist()
    assert rows[0]["explain_key"] == "quail_plan"
    assert rows[0]["explain_value"].splitlines()[-3:-1] == con.explain(sql).splitlines()[-3:-1]
    assert con.report.asked == 0


def test_a_transaction_stays_open_and_whole(con: quail_engine.Connection) -> None:
    con.sql("begin")
    con.sql("insert into tickets values (100, 3, 'urgent in a transaction')")
    (call,) = calls(con, f"select id from tickets where id >= 100 and {URGENT}")
    assert value(call, "rows") == 1
    # DuckDB ends the transaction, which a note of a plan must not hide.
    with pytest.raises(duckdb.CatalogException, match=r"(?s)nowhere does not exist.*\n *\^{7}$"):
        con.explain(f"select id from nowhere where {URGENT}")
    con.sql("rollback")
    assert con.sql("select count(*) from tickets").column(0).to_pylist() == [60]


@pytest.mark.parametrize("explain", [lambda con, sql: con.explain(sql), lambda con, sql: con.sql(f"explain {sql}")])
def test_what_ends_a_transaction_is_told(con: quail_engine.Connection, explain: Callable[..., object]) -> None:
    con.sql("begin")
    with pytest.raises(duckdb.ConversionException, match=r"(?s)to INT32.*\n *\^{17}$"):
        explain(con, f"select id from tickets where {URGENT} and AI_FILTER('x', cast(body as int))")
    con.sql("rollback")
    assert con.report.asked == 0


WRITES = {
    "insert": "insert into tickets select id, 9, body from tickets where {}",
    "insert in brackets": "insert into tickets (select id, 9, body from tickets where {})",
    "create": "create or replace table tickets as select id from tickets where {}",
    "view": "create view v as select id from tickets where {}",
    "copy": "copy (select id from tickets where {}) to 'never.csv'",
    "update": "update tickets set team = 9 where {}",
    "delete": "delete from tickets where {}",
    "merge": "merge into teams using (select * from tickets where {}) s on teams.team = s.team when matched then delete",
}


@pytest.mark.parametrize("name", WRITES)
def test_explain_of_what_writes(con: quail_engine.Connection, name: str) -> None:
    con.sql("begin")
    plan, theirs = con.sql(f"explain {WRITES[name].format(URGENT)}").to_pylist()
    assert "60 rows, 60 inputs" in plan["explain_value"]
    assert theirs["explain_key"] == "physical_plan"
    con.sql("commit")
    assert con.sql("select count(*) from tickets where team < 9").column(0).to_pylist() == [60]
    assert con.report.asked == 0
    assert not Path("never.csv").exists()


HOSTILE = "</title></pre><script>alert(1)</script><img src=x onerror=alert(2)> & \"quotes\" ''"


def test_the_page_is_one_file_and_shows_the_plan(con: quail_engine.Connection) -> None:
    sql = f"select AI_CLASSIFY(body, ['a<b', 'c&d']) as c from tickets where {URGENT} and AI_FILTER('{HOSTILE}', body)"
    html = con.explain(sql, format="html", analyze=True)
    page = Page(html)
    assert any("<img src=x onerror=alert(2)>" in text for text in page.texts)
    (picture,) = page.pictures
    drawn = [text.text for text in picture.iter("text")]
    assert [text for text in drawn if "AI_" in (text or "")] == [
        "Round, level 0: AI_FILTER",
        "Round, level 0: AI_FILTER",
        "Round, level 1: AI_CLASSIFY",
    ]
    columns, *rows = page.tables[0]
    (plan,) = con.explain(sql, format="json")
    requests = columns.index("requests")
    happened = [int(row[requests]) for row in rows if row[1] == "happened"]
    assert (
        sum(happened[:-1]) == happened[-1] == sum(value(call, "recalled") for step in plan["steps"] for call in step["calls"])
    )
    assert con.explain("select 1", format="html").count("DuckDB runs this as it is") == 1
