"""Why rows have no answer: recorded without their text, listed until they are answered, asked again, and kept small."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from answer_cases import Open, Q, key, rows
from click.testing import CliRunner

import quail_engine
from quail_engine.answers import AnswerStore, failures
from quail_engine.answers.failures import Failure, FailureLog
from quail_engine.cli import main
from quail_engine.settings import AnswersSettings

TEXTS = "(values (1, 'fine'), (2, 'boom a'), (3, 'boom b'), (4, repeat('long ', 400000)), (5, null)) t(id, body)"
QUESTION = f"create or replace table m as select id, AI_FILTER('Mentions ''fine''?', body) as a from {TEXTS}"


def connect(folder: Path, **settings: Any) -> quail_engine.Connection:
    return quail_engine.connect(engine="mock", answers=str(folder), max_error_ratio=1.0, **settings)


def errors(folder: Path, *options: str) -> str:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(main, ["answers", "--path", str(folder), "--mock", "errors", *options])
    assert done.exit_code == 0, done.output
    return done.output


def store(folder: Path) -> AnswerStore:
    return AnswerStore(AnswersSettings(str(folder)), "mock")


def test_failed_and_overlong_rows_are_listed_until_they_are_answered(tmp_path: Path) -> None:
    with connect(tmp_path, mock_fail="boom") as con:
        con.sql(QUESTION)
        assert (con.report.asked, con.report.failed, con.report.overlong) == (3, 2, 1)
        con.sql(QUESTION)  # what failed is asked again, and only that
        assert (con.report.asked, con.report.failed, con.report.recalled) == (2, 2, 1)
    listed = store(tmp_path).failures()
    assert [(f.template, f.model, f.reason, len(f.keys)) for f in listed] == [
        ("Mentions 'fine'? {0}", "mock", "the engine gave no finite number", 2),
        ("Mentions 'fine'? {0}", "mock", "too long: more than the 1,048,576 tokens that fit", 1),
    ]
    written = (tmp_path / "mock" / "failures.jsonl").read_bytes()
    assert b"boom" not in written
    assert b"long" not in written.replace(b"too long", b"")
    cells = [[cell.strip() for cell in line.split("│")] for line in errors(tmp_path).splitlines()]
    assert [line[3:5] for line in cells if len(line) > 5] == [[f.reason, str(len(f.keys))] for f in listed]
    assert "too long" not in errors(tmp_path, "--prompt", "fine", "--rows", "1")
    assert f"no errors in {tmp_path}/mock; --path names another store" in errors(tmp_path, "--prompt", "another")

    with connect(tmp_path, on_overlong="truncate") as con:
        con.sql(QUESTION)
        assert (con.report.asked, con.report.failed, con.report.recalled) == (3, 0, 1)
        assert con.sql("select a from m order by id").column("a").to_pylist() == [True, False, False, False, None]
    assert store(tmp_path).failures() == []
    assert "no errors" in errors(tmp_path)


def test_a_list_that_is_no_choice_is_a_reason(tmp_path: Path) -> None:
    with connect(tmp_path) as con:
        con.sql("select AI_CLASSIFY(t, l) from (values ('a cat', ['cat', 'dog']), ('a', ['x'])) v(t, l)")
    (failure,) = store(tmp_path).failures()
    assert failure.reason == "its labels are no list of two or more different ones"


def test_who_asked_is_told(open_store: Open) -> None:
    one = open_store()
    one.remember_failures(Q, "t", [key("a"), key("b")], "no", "m", "model.p.first")
    one.remember_failures(Q, "t", [key("b")], "why", "m", "model.p.second")
    assert [(f.node, f.reason, f.keys) for f in open_store().failures()] == [
        ("model.p.second", "why", (key("b"),)),
        ("model.p.first", "no", (key("a"),)),
    ]
    one.remember(Q, "t", [(key("a"), rows(0, 1)[0][1])])
    assert [f.keys for f in one.failures()] == [(key("b"),)]


@pytest.mark.parametrize("mode", ["read_only", "off"])
def test_a_store_that_writes_nothing_lists_nothing(open_store: Open, tmp_path: Path, mode: str) -> None:
    open_store(mode).remember_failures(Q, "t", [key("a")], "no")
    assert not (tmp_path / "answers").exists()
    assert open_store(mode).failures() == []


def test_clearing_forgets_the_failures_it_names(open_store: Open) -> None:
    store = open_store()
    for template, model in (("t", "m"), ("t", "n"), ("u", "m")):
        store.remember_failures(Q, template, [key(template + model)], "no", model)
    store.clear(template="t", model="m")
    assert sorted((f.template, f.model) for f in store.failures()) == [("t", "n"), ("u", "m")]
    store.clear(before=datetime.now(timezone.utc) - timedelta(days=1))
    assert len(store.failures()) == 2
    store.clear()
    assert store.failures() == []


def test_the_file_stays_small_and_keeps_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "MAX_BYTES", 10_000)
    log = FailureLog(tmp_path / "failures.jsonl")
    for time in range(100):
        log.append(Failure("t", "m", "no", "", time, (key(f"{time}a"), key(f"{time}b"))))
        assert log.path.stat().st_size <= 10_000
    times = [failure.time for failure in log.read()]
    assert times == sorted(times, reverse=True)
    assert times[0] == 99
    assert len(times) >= 20
    log.append(Failure("t", "m", "no", "", 100, tuple(key(str(i)) for i in range(1_000))))  # more than there is room for
    assert log.path.stat().st_size <= 5_000
    assert len(log.read()[0].keys) > 50


def test_a_torn_line_spoils_only_itself(tmp_path: Path) -> None:
    log = FailureLog(tmp_path / "failures.jsonl")
    log.append(Failure("t", "m", "no", "", 1, (key("a"),)))
    log.append(Failure("t", "m", "no", "", 2, (key("b"),)))
    log.path.write_bytes(log.path.read_bytes()[:-20])
    log.append(Failure("t", "m", "no", "", 3, (key("c"),)))
    assert [f.time for f in log.read()] == [3, 1]


def test_writers_do_not_lose_each_others_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "MAX_BYTES", 20_000)
    path = tmp_path / "failures.jsonl"

    def write(number: int) -> None:
        # The same few inputs again and again: rewriting drops repetitions, and nothing else.
        FailureLog(path).append(Failure("t", "m", "no", "", number, (key(str(number % 20)),)))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(400)))
    assert {k for failure in FailureLog(path).read() for k in failure.keys} == {key(str(i)) for i in range(20)}
