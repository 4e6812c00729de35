"""Statements of several threads in one session share batches and answers, and what stops one leaves the others alone."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest
from planner.text_first import put_texts_first

from quail_engine import BudgetError, QuailError, Session, Settings
from quail_engine.batching.batch import Batch
from quail_engine.engine.mock import MockEngine

THREADS, ROWS = 6, 200
PATIENCE = 300.0  # seconds until something is said to hang; nothing is measured here


class Gate:
    """Lets batches through once it is open, and counts their requests."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()
        self.asked = 0
        self.batches: list[set[int]] = []  # the notes that each is about
        self.seconds = 0.0  # by the engine's clock

    def until_handed_in(self, session: Session, statements: int) -> None:
        """Waits until so many statements have requests at the engine."""
        ends = time.monotonic() + PATIENCE
        while sum(place.handed is not None for place in session._owner._places) < statements:
            assert time.monotonic() < ends
            time.sleep(0.005)

    def until_waited(self, session: Session, statements: int) -> None:
        """Waits until so many statements know what they ask and what others ask."""
        ends = time.monotonic() + PATIENCE
        while sum(bool(place.claimed or place.awaited) for place in session._owner._places) < statements:
            assert time.monotonic() < ends
            time.sleep(0.005)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate, score = Gate(), MockEngine.score

    def held(engine: MockEngine, batch: Batch) -> Any:
        gate.reached.set()
        assert gate.open.wait(PATIENCE)
        gate.asked += len(batch.reads)
        texts = "".join(chr(token) for node in batch.nodes for token in node.ids)
        gate.batches.append({int(number) for number in re.findall(r"note (\d+)", texts)})
        gate.seconds += 1.0
        return score(engine, batch)

    monkeypatch.setattr(MockEngine, "score", held)
    return gate


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@pytest.fixture
def session(database: duckdb.DuckDBPyConnection) -> Iterator[Session]:
    session = Session(Settings.of({"engine": "mock", "token_budget": 2_000}), listener=lambda event: None)
    session.register(database)
    yield session
    session.close()


def _sql(start: int, stop: int) -> str:
    call = "AI_FILTER('does it say ''1''?', i || ' is note ' || i)"  # what texts begin with in common is asked once
    return f"create table t{start} as select i, {call} as f from range({start}, {stop}) r(i)"


def test_what_several_statements_ask_is_asked_once(session: Session, database: duckdb.DuckDBPyConnection, gate: Gate) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        runs = [pool.submit(session.execute, database.cursor(), _sql(10 * t, 10 * t + ROWS)) for t in range(THREADS)]
        assert gate.reached.wait(PATIENCE)
        gate.open.set()
        reports = [run.result() for run in runs]
    distinct = ROWS + 10 * (THREADS - 1)
    assert gate.asked == sum(report.asked for report in reports) == distinct
    assert sum(report.recalled for report in reports) == THREADS * ROWS - distinct
    for t in range(THREADS):
        rows = database.execute(f"from t{10 * t} order by i").fetchall()
        assert rows == [(i, "1" in str(i)) for i in range(10 * t, 10 * t + ROWS)]


@pytest.mark.parametrize("mode", ["off", "read_only"])
def test_what_is_asked_is_asked_once_without_a_store(
    database: duckdb.DuckDBPyConnection, gate: Gate, tmp_path: Path, mode: str
) -> None:
    answers = {"path": str(tmp_path), "mode": mode}
    session = Session(Settings.of({"engine": "mock", "token_budget": 2_000, "answers": answers}), listener=lambda event: None)
    session.register(database)
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(session.execute, database.cursor(), _sql(0, ROWS))]
        assert gate.reached.wait(PATIENCE)
        runs += [pool.submit(session.execute, database.cursor(), _sql(start, start + ROWS)) for start in (50, 100)]
        gate.until_waited(session, 3)
        gate.open.set()
        reports = [run.result() for run in runs]
    assert gate.asked == sum(report.asked for report in reports) == ROWS + 100
    assert sum(report.recalled for report in reports) == 2 * ROWS - 100
    for start in (0, 50, 100):
        rows = database.execute(f"from t{start} order by i").fetchall()
        assert rows == [(i, "1" in str(i)) for i in range(start, start + ROWS)]
    again = session.execute(database.cursor(), f"create or replace {_sql(0, ROWS).removeprefix('create')}")
    assert again.asked == (ROWS if mode == "off" else 0)
    session.close()


def test_a_cancelled_statement_leaves_the_others_alone(
    session: Session, database: duckdb.DuckDBPyConnection, gate: Gate
) -> None:
    many = 5 * ROWS  # a thread that gets no time may hear of it some batches late
    cancelled = [threading.Event(), threading.Event()]
    with ThreadPoolExecutor(3) as pool:
        running = pool.submit(session.execute, database.cursor(), _sql(0, many), cancelled=cancelled[0])
        assert gate.reached.wait(PATIENCE)
        waiting = pool.submit(session.execute, database.cursor(), _sql(1_000, 1_000 + ROWS), cancelled=cancelled[1])
        other = pool.submit(session.execute, database.cursor(), _sql(2_000, 2_000 + ROWS))
        cancelled[1].set()  # one that waits for the model goes at once, while another has it
        with pytest.raises(QuailError, match="cancelled"):
            waiting.result(timeout=PATIENCE)
        assert not running.done()
        cancelled[0].set()  # the one that has it goes after its batch
        gate.open.set()
        with pytest.raises(QuailError, match="cancelled"):
            running.result(timeout=PATIENCE)
        report = other.result(timeout=PATIENCE)
    assert report.asked == ROWS
    assert {name for (name,) in database.execute("select table_name from duckdb_tables()").fetchall()} == {"t2000"}
    again = session.execute(database.cursor(), _sql(0, many))
    kept = gate.asked - ROWS - again.asked
    assert 0 < kept < many, "the batch in flight was kept"
    assert again.recalled == kept


def _both(gate: Gate) -> list[set[int]]:
    """Batches that are about notes of two statements, one of which has those from 1,000 on."""
    return [notes for notes in gate.batches if min(notes) < 1_000 <= max(notes)]


def test_statements_share_batches_and_a_small_one_does_not_wait_for_a_big_one(
    session: Session, database: duckdb.DuckDBPyConnection, gate: Gate
) -> None:
    with ThreadPoolExecutor(2) as pool:
        big = pool.submit(session.execute, database.cursor(), _sql(0, 5 * ROWS))
        assert gate.reached.wait(PATIENCE)
        small = pool.submit(session.execute, database.cursor(), _sql(1_000, 1_010))
        gate.until_handed_in(session, 2)
        gate.open.set()
        assert (big.result(timeout=PATIENCE).asked, small.result(timeout=PATIENCE).asked) == (5 * ROWS, 10)
    assert gate.asked == 5 * ROWS + 10
    assert _both(gate) == gate.batches[1:2], "the small one has all of its answers in the next batch"
    assert {number for notes in gate.batches for number in notes} == {*range(5 * ROWS), *range(1_000, 1_010)}


def test_an_error_of_the_engine_reaches_each_statement_of_the_batch(
    session: Session, database: duckdb.DuckDBPyConnection, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = MockEngine.score

    def broken(engine: MockEngine, batch: Batch) -> Any:
        logits = held(engine, batch)
        if len(gate.batches) == 2:
            raise MemoryError
        return logits

    monkeypatch.setattr(MockEngine, "score", broken)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(session.execute, database.cursor(), _sql(0, ROWS))]
        assert gate.reached.wait(PATIENCE)
        runs.append(pool.submit(session.execute, database.cursor(), _sql(1_000, 1_000 + ROWS)))
        gate.until_handed_in(session, 2)
        gate.open.set()
        for run in runs:
            with pytest.raises(QuailError, match="mock ran out of memory at a batch of"):
                run.result(timeout=PATIENCE)
    assert _both(gate) == gate.batches[1:] != []
    for start, stored in ((0, len(gate.batches[0])), (1_000, 0)):
        report = session.execute(database.cursor(), _sql(start, start + ROWS))
        assert (report.asked, report.recalled) == (ROWS - stored, stored)
        assert database.execute(f"from t{start} order by i").fetchall() == [
            (i, "1" in str(i)) for i in range(start, start + ROWS)
        ]


def test_a_budget_stops_its_statement_only(
    session: Session, database: duckdb.DuckDBPyConnection, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quail_engine.owner.time.perf_counter", lambda: gate.seconds)
    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(session.execute, database.cursor(), _sql(0, ROWS))
        assert gate.reached.wait(PATIENCE)
        limits = {"max_seconds": {"statement": 0.3}}
        stopped = pool.submit(session.execute, database.cursor(), _sql(1_000, 1_000 + 3 * ROWS), overrides=limits)
        gate.until_handed_in(session, 2)
        gate.open.set()
        with pytest.raises(BudgetError, match=r"max_seconds \(0.3\): \d+ of 600 requests were answered"):
            stopped.result(timeout=PATIENCE)
        assert other.result(timeout=PATIENCE).asked == ROWS
    report = session.execute(database.cursor(), _sql(1_000, 1_000 + 3 * ROWS))
    assert 0 < report.recalled < 3 * ROWS
    assert report.asked == 3 * ROWS - report.recalled
    assert gate.asked == 4 * ROWS, "what was asked was kept"


def test_rounds_in_flight_count_towards_a_run_s_budget(database: duckdb.DuckDBPyConnection, gate: Gate) -> None:
    settings = Settings.of({"engine": "mock", "token_budget": 2_000, "max_requests": {"run": 300}})
    session = Session(settings, listener=lambda event: None)
    session.register(database)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(session.execute, database.cursor(), _sql(0, ROWS))
        assert gate.reached.wait(PATIENCE)
        with pytest.raises(BudgetError, match="after 200 requests so far, would take this run over"):
            session.execute(database.cursor(), _sql(1_000, 1_000 + ROWS))
        same = pool.submit(session.execute, database.cursor(), _sql(10, ROWS))  # what another one asks costs nothing
        time.sleep(0.1)
        gate.open.set()
        assert first.result(timeout=PATIENCE).asked == ROWS
        assert (same.result(timeout=PATIENCE).asked, same.result().recalled) == (0, ROWS - 10)
    session.close()


def test_many_statements_of_eight_threads(session: Session, database: duckdb.DuckDBPyConnection, gate: Gate) -> None:
    gate.open.set()
    starts = [[1_000 * thread + 40 * turn for turn in range(6)] for thread in range(8)]

    def work(thread: int) -> int:
        cursor = database.cursor()
        return sum(session.execute(cursor, _sql(start, start + 60)).asked for start in starts[thread])

    with ThreadPoolExecutor(8) as pool:
        asked = sum(pool.map(work, range(8)))
    assert asked == gate.asked == 8 * (5 * 40 + 60)
    for start in [start for thread in starts for start in thread]:
        rows = database.execute(f"from t{start} order by i").fetchall()
        assert rows == [(i, "1" in str(i)) for i in range(start, start + 60)]
    assert not session._owner._claimed
    assert not session._owner._places


def _both_of(start: int, stop: int) -> str:
    first, second = (f"AI_FILTER('does it say ''{digit}''?', i || ' is note ' || i)" for digit in (1, 2))
    return f"create table t{start} as select i from range({start}, {stop}) r(i) where {first} and {second}"


def test_conditions_that_wait_for_each_other_in_several_statements(
    session: Session, database: duckdb.DuckDBPyConnection, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_texts_first(monkeypatch)
    overrides = {"sample_rows": 0}
    with ThreadPoolExecutor(3) as pool:
        starts = (0, 100, 150)
        runs = []
        for number, start in enumerate(starts):
            sql = _both_of(start, start + ROWS)
            runs.append(pool.submit(session.execute, database.cursor(), sql, overrides=overrides))
            assert gate.reached.wait(PATIENCE)
            gate.until_waited(session, number + 1)
        gate.open.set()
        reports = [run.result(timeout=PATIENCE) for run in runs]
    told = [{i for i in range(start, start + ROWS) if "1" in str(i)} for start in starts]
    for start, ones in zip(starts, told, strict=True):
        rows = database.execute(f"from t{start} order by i").fetchall()
        assert rows == [(i,) for i in sorted(ones) if "2" in str(i)]
    assert all("on its KV" in report.plan for report in reports)
    assert gate.asked == sum(report.asked for report in reports) == 350 + len(set().union(*told))
    assert not session._owner._claimed


def test_a_cancelled_cascade_keeps_its_answers(
    session: Session, database: duckdb.DuckDBPyConnection, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_texts_first(monkeypatch)
    cancelled = threading.Event()
    overrides = {"sample_rows": 0}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            session.execute, database.cursor(), _both_of(0, 5 * ROWS), cancelled=cancelled, overrides=overrides
        )
        assert gate.reached.wait(PATIENCE)
        cancelled.set()
        gate.open.set()
        with pytest.raises(QuailError, match="cancelled"):
            running.result(timeout=PATIENCE)
    kept = gate.asked
    report = session.execute(database.cursor(), _both_of(0, 5 * ROWS), overrides=overrides)
    ones = sum("1" in str(i) for i in range(5 * ROWS))
    assert 0 < kept < 5 * ROWS
    assert report.asked + kept == gate.asked == 5 * ROWS + ones
