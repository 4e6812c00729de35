"""Budgets of a statement, a model and a run; and asking again on demand."""

from __future__ import annotations

import math
import re
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

import quail_engine
from quail_engine import Answered, BudgetError, Event, Session, SettingsError, Warned, waiting
from quail_engine.engine.mock import MockEngine
from quail_engine.settings import Budget, Settings

ROWS = "from range({}) r(i)"


def connect(**settings: Any) -> quail_engine.Connection:
    return quail_engine.connect(engine="mock", **settings)


def ask(con: quail_engine.Connection, question: str, rows: int, **options: Any) -> int:
    """Asks about that many texts; gives the number of requests."""
    con.sql(f"select AI_FILTER('{question}', 'text ' || i) {ROWS.format(rows)}", **options)
    return con.report.asked


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (5, Budget(5.0)),
        ({"run": 7, "model": 6}, Budget(100_000, 6, 7)),
        ({"statement": None}, Budget(None)),
        (None, Budget(100_000)),
    ],
)
def test_a_budget_is_a_number_or_a_mapping(value: Any, wanted: Budget) -> None:
    assert Settings.of({"max_requests": value}).max_requests == wanted


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"statment": 5}, r"max_tokens has no part 'statment' \(did you mean 'statement'\?\). Known: statement, model, run"),
        ("5", r"not '5', which is a text: in dbt write {{ … \| as_number }}"),
        ({"run": "much"}, "max_tokens must be a number 0 or more, or such numbers by statement, model, run, not 'much'"),
        (True, "not True"),
        (float("nan"), "not nan"),
    ],
)
def test_a_wrong_budget_is_refused(value: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Settings.of({"max_tokens": value})


def test_a_run_is_everything_that_a_connection_asks() -> None:
    with connect(max_requests={"run": 50}) as con:
        assert ask(con, "one", 30) == 30
        with pytest.raises(
            BudgetError, match=r"asking 30 .*, after 30 requests so far, would take this run over .*\(50\)"
        ) as caught:
            ask(con, "two", 30)
        assert "nothing of it was asked" in str(caught.value)
        assert "`max_requests: {run: 60}`" in str(caught.value)
        assert "in the model's config" not in str(caught.value)  # a run is of many models
        assert ask(con, "one", 30) == 0  # what is known costs nothing
        assert ask(con, "three", 20) == 20


def test_of_a_sample_the_refusal_says_what_the_sample_asks() -> None:
    with connect(max_requests=20, sample=0.5) as con, pytest.raises(BudgetError, match=r"asking 30 \([^)]*\) would take this"):
        ask(con, "one", 30)


def test_tokens_are_marked_where_they_follow_from_those_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    session = Session(Settings.of({"engine": "mock", "sample": 0.5}), lambda event: told.append(str(event)))
    session.register(cursor := duckdb.connect())
    for rows in (16_384, 7):  # of a part
        monkeypatch.setattr(waiting, "ASKED_ROWS", rows)
        session.execute(cursor, f"select AI_FILTER('of {rows}', md5(i::varchar)) from range(30) r(i)")
    session.close()
    whole, part = (line for line in told if line.startswith("asking"))
    assert re.match(r"asking 30 \(\dk tokens, ≈ .*; a sample of 0.5 .* asking ≈ 60 \(≈ \dk tokens, ≈ ", whole)
    assert part.startswith("asking 30 (≈ ")


def test_what_is_left_is_told_by_the_clock() -> None:
    events: list[Event] = []
    session = Session(Settings.of({"engine": "mock", "token_budget": 200}), events.append)
    session.register(con := duckdb.connect())
    session.execute(con, "select AI_FILTER('one', md5(i::varchar)) from range(30) r(i)")
    session.close()
    told = [event for event in events if isinstance(event, Answered)]
    assert len(told) > 1
    # Rendering and keeping take their time, too.
    assert all(event.elapsed > event.seconds for event in told)
    assert [event.elapsed for event in told] == sorted(event.elapsed for event in told)


def test_a_model_is_the_statements_of_one_node() -> None:
    session = Session(Settings.of({"engine": "mock", "max_requests": {"model": 40}}), lambda event: None)
    with_nodes = quail_engine.connect(engine="mock")._connection
    session.register(with_nodes)

    def ask_as(node: str, question: str, **overrides: Any) -> int:
        text = f"select AI_FILTER('{question}', 'text ' || i) {ROWS.format(30)}"
        return session.execute(with_nodes, text, node=node, overrides=overrides).asked

    assert ask_as("a", "one") == 30
    assert ask_as("b", "two") == 30
    with pytest.raises(BudgetError, match="would take this model over the setting max_requests"):
        ask_as("a", "three")
    assert ask_as("a", "three", max_requests=70) == 30
    with pytest.raises(BudgetError, match=r"would take this model over the setting max_requests \(20\)"):
        ask_as("c", "four", max_requests=20)
    session.start_run()
    assert ask_as("a", "five") == 30
    session.close()


def test_each_statement_of_a_text_has_its_own_budget() -> None:
    with connect(max_requests=30) as con:
        con.sql("; ".join(f"create table t{n} as select AI_FILTER('q{n}', i::varchar) a {ROWS.format(30)}" for n in range(3)))
        assert con.report.asked == 90


def test_tokens_are_estimated_before_the_first_request() -> None:
    with connect(max_tokens=1_000) as con:
        with pytest.raises(BudgetError, match=r"would take this statement over the setting max_tokens \(1,000\)"):
            ask(con, "one", 500)
        assert con.report.tokens_fresh == 0
        assert ask(con, "one", 10) == 10


def test_what_is_reached_while_running_keeps_the_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    score = MockEngine.score
    clock = [0.0]

    def slow(self: MockEngine, batch: Any) -> Any:
        clock[0] += 2.0
        return score(self, batch)

    monkeypatch.setattr(MockEngine, "score", slow)
    monkeypatch.setattr("quail_engine.owner.time.perf_counter", lambda: clock[0])
    settings: dict[str, Any] = {"answers": str(tmp_path), "token_budget": 200}
    with connect(max_seconds=5, **settings) as con:
        con.sql("create table t as select 1 as old")
        with pytest.raises(
            BudgetError, match=r"This statement has reached the setting max_seconds \(5\): (\d+) of 200"
        ) as caught:
            con.sql(f"create or replace table t as select AI_FILTER('q', md5(i::varchar)) {ROWS.format(200)}")
        done = int(str(caught.value).split(": ")[1].split(" ")[0])
        assert 0 < done < 200
        assert con.sql("from t").to_pylist() == [{"old": 1}]
    with connect(max_seconds=None, **settings) as con:
        con.sql(f"select AI_FILTER('q', md5(i::varchar)) {ROWS.format(200)}")
        assert con.report.asked == 200 - done


def test_refresh_asks_once_more_in_a_run_and_says_what_it_costs(tmp_path: Path) -> None:
    settings = Settings.of({"engine": "mock", "answers": str(tmp_path)})
    with quail_engine.connect(settings=settings) as con:
        assert ask(con, "q", 40) == 40
        assert ask(con, "q", 40, refresh=True) == 0  # answered since this connection was made
    said: list[Event] = []
    session = Session(settings, said.append)
    cursor = quail_engine.connect(engine="mock")._connection
    session.register(cursor)
    text = f"select AI_FILTER('q', 'text ' || i) {ROWS.format(50)}"
    assert session.execute(cursor, text, refresh=True).asked == 50
    (warning,) = [str(event) for event in said if isinstance(event, Warned)]
    assert warning.startswith("mock: a refresh would re-ask 40 inputs that have an answer (≈ ")
    assert session.execute(cursor, text, refresh=True).asked == 0
    session.start_run()
    assert session.execute(cursor, text).asked == 0
    assert session.execute(cursor, text, refresh=True).asked == 50
    session.close()


def test_refresh_replaces_what_is_stored(tmp_path: Path) -> None:
    text = "select AI_SCORE('q', 'a word') s"
    with connect(answers=str(tmp_path), mock_margin={"word": 1.0}) as con:
        before = con.sql(text).to_pylist()
    with connect(answers=str(tmp_path), mock_margin={"word": -1.0}) as con:
        assert con.sql(text).to_pylist() == before
        assert con.sql(text, refresh=True).to_pylist() != before
        after = con.sql(text).to_pylist()
    with connect(answers=str(tmp_path)) as con:
        assert con.sql(text).to_pylist() == after
        assert con.report.asked == 0


def test_an_interrupted_refresh_goes_on_from_its_moment(tmp_path: Path) -> None:
    settings = Settings.of({"engine": "mock", "answers": str(tmp_path)})
    with quail_engine.connect(settings=settings) as con:
        assert ask(con, "q", 40) == 40
    said: list[Event] = []
    session = Session(settings, said.append)
    with duckdb.connect() as cursor:
        session.register(cursor)
        text = f"select AI_FILTER('q', 'text ' || i) {ROWS}"
        assert session.execute(cursor, text.format(15), refresh=True).asked == 15  # and here it is cut off
        session.close()
    (warning,) = [str(event) for event in said if isinstance(event, Warned)]
    moment = re.search(r"quail_refresh: '(.*?)' in place of true goes on", warning)
    assert moment
    with quail_engine.connect(settings=settings) as con:
        assert ask(con, "q", 40, refresh=datetime.fromisoformat(moment[1])) == 25
        assert ask(con, "q", 40, refresh=datetime.fromisoformat(moment[1])) == 0


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_a_refresh_replaces_answers_from_a_clock_that_was_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sealed: bool, shared: bool
) -> None:
    """Each refresh asks once, and its answers count from then on, though the clock says that they are older."""
    year, now = 365 * 86_400 * 10**9, time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + year)
    first = str(tmp_path / "first")
    with connect(answers=first, mock_margin={"word": 1.0}) as con:
        con.sql(text := "select AI_SCORE('q', 'a word') s")
        if sealed:
            con._session._store.compact()
    monkeypatch.setattr(time, "time_ns", now)
    own = {"path": str(tmp_path / "own"), "shared": [first]} if shared else first
    for margin in (2.0, 3.0):
        with connect(answers=own, mock_margin={"word": margin}) as con:
            score = con.sql(text, refresh=True).to_pylist()
            assert con.report.asked == 1
            assert con.sql(text, refresh=True).to_pylist() == score
            assert con.report.asked == 0
        with connect(answers=own) as con:
            assert con.sql(text).to_pylist() == score
            assert con.report.asked == 0
            assert score[0]["s"] == pytest.approx(1 / (1 + math.exp(-margin)))


def test_a_read_only_store_asks_once_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(answers=str(tmp_path)) as con:
        assert ask(con, "q", 10) == 10
    with connect(answers={"path": str(tmp_path), "mode": "read_only"}) as con:
        assert ask(con, "q", 30) == 20
        assert ask(con, "q", 30) == 0
        assert ask(con, "q", 30, refresh=True) == 10  # the others were asked since this connection was made
        assert ask(con, "q", 30, refresh=True) == 0
        monkeypatch.setattr("quail_engine.answers.store.READ_ONLY_ANSWERS", 30)
        assert ask(con, "other", 1) == 1
        assert ask(con, "q", 30) == 15  # 31 were in memory, and the older half has gone
    with connect(answers=str(tmp_path)) as con:
        assert ask(con, "q", 10) == 0
        assert ask(con, "q", 30) == 20, "nothing was written"
