"""Compaction, statistics, clearing, several processes, and scale."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from answer_cases import Open, Q, rows, segment_files

from quail_engine.answers import Answer, segments
from quail_engine.answers import store as store_module
from quail_engine.answers.journal import Record
from quail_engine.errors import AnswerStoreError


def test_compaction_keeps_every_answer_and_orders_segments_by_key(
    open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "SEAL_ANSWERS", 20)
    monkeypatch.setattr(store_module.upkeep, "MERGED_ANSWERS", 40)
    one, two = open_store(), open_store()
    one.remember(Q, "t", rows(0, 15))
    two.remember(Q, "t", rows(10, 25))
    for at in range(25, 95, 10):
        two.remember(Q, "t", rows(at, at + 10))
    one.close()
    two.compact()
    assert two.recall([k for k, _ in rows(0, 100)]) == dict(rows(0, 95))
    assert two.stats().answers == 95
    keys = [pq.read_table(path)["key"].to_pylist() for path in segment_files(tmp_path)]
    assert 2 <= len(keys) <= 4
    spans = sorted((min(part), max(part)) for part in keys)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(spans))
    before = [path.name for path in segment_files(tmp_path)]
    two.compact()  # nothing to do: the same answers make the same files
    assert [path.name for path in segment_files(tmp_path)] == before


def test_readers_survive_compaction_by_another(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "SEAL_ANSWERS", 10)
    writer, reader = open_store(), open_store("read_only")
    for at in range(0, 40, 10):
        writer.remember(Q, "t", rows(at, at + 10))
    assert len(reader.recall([k for k, _ in rows(0, 40)])) == 40
    stale = reader._segments.paths() if reader._segments else []
    writer.compact()
    fresh = reader._segments.paths() if reader._segments else []
    assert fresh != stale
    listings = iter([stale, fresh])
    monkeypatch.setattr(reader._segments, "paths", lambda: next(listings))
    assert len(reader.recall([k for k, _ in rows(0, 40)])) == 40


def test_stats_count_by_template_and_model(open_store: Open) -> None:
    store = open_store()
    store.remember(Q, "first", rows(0, 5), model="m")
    store.compact()
    store.remember(Q, "second", rows(5, 7), model="m")
    store.remember(Q, "first", rows(7, 8), model="n")
    stats = store.stats()
    assert [(q.template, q.model, q.answers, q.tokens) for q in stats.questions] == [
        ("first", "m", 5, 10),
        ("second", "m", 2, 11),
        ("first", "n", 1, 7),
    ]
    assert (stats.answers, stats.segments, stats.journals) == (8, 1, 1)
    assert stats.bytes > 0


def test_clearing_by_template_model_and_age(open_store: Open) -> None:
    store = open_store()
    store.remember(Q, "first", rows(0, 5), model="m")
    store.remember(Q, "second", rows(5, 7), model="m")
    store.remember(Q, "first", rows(7, 8), model="n")
    everything = [k for k, _ in rows(0, 10)]
    assert store.clear(template="first", model="m") == 5
    assert store.recall(everything) == dict(rows(5, 8))
    assert store.clear(before=datetime.now(timezone.utc) - timedelta(hours=1)) == 0
    assert store.clear(model="n") == 1
    assert store.recall(everything) == dict(rows(5, 7))
    assert store.clear(before=datetime.now(timezone.utc)) == 2
    store.remember(Q, "third", rows(0, 3))
    assert store.clear() == 3
    assert store.stats().answers == 0


def test_two_at_once_is_a_clear_error(open_store: Open) -> None:
    one, two = open_store(), open_store()
    one.remember(Q, "t", rows(0, 3))
    with one._upkeep(), pytest.raises(AnswerStoreError, match="at work"):
        two.compact()
    two.compact()


def test_several_processes_write_at_once(tmp_path: Path, open_store: Open) -> None:
    program = textwrap.dedent(f"""
        import sys
        from quail_engine.answers import Answer, AnswerStore, answer_key, store
        from quail_engine.settings import AnswersSettings
        store.SEAL_ANSWERS = 100
        q, number = bytes.fromhex({Q.hex()!r}), int(sys.argv[1])
        for run in range(3):
            s = AnswerStore(AnswersSettings({str(tmp_path / "answers")!r}), "local")
            for i in range(number * 300 + run * 100, number * 300 + run * 100 + 100, 4):
                s.remember(q, "t", [(answer_key(q, [str(j)]), Answer((j / 4,), j % 50)) for j in range(i, i + 4)])
                s.recall([answer_key(q, [str(j)]) for j in range(i, i + 4)])
            s.close()
    """)
    processes = [subprocess.Popen([sys.executable, "-c", program, str(n)]) for n in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert open_store().recall([k for k, _ in rows(0, 900)]) == dict(rows(0, 900))


def test_many_answers_of_several_segments_are_recalled_by_one_query(
    open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_rows = 1 << 12
    folder = tmp_path / "answers" / "segments"
    store = open_store()
    store.remember(Q, "t", rows(0, 1))
    chance = np.random.default_rng(1)
    wanted: list[bytes] = []
    for _ in range(3):
        keys = sorted({chance.bytes(32) for _ in range(table_rows)})
        answers = tuple(Answer((1.0,), 30) for _ in keys)
        segments.write(folder, segments.table_of([Record(Q, "t", "m", "d", 1, tuple(keys), answers)]))
        wanted += keys[::2]
    queries: list[str] = []
    query = segments.Segments.query
    monkeypatch.setattr(segments.Segments, "query", lambda own, sql, **tables: queries.append(sql) or query(own, sql, **tables))
    assert len(store.recall(wanted)) == len(wanted)
    assert len(queries) == 1


def test_the_bench_of_recall_finds_every_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench import recall

    monkeypatch.setattr(store_module, "SEAL_ANSWERS", 1_000)
    monkeypatch.setattr(recall, "BATCH", 300)
    recall.build(tmp_path, 2_500, compact=False)
    assert len(list((tmp_path / "segments").glob("*.parquet"))) == 2
    assert recall.measure(tmp_path, 2_500, 500).keys() > {"seconds_first", "cpu_seconds_second", "peak_mb"}
