"""Statements of several threads in one session: equal requests are asked once, and a cancelled one leaves the others alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duckdb
import pytest

from quail_engine import QuailError, Session, Settings
from quail_engine.batching.batch import Batch
from quail_engine.engine.mock import MockEngine

THREADS, ROWS = 6, 200


class Gate:
    """Lets batches through once it is open, and counts their requests."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()
        self.asked = 0


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate, score = Gate(), MockEngine.score

    def held(engine: MockEngine, batch: Batch) -> Any:
        gate.reached.set()
        assert gate.open.wait(30)
        gate.asked += len(batch.reads)
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
    call = "AI_FILTER('does it say ''1''?', 'note ' || i)"
    return f"create table t{start} as select i, {call} as f from range({start}, {stop}) r(i)"


def test_what_several_statements_ask_is_asked_once(session: Session, database: duckdb.DuckDBPyConnection, gate: Gate) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        runs = [pool.submit(session.execute, database.cursor(), _sql(10 * t, 10 * t + ROWS)) for t in range(THREADS)]
        assert gate.reached.wait(30)
        gate.open.set()
        reports = [run.result() for run in runs]
    distinct = ROWS + 10 * (THREADS - 1)
    assert gate.asked == sum(report.asked for report in reports) == distinct
    assert sum(report.recalled for report in reports) == THREADS * ROWS - distinct
    for t in range(THREADS):
        rows = database.execute(f"from t{10 * t} order by i").fetchall()
        assert rows == [(i, "1" in str(i)) for i in range(10 * t, 10 * t + ROWS)]


def test_a_cancelled_statement_leaves_the_others_alone(
    session: Session, database: duckdb.DuckDBPyConnection, gate: Gate
) -> None:
    cancelled = [threading.Event(), threading.Event()]
    with ThreadPoolExecutor(3) as pool:
        running = pool.submit(session.execute, database.cursor(), _sql(0, ROWS), cancelled=cancelled[0])
        assert gate.reached.wait(30)
        waiting = pool.submit(session.execute, database.cursor(), _sql(1_000, 1_000 + ROWS), cancelled=cancelled[1])
        other = pool.submit(session.execute, database.cursor(), _sql(2_000, 2_000 + ROWS))
        cancelled[1].set()  # one that waits for the model goes at once, while another has it
        with pytest.raises(QuailError, match="cancelled"):
            waiting.result(timeout=10)
        assert not running.done()
        cancelled[0].set()  # the one that has it goes after its batch
        gate.open.set()
        with pytest.raises(QuailError, match="cancelled"):
            running.result(timeout=10)
        report = other.result(timeout=30)
    assert report.asked == ROWS
    assert {name for (name,) in database.execute("select table_name from duckdb_tables()").fetchall()} == {"t2000"}
    again = session.execute(database.cursor(), _sql(0, ROWS))
    kept = gate.asked - ROWS - again.asked
    assert 0 < kept < ROWS, "the batch in flight was kept"
    assert again.recalled == kept
