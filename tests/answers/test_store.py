"""What is remembered is recalled, by whom, and where it lies."""

from __future__ import annotations

import os
import stat
import struct
import threading
import weakref
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
from answer_cases import Open, Q, journal_files, key, rows, segment_files

from quail_engine.answers import Answer, AnswerStore, frames, segments
from quail_engine.answers import store as store_module
from quail_engine.errors import AnswerStoreError
from quail_engine.settings import AnswersSettings


def test_recalls_what_was_remembered_and_only_that(open_store: Open) -> None:
    store = open_store()
    store.remember(Q, "t", rows(0, 10))
    assert store.recall([key("3"), key("nobody asked")]) == {key("3"): Answer((0.75,), 3)}
    assert store.recall([]) == {}


def test_later_process_recalls_it(open_store: Open) -> None:
    first = open_store()
    first.remember(Q, "t", rows(0, 10))
    first.close()
    assert open_store().recall([key("9")]) == {key("9"): Answer((2.25,), 9)}


def test_concurrent_process_recalls_it(open_store: Open) -> None:
    one, two = open_store(), open_store()
    one.remember(Q, "t", rows(0, 10))
    two.remember(Q, "t", rows(10, 20))
    assert one.recall([key("15")]) == {key("15"): Answer((3.75,), 15)}
    one.remember(Q, "t", rows(20, 30))
    assert len(two.recall([k for k, _ in rows(0, 40)])) == 30


def test_float32_bits_survive_journal_and_segment(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    bits = [0x00000001, 0x80000000, 0x3F800001, 0x7F7FFFFF, 0xC2280A3D, 0x33D6BF95]
    values = tuple(float(v) for v in np.array(bits, "<u4").view("<f4"))
    answers = [(key("one"), Answer(values, 7)), (key("none"), Answer((), 0))]
    first = open_store()
    first.remember(Q, "t", answers)
    first.close()
    second = open_store()
    for _ in ("journal", "segment"):
        found = second.recall([key("one"), key("none")])
        assert found[key("none")] == Answer((), 0)
        assert [struct.pack("<f", v) for v in found[key("one")].values] == [struct.pack("<I", b) for b in bits]
        second.compact()


def test_a_full_journal_becomes_a_segment(open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "SEAL_ANSWERS", 100)
    store = open_store()
    for at in range(0, 250, 50):
        store.remember(Q, "t", rows(at, at + 50))
    assert len(segment_files(tmp_path)) == 2
    assert len(journal_files(tmp_path)) == 1
    assert store.recall([k for k, _ in rows(0, 300)]) == dict(rows(0, 250))


def test_an_abandoned_journal_is_adopted_not_added_to(open_store: Open, tmp_path: Path) -> None:
    for run in range(5):
        store = open_store()
        store.remember(Q, "t", rows(run * 10, run * 10 + 10))
        store.close()
    assert len(journal_files(tmp_path)) == 1
    assert open_store().recall([k for k, _ in rows(0, 50)]) == dict(rows(0, 50))


def test_asking_again_replaces(open_store: Open) -> None:
    store = open_store()
    store.remember(Q, "t", [(key("a"), Answer((1.0,), 5))])
    store.compact()
    store.remember(Q, "t", [(key("a"), Answer((-1.0,), 5))])
    assert store.recall([key("a")]) == {key("a"): Answer((-1.0,), 5)}
    store.compact()
    assert store.recall([key("a")]) == {key("a"): Answer((-1.0,), 5)}
    assert store.stats().answers == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_failed_answer_is_refused(open_store: Open, value: float) -> None:
    with pytest.raises(AssertionError):
        open_store().remember(Q, "t", [(key("a"), Answer((0.0, value), 5))])


def test_flush_makes_it_durable(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setattr(frames, "SYNC_SECONDS", 1e9)
    store = open_store()
    store.remember(Q, "t", rows(0, 1))
    before = len(synced)
    store.remember(Q, "t", rows(1, 2))
    store.remember(Q, "t", rows(2, 3))
    assert len(synced) == before  # its time has not come
    store.flush()
    assert len(synced) == before + 1
    store.flush()
    assert len(synced) == before + 1  # nothing new
    monkeypatch.setattr(frames, "SYNC_SECONDS", 0.0)
    store.remember(Q, "t", rows(3, 4))
    assert len(synced) == before + 2


def test_threads_share_a_store(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "SEAL_ANSWERS", 64)
    store, errors = open_store(), []

    def work(number: int) -> None:
        try:
            for at in range(number * 100, number * 100 + 100, 10):
                store.remember(Q, "t", rows(at, at + 10))
                assert len(store.recall([k for k, _ in rows(at, at + 10)])) == 10
        except AssertionError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert store.recall([k for k, _ in rows(0, 400)]) == dict(rows(0, 400))


def test_memory_only_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = AnswerStore(AnswersSettings(path=None), "local")
    store.remember(Q, "t", rows(0, 5))
    store.flush()
    assert store.recall([key("2")]) == {key("2"): Answer((0.5,), 2)}
    assert store.stats().answers == 5
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_read_only_recalls_and_never_writes(open_store: Open, tmp_path: Path) -> None:
    reader = open_store("read_only")
    reader.remember(Q, "t", rows(20, 25))
    assert reader.recall([key("1"), key("20")]) == dict(rows(20, 21)), "in memory, for this process"
    assert not (tmp_path / "answers").exists()
    open_store().remember(Q, "t", rows(0, 5))
    before = sorted(path.name for path in (tmp_path / "answers").rglob("*"))
    reader.remember(Q, "t", rows(5, 9))
    assert reader.recall([key("1"), key("6")]) == dict([*rows(1, 2), *rows(6, 7)])
    assert open_store("read_only").recall([key("1"), key("6")]) == dict(rows(1, 2))
    reader.close()
    assert sorted(path.name for path in (tmp_path / "answers").rglob("*")) == before
    with pytest.raises(AnswerStoreError):
        reader.compact()


def test_off_does_neither(open_store: Open, tmp_path: Path) -> None:
    open_store().remember(Q, "t", rows(0, 5))
    store = open_store("off")
    store.remember(Q, "t", rows(5, 9))
    assert store.recall([key("1"), key("6")]) == {}


def test_a_mock_s_answers_lie_apart(open_store: Open, tmp_path: Path) -> None:
    mock, local = open_store(namespace="mock"), open_store(namespace="local")
    mock.remember(Q, "t", rows(0, 5))
    assert local.recall([key("1")]) == {}
    local.remember(Q, "t", [(key("1"), Answer((9.0,), 1))])
    assert mock.recall([key("1")]) == {key("1"): Answer((0.25,), 1)}
    assert (tmp_path / "answers" / "mock" / "journals").is_dir()


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_files_are_private_and_ignored_by_git(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    store.remember(Q, "t", rows(0, 5))
    store.compact()
    store.remember(Q, "t", rows(5, 9))
    found = list((tmp_path / "answers").rglob("*"))
    assert {path.suffix for path in found} >= {".parquet", ".journal"}
    for path in (tmp_path / "answers", *found):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert (tmp_path / "answers" / ".gitignore").read_text() == "*\n"


def test_no_row_text_and_documented_columns(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    store.remember(Q, "Is it urgent? {0}", [(key("secret words"), Answer((1.5,), 12))], model="smollm2", dtype="bfloat16")
    assert b"secret" not in journal_files(tmp_path)[0].read_bytes()
    store.compact()
    (path,) = segment_files(tmp_path)
    assert b"secret" not in path.read_bytes()
    (row,) = pq.read_table(path).to_pylist()
    assert abs(row.pop("time") - datetime.now(timezone.utc)) < timedelta(minutes=1)
    assert row == {
        "key": key("secret words"),
        "question": Q,
        "values": [1.5],
        "tokens": 12,
        "template": "Is it urgent? {0}",
        "model": "smollm2",
        "dtype": "bfloat16",
    }
    document = (Path(__file__).parents[2] / "docs" / "answers.md").read_text(encoding="utf-8")
    for column in segments.SCHEMA.names:
        assert f"| `{column}` |" in document


def test_a_folder_that_cannot_be_written_is_one_clear_error(open_store: Open, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = open_store(path=tmp_path / "file" / "answers")
    with pytest.raises(AnswerStoreError, match=r"cannot be written.*read_only"):
        store.remember(Q, "t", rows(0, 1))


def test_a_full_disk_loses_no_earlier_answer(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store()
    store.remember(Q, "t", rows(0, 5))
    write = os.write

    def half(descriptor: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", fail)
        return write(descriptor, bytes(data)[: len(data) // 2])

    def fail(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(AnswerStoreError, match="No space left"):
        store.remember(Q, "t", rows(5, 9))
    monkeypatch.setattr(os, "write", write)
    store.remember(Q, "t", rows(9, 12))
    assert open_store().recall([k for k, _ in rows(0, 12)]) == dict(rows(0, 5) + rows(9, 12))


def test_duckdb_is_opened_anew_after_some_queries(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is closed an instance of DuckDB keeps some memory of every join."""
    store = open_store()
    store.remember(Q, "t", rows(0, 10))
    store.compact()
    opened: list[weakref.ref[duckdb.DuckDBPyConnection]] = []
    connect = duckdb.connect

    def counted(*place: Any, **options: Any) -> duckdb.DuckDBPyConnection:
        connection = connect(*place, **options)
        opened.append(weakref.ref(connection))
        return connection

    monkeypatch.setattr(duckdb, "connect", counted)
    monkeypatch.setattr(segments, "QUERIES", 3)
    reader = open_store()
    assert reader._segments
    held = reader._segments._cursor()  # another thread is in the midst of a query
    for _ in range(9):
        assert reader.recall([key("3")]) == dict(rows(3, 4))
    assert len(opened) == 4
    assert held.sql("select 1").fetchall() == [(1,)]
    assert [connection() is None for connection in opened] == [True, True, True, False]
