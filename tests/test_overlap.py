"""Two batches in flight: while the engine computes one, the host keeps the answers of the one before and plans the next.

The engine here is the mock behind a device that has a clock of its own: time passes where the host works and where it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import pytest

from quail_engine import QuailError, Session, Settings
from quail_engine.batching.batch import Batch
from quail_engine.engine import mock
from quail_engine.engine.base import Scored
from quail_engine.progress import Answered
from quail_engine.prompts.request import Logits

ROWS = 300
COMPUTE, PLAN, KEEP = 10.0, 2.0, 3.0
CALL = "AI_FILTER('does it say ''1''?', i || ' is note ' || i)"
SQL = f"create or replace table t as select i, {CALL} as f from range({ROWS}) r(i)"


class Device:
    """What all engines of a test share: the clock, and what happened in what order."""

    def __init__(self) -> None:
        self.now = 0.0
        self.free_at = 0.0
        self.log: list[tuple[str, int]] = []
        self.on_submit: Callable[[int], None] = lambda number: None
        self.on_wait: Callable[[int], None] = lambda number: None

    def numbers(self, what: str) -> list[int]:
        return [number for name, number in self.log if name == what]


@dataclass(frozen=True)
class Underway:
    device: Device
    number: int
    done_at: float
    found: list[Logits]

    def logits(self) -> list[Logits]:
        self.device.on_wait(self.number)
        self.device.now = max(self.device.now, self.done_at)
        self.device.log.append(("taken", self.number))
        return self.found


class DeviceMock(mock.MockEngine):
    in_flight = 2
    of: Device

    def submit(self, batch: Batch) -> Any:
        device, number = self.of, len(self.of.numbers("submitted"))
        device.log.append(("submitted", number))
        device.on_submit(number)
        device.now += PLAN
        device.free_at = max(device.now, device.free_at) + COMPUTE
        return Underway(device, number, device.free_at, self.score(batch))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()
    monkeypatch.setattr(mock, "MockEngine", type("Ahead", (DeviceMock,), {"of": device}))
    monkeypatch.setattr("quail_engine.owner.time.perf_counter", lambda: device.now)
    return device


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@pytest.fixture
def session(database: duckdb.DuckDBPyConnection, device: Device) -> Iterator[Session]:
    def kept(event: object) -> None:
        nonlocal done
        if isinstance(event, Answered) and event.done > done:
            device.now += KEEP
            done = event.done

    done = 0

    session = Session(Settings.of({"engine": "mock", "token_budget": 1_000, "sample_rows": 0}), listener=kept)
    session.register(database)
    yield session
    assert not session._owner._flights
    assert not session._owner._pieces
    session.close()


def assert_right(database: duckdb.DuckDBPyConnection) -> None:
    assert database.execute("from t order by i").fetchall() == [(i, "1" in str(i)) for i in range(ROWS)]


def test_what_the_host_does_is_hidden(session: Session, database: duckdb.DuckDBPyConnection, device: Device) -> None:
    report = session.execute(database, SQL)
    batches = len(device.numbers("taken"))
    assert batches > 4
    assert report.asked == ROWS
    # All that the device waits for is the first plan; all that is left when it is done, to keep the last answers.
    assert device.now == PLAN + batches * COMPUTE + KEEP
    # The device was waited for as long as it computed; the first batch was planned in that time, too.
    assert report.seconds_engine == pytest.approx(PLAN + batches * COMPUTE)
    assert_right(database)


def test_an_engine_that_computes_on_the_host_has_one_batch_at_a_time(
    session: Session, database: duckdb.DuckDBPyConnection, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeviceMock, "in_flight", 1)
    session.execute(database, SQL)
    batches = len(device.numbers("taken"))
    assert device.now == batches * (PLAN + COMPUTE + KEEP)
    assert device.log == [(what, number) for number in range(batches) for what in ("submitted", "taken")]


def test_the_next_batch_is_launched_before_the_first_is_waited_for(
    session: Session, database: duckdb.DuckDBPyConnection, device: Device
) -> None:
    session.execute(database, SQL)
    batches = len(device.numbers("taken"))
    assert device.numbers("submitted") == device.numbers("taken") == list(range(batches))
    for number in range(batches - 1):
        assert device.log.index(("submitted", number + 1)) < device.log.index(("taken", number))
        later = ("submitted", number + 2)
        assert later not in device.log or device.log.index(later) > device.log.index(("taken", number))


def failing(number: int, error: BaseException) -> Callable[[int], None]:
    def fail(reached: int) -> None:
        if reached == number:
            raise error

    return fail


@pytest.mark.parametrize("where", ["on_submit", "on_wait"])
def test_a_batch_that_fails_takes_none_of_the_answers_beside_it_along(
    where: str, session: Session, database: duckdb.DuckDBPyConnection, device: Device
) -> None:
    setattr(device, where, failing(2, MemoryError()))
    with pytest.raises(QuailError, match="mock ran out of memory at a batch of"):
        session.execute(database, SQL)
    # A batch that failed on the device had one behind it by then.
    assert device.numbers("taken") == ([0, 1] if where == "on_submit" else [0, 1, 3])
    setattr(device, where, lambda number: None)
    report = session.execute(database, SQL)
    assert 0 < report.recalled < ROWS
    assert (report.asked, report.failed) == (ROWS - report.recalled, 0)
    assert_right(database)


@pytest.mark.parametrize("where", ["on_submit", "on_wait"])
def test_ctrl_c_keeps_what_is_in_flight(
    where: str, session: Session, database: duckdb.DuckDBPyConnection, device: Device
) -> None:
    reached: list[int] = []

    def interrupt(number: int) -> None:
        if number == 2 and not reached:
            reached.append(number)
            raise KeyboardInterrupt

    setattr(device, where, interrupt)
    with pytest.raises(KeyboardInterrupt):
        session.execute(database, SQL)
    assert device.numbers("taken") == ([0, 1] if where == "on_submit" else [0, 1, 2, 3])
    assert not session._owner._places
    report = session.execute(database, SQL)
    assert report.asked == ROWS - report.recalled > 0
    assert_right(database)


def test_a_budget_stops_a_batch_later(session: Session, database: duckdb.DuckDBPyConnection, device: Device) -> None:
    with pytest.raises(QuailError, match=r"max_seconds"):
        session.execute(database, SQL, overrides={"max_seconds": {"statement": COMPUTE}})
    assert device.numbers("taken") == [0, 1]
    answered = session.execute(database, SQL).recalled
    assert 0 < answered < ROWS, "both are kept"


def test_scored_batches_have_their_logits() -> None:
    assert Scored([]).logits() == []
