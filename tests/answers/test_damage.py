"""Crashes, full disks and damaged files: what is lost and what is not."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from answer_cases import Open, Q, journal_files, key, rows, segment_files
from hypothesis import given, settings
from hypothesis import strategies as st

from quail_engine.answers import Answer, journal, segments
from quail_engine.answers import store as store_module
from quail_engine.answers.frames import frame
from quail_engine.answers.journal import Record

DAMAGES = int(os.environ.get("QUAIL_DAMAGE", "60"))  # `make chaos` does 500


def test_a_torn_journal_keeps_its_valid_prefix(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    for at in range(0, 30, 10):
        store.remember(Q, "t", rows(at, at + 10))
    store.close()
    (path,) = journal_files(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    reopened = open_store()
    assert len(reopened.check().torn) == 1
    assert reopened.recall([k for k, _ in rows(0, 30)]) == dict(rows(0, 20))
    reopened.remember(Q, "t", rows(30, 40))  # appended after the valid prefix, so readable
    assert open_store().recall([k for k, _ in rows(0, 40)]) == dict(rows(0, 20) + rows(30, 40))


def test_a_damaged_segment_loses_only_itself(
    open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store_module, "SEAL_ANSWERS", 10)
    store = open_store()
    for at in range(0, 30, 10):
        store.remember(Q, "t", rows(at, at + 10))
    store.close()
    victim = segment_files(tmp_path)[1]
    lost = set(pq.read_table(victim)["key"].to_pylist())
    data = bytearray(victim.read_bytes())
    data[len(data) // 3] ^= 4
    victim.write_bytes(data)
    kept = {k: a for k, a in rows(0, 30) if k not in lost}
    reopened = open_store()
    with caplog.at_level(logging.WARNING):
        assert reopened.recall([k for k, _ in rows(0, 30)]) == kept
        assert reopened.recall([k for k, _ in rows(0, 30)]) == kept
    assert sum(victim.name in message for message in caplog.messages) == 1
    assert reopened.check().damaged == (victim.name,)
    assert (tmp_path / "answers" / "damaged" / victim.name).exists()
    assert len(segment_files(tmp_path)) == 2
    assert reopened.check().damaged == ()


def test_a_segment_whose_columns_have_no_readable_name_is_skipped(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    store.remember(Q, "t", rows(0, 5))
    content = segments.write(
        tmp_path, segments.table_of([Record(Q, "t", "m", "d", 0, (key("x"),), (Answer((1.0,), 1),))])
    ).read_bytes()
    content = content.replace(b"template", b"\xffemplate")
    (tmp_path / "answers" / "segments" / f"{hashlib.sha256(content).hexdigest()}.parquet").write_bytes(content)
    assert store.recall([k for k, _ in rows(0, 5)]) == dict(rows(0, 5))


def test_segment_of_a_later_schema_is_left_alone(open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = segments.table_of([Record(Q, "t", "m", "d", 0, (key("x"),), (Answer((1.0,), 1),))])
    store = open_store()
    store.remember(Q, "t", rows(0, 5))
    later = table.replace_schema_metadata({b"quail.answers.version": b"2"})
    path = segments.write(tmp_path / "answers" / "segments", later)
    assert store.recall([key("x"), key("1")]) == {key("1"): Answer((0.25,), 1)}
    assert store.check().damaged == ()
    store.compact()
    assert path.exists()


def test_random_bit_flips_and_cuts_never_give_a_wrong_answer(
    open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "SEAL_ANSWERS", 20)
    store = open_store()
    for at in range(0, 50, 5):
        store.remember(Q, "t", rows(at, at + 5))
    store.close()
    every, keys = dict(rows(0, 50)), [k for k, _ in rows(0, 50)]
    chance = random.Random(7)
    paths = (*segment_files(tmp_path), *journal_files(tmp_path))
    for path in paths:
        whole = path.read_bytes()
        for _ in range(math.ceil(DAMAGES / len(paths))):
            data = bytearray(whole)
            if chance.random() < 0.5:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            else:
                del data[chance.randrange(len(data)) :]
            path.write_bytes(data)
            reader = open_store("read_only")
            found = reader.recall(keys)
            assert found.items() <= every.items()
            assert len(found) >= 30 - 10 * (path.suffix == ".parquet")
            reader.close()
        path.write_bytes(whole)
    assert open_store().recall(keys) == every


@given(st.binary(max_size=400), st.booleans())
@settings(max_examples=300)
def test_reading_any_bytes_as_a_journal_ends(tmp_path_factory: pytest.TempPathFactory, data: bytes, framed: bool) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "x.journal"
    path.write_bytes(journal.FORMAT.magic + (frame(data) if framed else data))
    records, end = journal.read(path)
    assert len(journal.FORMAT.magic) <= end <= path.stat().st_size
    for record in records:
        assert len(record.keys) == len(record.answers)
    path.unlink()
    path.parent.rmdir()


def test_kill_9_loses_nothing_that_was_flushed(open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = textwrap.dedent(f"""
        import os, signal
        from quail_engine.answers import Answer, AnswerStore
        from quail_engine.settings import AnswersSettings
        store = AnswerStore(AnswersSettings({str(tmp_path / "answers")!r}), "local")
        store.remember(bytes.fromhex({Q.hex()!r}), "t", [(bytes.fromhex({key("a").hex()!r}), Answer((1.5,), 3))])
        store.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    store = open_store()
    store.remember(Q, "t", rows(0, 1))  # goes on in the journal of the process that was killed
    assert len(journal_files(tmp_path)) == 1
    assert store.recall([key("a")]) == {key("a"): Answer((1.5,), 3)}
