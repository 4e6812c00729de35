"""A full disk, short memory, a clock that jumps, a locked database: one message, and nothing is lost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

import quail_engine
from quail_engine import EngineError, QuailError
from quail_engine.answers import Answer, AnswerStore
from quail_engine.batching.batch import Batch
from quail_engine.engine.mock import MockEngine
from quail_engine.settings import AnswersSettings

ROWS = 400
# What texts begin with in common is prefilled once: these share little, so that there are several batches.
QUESTION = "select i, AI_FILTER('does it say ''1''?', i || ' is note ' || i) as f from range({}) r(i)"
TRUTH = [{"i": i, "f": "1" in str(i)} for i in range(ROWS)]


def _connect(folder: Path) -> quail_engine.Connection:
    return quail_engine.connect(folder / "dev.duckdb", engine="mock", answers=str(folder / "answers"), token_budget=1_000)


def _stored(folder: Path) -> int:
    store = AnswerStore(AnswersSettings(str(folder / "answers")), "mock")
    try:
        assert store.check().damaged == ()
        return store.stats().answers
    finally:
        store.close()


@contextmanager
def _files_no_larger_than(size: int) -> Iterator[None]:
    """A write beyond the size writes what fits and then fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_stops_the_statement_and_the_next_asks_the_rest(tmp_path: Path) -> None:
    with _connect(tmp_path) as con:
        con.sql(f"create table t as {QUESTION.format(20)}")
        con.sql("checkpoint")
        with (
            _files_no_larger_than(10_000),
            pytest.raises(QuailError, match=r"cannot be written: .*What was kept before is not lost"),
        ):
            con.sql(f"create or replace table t as {QUESTION.format(ROWS)}")
        stored = _stored(tmp_path)
        assert 20 < stored < ROWS
        assert con.sql("from t").to_pylist() == TRUTH[:20]
        con.sql(f"create or replace table t as {QUESTION.format(ROWS)}")
        assert (con.report.asked, con.report.recalled) == (ROWS - stored, stored)
        assert con.sql("from t order by i").to_pylist() == TRUTH
    assert _stored(tmp_path) == ROWS


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
    ).returncode:
        pytest.skip("a small disk can be mounted by root only")
    try:
        with quail_engine.connect(engine="mock", answers=str(disk / "answers"), token_budget=1_000) as con:
            with pytest.raises(QuailError, match="No space left"):
                con.sql(f"create table t as {QUESTION.format(3_000)}")
            stored = _stored(disk)
            assert 300 < stored < 3_000
            subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
            con.sql(f"create table t as {QUESTION.format(3_000)}")
            assert (con.report.asked, con.report.recalled) == (3_000 - stored, stored)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_folder_that_cannot_be_written_is_told_before_much_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    score = MockEngine.score
    monkeypatch.setattr(MockEngine, "score", lambda engine, batch: (asked.append(len(batch.reads)), score(engine, batch))[1])
    real = os.open

    def refuse(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR) and str(tmp_path / "answers") in str(path):  # permissions do not bind root
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, flags, *args, **kwargs)

    with _connect(tmp_path) as con:
        con.sql(f"create table t as {QUESTION.format(20)}")
    monkeypatch.setattr(os, "open", refuse)
    asked.clear()
    with _connect(tmp_path) as con:
        with pytest.raises(QuailError, match=r"Permission denied.*mode to read_only"):
            con.sql(f"create table u as {QUESTION.format(ROWS)}")
        assert len(asked) == 1
        assert con.sql("select table_name as n from duckdb_tables()").to_pylist() == [{"n": "t"}]
    with quail_engine.connect(engine="mock", answers={"path": str(tmp_path / "answers"), "mode": "read_only"}) as con:
        assert con.sql(QUESTION.format(ROWS)).to_pylist() == TRUTH
        assert (con.report.asked, con.report.recalled) == (ROWS - 20, 20)


def test_short_memory_is_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    score, batches = MockEngine.score, []

    def short(engine: MockEngine, batch: Batch) -> Any:
        batches.append(len(batch.reads))
        if len(batches) == 3:
            raise MemoryError
        return score(engine, batch)

    monkeypatch.setattr(MockEngine, "score", short)
    with _connect(tmp_path) as con:
        with pytest.raises(EngineError, match=r"ran out of memory.*token_budget"):
            con.sql(f"create table t as {QUESTION.format(ROWS)}")
        stored = _stored(tmp_path)
        assert stored == sum(batches[:2])
        con.sql(f"create table t as {QUESTION.format(ROWS)}")
        assert (con.report.asked, con.report.recalled) == (ROWS - stored, stored)


def test_the_newest_answer_counts_though_the_clock_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    question, key = b"q" * 32, b"k" * 32
    stores = [AnswerStore(AnswersSettings(str(tmp_path)), "local") for _ in range(2)]
    for n, seconds in enumerate((1_000, 500, 2_000, 1_500)):
        monkeypatch.setattr(time, "time_ns", lambda seconds=seconds: seconds * 1_000_000_000)
        stores[n % 2].remember(question, "t", [(key, Answer((float(seconds),), 1))])
        newest = Answer((float(max((1_000, 500, 2_000, 1_500)[: n + 1])),), 1)
        assert [store.recall([key]) for store in stores] == [{key: newest}] * 2
    for store in stores:
        store.close()
    last = AnswerStore(AnswersSettings(str(tmp_path)), "local")
    last.compact()
    assert last.recall([key]) == {key: Answer((2_000.0,), 1)}
    assert last.stats().answers == 1
    last.close()


def test_a_locked_database_names_its_holder(tmp_path: Path) -> None:
    program = "import duckdb, sys; con = duckdb.connect(sys.argv[1]); print(flush=True); sys.stdin.read()"
    path = str(tmp_path / "dev.duckdb")
    with subprocess.Popen([sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        holder.stdout.readline()
        with pytest.raises(duckdb.IOException, match=rf"PID {holder.pid}"):
            quail_engine.connect(path, engine="mock")
