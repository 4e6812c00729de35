"""Several stores: others' that are only read, at a folder or a URL; files that a group may read; export and import."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from answer_cases import Open, Q, journal_files, key, rows, segment_files
from click.testing import CliRunner

import quail_engine
from quail_engine import SettingsError
from quail_engine.answers import Answer, AnswerStore
from quail_engine.answers import store as store_module
from quail_engine.cli import main
from quail_engine.errors import AnswerStoreError
from quail_engine.settings import AnswersSettings, Settings

URL = "memory://quail-answers"
KEYS = [k for k, _ in rows(0, 60)]


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The file system behind URL, empty, and a cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def at(path: Path | str | None, warnings: list[str] | None = None, **settings: Any) -> AnswerStore:
    warn = (lambda text: None) if warnings is None else warnings.append
    return AnswerStore(AnswersSettings(None if path is None else str(path), **settings), "local", warn)


def remember(path: Path | str, start: int, end: int, seal: bool = False) -> None:
    store = at(path)
    store.remember(Q, "t", rows(start, end))
    if seal:
        store.compact()
    store.close()


def files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_shared_stores_are_recalled_and_never_written(tmp_path: Path) -> None:
    production, colleague = tmp_path / "production", tmp_path / "colleague"
    remember(production, 0, 20, seal=True)
    remember(production, 20, 30)  # in a journal
    remember(colleague, 25, 40)
    before = files(production) | files(colleague)
    store = at(tmp_path / "ci", shared=(str(production), str(colleague)))
    assert store.recall(KEYS) == dict(rows(0, 40))
    store.remember(Q, "t", [(key("1"), Answer((99.0,), 1)), *rows(40, 50)])
    assert store.recall(KEYS) == dict(rows(0, 50)) | {key("1"): Answer((99.0,), 1)}
    store.close()
    assert files(production) | files(colleague) == before
    assert at(tmp_path / "ci").recall(KEYS) == dict(rows(40, 50)) | {key("1"): Answer((99.0,), 1)}


def test_what_is_added_to_a_shared_folder_is_seen(tmp_path: Path) -> None:
    remember(tmp_path / "production", 0, 1)
    reader = at(None, shared=(str(tmp_path / "production"),))
    assert len(reader.recall(KEYS)) == 1
    remember(tmp_path / "production", 1, 5)
    assert reader.recall(KEYS) == dict(rows(0, 5))


def test_modes_with_shared_stores(tmp_path: Path) -> None:
    remember(tmp_path / "production", 0, 5)
    shared = (str(tmp_path / "production"),)
    assert at(tmp_path / "own", mode="read_only", shared=shared).recall(KEYS) == dict(rows(0, 5))
    assert at(tmp_path / "own", mode="off", shared=shared).recall(KEYS) == {}
    assert not (tmp_path / "own").exists()


def test_a_shared_store_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AnswerStoreError, match=r"no shared answers at .*/nowhere: no such folder"):
        at(tmp_path, shared=(str(tmp_path / "nowhere"),)).recall(KEYS)


def test_a_statement_recalls_shared_answers(tmp_path: Path) -> None:
    text = "select AI_FILTER('q', 'text ' || i) from range(30) r(i)"
    with quail_engine.connect(engine="mock", answers=str(tmp_path / "production")) as con:
        con.sql(text)
    answers = {"path": str(tmp_path / "ci"), "shared": [str(tmp_path / "production")]}
    with quail_engine.connect(engine="mock", answers=answers) as con:
        con.sql(text.replace("30", "40"))
        assert (con.report.asked, con.report.recalled) == (10, 30)
    with quail_engine.connect(engine="mock", answers=str(tmp_path / "ci")) as con:
        con.sql(text.replace("30", "40"))
        assert (con.report.asked, con.report.recalled) == (30, 10)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"shared": [3]}, r"answers\.shared must be a list of folders and URLs"),
        ({"group_readable": "yes"}, r"answers\.group_readable must be true or false, not 'yes'"),
        ({"sharde": []}, r"Unknown key answers\.sharde \(did you mean 'shared'\?\)"),
    ],
)
def test_wrong_settings_are_refused(answers: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Settings.of({"answers": answers})


def test_a_store_at_a_url(tmp_path: Path, bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "SEAL_ANSWERS", 10)
    writer = at(URL)
    writer.remember(Q, "t", rows(0, 12))  # sealed, and sent
    assert at(None, shared=(URL,)).recall(KEYS) == dict(rows(0, 12))
    writer.remember(Q, "t", rows(12, 15))  # in a journal of this machine
    assert len(bucket.ls("/quail-answers/segments")) == 1
    writer.close()
    assert len(bucket.ls("/quail-answers/segments")) == 2
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    assert at(URL, mode="read_only").recall(KEYS) == dict(rows(0, 15))
    reads = []
    monkeypatch.setattr(type(bucket), "cat", lambda self, paths: reads.append(paths))
    assert at(URL).recall(KEYS) == dict(rows(0, 15))
    assert reads == []  # the copy is complete


def test_a_crash_before_the_end_loses_nothing_of_a_store_at_a_url(bucket: Any) -> None:
    crashed = at(URL)
    crashed.remember(Q, "t", rows(0, 5))
    assert crashed._writer
    crashed._writer.close()  # as when the process is killed
    later = at(URL)
    later.remember(Q, "t", rows(5, 6))
    later.close()
    (segment,) = bucket.ls("/quail-answers/segments", detail=False)
    assert pq.read_table(pa.BufferReader(bucket.cat_file(segment))).num_rows == 6


def test_a_url_that_fails_keeps_the_answers_here(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = at(URL)
    store.remember(Q, "t", rows(0, 5))

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise PermissionError("no such right")

    monkeypatch.setattr(type(bucket), "pipe_file", refuse)
    with pytest.raises(AnswerStoreError, match=r"memory://quail-answers cannot be reached: PermissionError: no such right"):
        store.close()
    monkeypatch.undo()


def test_a_segment_that_is_deleted_there_is_deleted_here(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = at(URL)
    writer.remember(Q, "t", rows(0, 5))
    writer.close()
    bucket.rm("/quail-answers/segments", recursive=True)
    assert at(URL).recall(KEYS) == dict(rows(0, 5))  # it may be one that another process is about to send
    monkeypatch.setattr("quail_engine.answers.remote._FRESH_SECONDS", -1.0)
    assert at(URL).recall(KEYS) == {}


def test_damaged_segments_at_a_url_are_skipped_with_a_warning(bucket: Any) -> None:
    bucket.pipe_file(f"/quail-answers/segments/{'0' * 64}.parquet", b"not a segment")
    bucket.pipe_file("/quail-answers/segments/../../evil.parquet", b"not a segment")
    warnings: list[str] = []
    assert at(None, warnings, shared=(URL,)).recall(KEYS) == {}
    assert [text.split(":")[-1] for text in warnings] == [" it is damaged, or was not yet whole."]


def test_urls_that_cannot_be_read_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(
        AnswerStoreError, match=r"answers at nosuch://x cannot be reached: ValueError: Protocol not known"
    ) as caught:
        at(None, shared=("nosuch://user:secret@x",)).recall(KEYS)
    assert "secret" not in str(caught.value).split("ValueError")[0]
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(AnswerStoreError, match=r"read through fsspec, .* is not installed: pip install fsspec"):
        at(None, shared=(URL,)).recall(KEYS)


def names(bucket: Any, folder: str = "segments") -> set[str]:
    found = bucket.ls(f"/quail-answers/{folder}", detail=False) if bucket.exists(f"/quail-answers/{folder}") else []
    return {Path(name).name for name in found}


def quail_answers(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["answers", "--path", URL, *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_upkeep_at_a_url(bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for start in (0, 10, 20):
        remember(URL, start, start + 15)  # five answers are in two segments
    crashed = at(URL)
    crashed.remember(Q, "gone", rows(40, 45))
    assert crashed._writer
    crashed._writer.close()
    bucket.pipe_file(f"/quail-answers/segments/{'0' * 64}.parquet", b"not a segment")

    assert "50 answers in 4 segments and 0 journals, all read" in quail_answers("check")
    assert names(bucket, "damaged") == {f"{'0' * 64}.parquet"}
    before = names(bucket)
    assert len(before) == 4
    quail_answers("compact")
    assert len(names(bucket)) == 1
    assert not names(bucket) & before
    assert quail_answers("clear", "--question", "gone", "--yes") == "5 answers deleted\n"
    left = dict(rows(0, 35))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    assert at(URL).recall(KEYS) == left
    at(URL).export(tmp_path / "all.parquet")
    assert quail_answers("clear", "--yes") == "35 answers deleted\n"
    assert names(bucket) == set()
    assert at(URL).recall(KEYS) == {}, "nor in the copy"
    quail_answers("import", str(tmp_path / "all.parquet"))
    assert at(URL).recall(KEYS) == left
    assert [path.name for path in at(URL)._folder.root.iterdir() if path.name.startswith("tmp")] == []  # type: ignore[union-attr]


def test_upkeep_at_a_url_that_fails_halfway_loses_nothing(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for start in (0, 10):
        remember(URL, start, start + 10)
    before = names(bucket)

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise PermissionError("no such right")

    monkeypatch.setattr(type(bucket), "pipe_file", refuse)
    with pytest.raises(AnswerStoreError, match=r"cannot be reached: PermissionError: no such right"):
        at(URL).compact()
    assert names(bucket) == before
    monkeypatch.undo()
    monkeypatch.setattr(type(bucket), "rm_file", refuse)
    with pytest.raises(AnswerStoreError, match=r"cannot be reached: PermissionError: no such right"):
        at(URL).compact()
    assert names(bucket) > before
    assert at(URL).recall(KEYS) == dict(rows(0, 20))


def test_a_damaged_segment_is_told_to_the_listener(tmp_path: Path, open_store: Open) -> None:
    with quail_engine.connect(engine="mock", answers=str(tmp_path / "answers")) as con:
        con.sql("select AI_FILTER('q', 'x')")
    segments = tmp_path / "answers" / "mock" / "segments"
    (segments / f"{'0' * 64}.parquet").write_bytes(b"damaged")
    said: list[str] = []
    session = quail_engine.Session(
        Settings.of({"engine": "mock", "answers": str(tmp_path / "answers")}), lambda e: said.append(str(e))
    )
    cursor = quail_engine.connect(engine="mock")._connection
    session.register(cursor)
    assert session.execute(cursor, "select AI_FILTER('q', 'x')").recalled == 1
    assert len(said) == 1
    assert "000.parquet is skipped: it is damaged" in said[0]
    session.close()


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_group_may_read(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        remember(tmp_path / "answers", 0, 5, seal=True)  # private at first
        store = at(tmp_path / "answers", group_readable=True)
        store.remember(Q, "t", rows(5, 9))
        store.compact()
        store.remember(Q, "t", rows(9, 12))
        store.remember_failures(Q, "t", [key("no")], "why")
        store.close()
        remember(tmp_path / "answers", 12, 15)  # by a process that does not say so
    finally:
        os.umask(before)
    found = [path for path in (tmp_path / "answers").rglob("*") if path.name != "upkeep.lock"]
    assert {path.suffix for path in found} >= {".parquet", ".journal", ".jsonl"}
    for path in (tmp_path / "answers", *found):
        assert stat.S_IMODE(path.stat().st_mode) == (0o750 if path.is_dir() else 0o640), path


def test_answers_travel_in_a_file(open_store: Open, tmp_path: Path) -> None:
    one = open_store()
    one.remember(Q, "Is it urgent? {0}", rows(0, 5), model="m")
    one.compact()
    one.remember(Q, "Is it urgent? {0}", [(key("1"), Answer((7.0,), 1)), *rows(5, 8)], model="m")
    one.remember(Q[::-1], "Is it angry? {0}", rows(8, 10), model="n")
    one.close()
    folder, file = str(tmp_path / "answers"), str(tmp_path / "all.parquet")

    def quail(*command: str, path: str = folder) -> str:
        done = CliRunner().invoke(main, ["answers", "--path", path, *command])
        assert done.exit_code == 0, done.output
        return done.output

    assert quail("export", file) == f"10 answers in {file}\n"
    assert quail("export", str(tmp_path / "urgent.parquet"), "--prompt", "urgent").startswith("8 answers")
    assert quail("export", str(tmp_path / "n.parquet"), "--model", "n").startswith("2 answers")
    tomorrow = (datetime.now() + timedelta(days=1)).strftime("%Y-%m-%d")
    assert quail("export", str(tmp_path / "none.parquet"), "--since", tomorrow).startswith("0 answers")
    assert quail("import", file, path=str(tmp_path / "other")) == f"10 answers of {file} in {tmp_path}/other\n"
    assert quail("import", str(tmp_path / "none.parquet"), path=str(tmp_path / "other")).startswith("0 answers of ")
    assert at(tmp_path / "other").recall(KEYS) == dict(rows(0, 10)) | {key("1"): Answer((7.0,), 1)}
    assert at(tmp_path / "other").check().answers == 10
    assert len(journal_files(tmp_path)) == 1
    assert len(segment_files(tmp_path)) == 1


def test_the_newest_of_store_and_file_counts(tmp_path: Path) -> None:
    remember(tmp_path / "old", 0, 3)
    at(tmp_path / "old").export(tmp_path / "old.parquet")
    store = at(tmp_path / "new")
    store.remember(Q, "t", [(key("1"), Answer((7.0,), 1))])
    store.import_(tmp_path / "old.parquet")
    assert store.recall(KEYS) == dict(rows(0, 3)) | {key("1"): Answer((7.0,), 1)}
    store.close()


@pytest.mark.parametrize("case", ["missing", "text", "another table", "not finite"])
def test_a_file_that_holds_no_answers_is_refused(tmp_path: Path, case: str) -> None:
    path = tmp_path / "file.parquet"
    if case == "text":
        path.write_text("no Parquet")
    elif case == "another table":
        pq.write_table(pa.table({"key": [1]}), path)
    elif case == "not finite":
        remember(tmp_path / "answers", 0, 1)
        at(tmp_path / "answers").export(path)
        table = pq.read_table(path)
        at_values = table.schema.get_field_index("values")
        broken = pa.array([[float("nan")]], table.schema.field("values").type)
        pq.write_table(table.set_column(at_values, table.schema.field("values"), broken), path)
    store = at(tmp_path / "store")
    if case == "missing":
        with pytest.raises(AnswerStoreError, match="there is no such file"):
            store.import_(path)
    with pytest.raises(
        AnswerStoreError, match=r"file\.parquet (cannot be read as answers|is no export of answers|holds numbers)"
    ):
        store.import_(path)
    assert store.recall(KEYS) == {}


def test_clearing_by_age_takes_the_local_day(tmp_path: Path) -> None:
    remember(tmp_path / "answers", 0, 3)
    command = ["answers", "--path", str(tmp_path / "answers"), "clear", "--yes", "--before"]
    assert "0 answers deleted" in CliRunner().invoke(main, [*command, "2020-01-01"]).output
    assert "3 answers deleted" in CliRunner().invoke(main, [*command, f"{datetime.now(timezone.utc).year + 1}-02-01"]).output
