"""Whatever is read, be it damaged, hostile or half typed, gives a result or a QuailError, and ends.

Some hundred inputs a reader in the default run, the same every time; `make fuzz` draws 100,000 new ones (QUAIL_FUZZ a reader).
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inputs import damaged, fuzzed, no_hang, statements, templates

import quail_engine
from quail_engine import ModelError, QuailError, SqlError
from quail_engine.answers import Answer, AnswerStore, features, journal, segments
from quail_engine.answers.failures import FailureLog
from quail_engine.answers.features import FeatureStore
from quail_engine.answers.frames import frame
from quail_engine.answers.journal import Record
from quail_engine.lookups import labels_of
from quail_engine.settings import AnswersSettings
from quail_engine.sql import analyze, contains_ai, mentions_ai, split

RECORDS = [
    Record(
        bytes([n]) * 32,
        "Is it {0}?",
        "m",
        "d",
        n,
        (bytes([n, 1]) * 16, bytes([n, 2]) * 16),
        (Answer((n / 2,), 3), Answer((1.0, 2.0), 4)),
    )
    for n in range(6)
]
TRUTH = {key: answer for record in RECORDS for key, answer in zip(record.keys, record.answers, strict=True)}
JOURNAL = journal.FORMAT.magic + b"".join(frame(journal.encode(record)) for record in RECORDS)


def _nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["label", "description", "x"]), inner, max_size=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@given(data=damaged(JOURNAL))
@fuzzed
def test_journals(folder: Path, data: bytes) -> None:
    path = folder / "x.journal"
    path.write_bytes(data)
    with no_hang():
        records, end = journal.read(path)
    assert end <= len(data)
    for record in records:  # a record that is read is one that was written
        assert record in RECORDS


@given(data=st.binary(max_size=2_000))
@fuzzed
def test_journals_that_somebody_made_up(folder: Path, data: bytes) -> None:
    path = folder / "x.journal"
    path.write_bytes(journal.FORMAT.magic + frame(data))
    with no_hang():
        journal.read(path)


@given(data=damaged(features._batch({record.question: bytes(40) for record in RECORDS}).serialize().to_pybytes()))
@fuzzed
def test_journals_of_features(folder: Path, data: bytes) -> None:
    kept = folder / "features"
    kept.mkdir(exist_ok=True)
    (kept / "x.journal").write_bytes(features._JOURNAL.magic + frame(data))
    with no_hang():
        FeatureStore(kept, 0).recall([record.question for record in RECORDS])


@pytest.fixture(scope="module")
def segment(folder: Path) -> bytes:
    (folder / "segments").mkdir()
    return segments.write(folder / "segments", segments.table_of(RECORDS)).read_bytes()


@given(data=st.data())
@fuzzed
def test_segments(folder: Path, segment: bytes, data: st.DataObject) -> None:
    """A damaged segment is skipped; one that somebody made up, under its own name, is read or refused."""
    content = data.draw(damaged(segment))
    root = folder / "store"
    root.joinpath("segments").mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(content).hexdigest() if data.draw(st.booleans()) else hashlib.sha256(segment).hexdigest()
    path = root / "segments" / f"{name}.parquet"
    path.write_bytes(content)
    store = AnswerStore(AnswersSettings(str(root), "read_only"), "local")
    try:
        with no_hang(), suppress(QuailError):
            found = store.recall(list(TRUTH))
            assert content == segment or name == hashlib.sha256(content).hexdigest() or not found
    finally:
        store.close()
        path.unlink()


@given(text=st.text(max_size=300) | st.sampled_from(['{"keys": 1}', "[]", "[" * 5_000, '{"keys": ["zz"], "question": ""}']))
@fuzzed
def test_lists_of_failures(folder: Path, text: str) -> None:
    path = folder / "failures.jsonl"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    with no_hang():
        FailureLog(path).read()


@pytest.fixture(scope="module")
def gguf(folder: Path) -> bytes:
    pytest.importorskip("gguf", reason="without the extra `local` there is nothing that reads GGUF files")
    from test_models import write_gguf

    write_gguf(folder / "sound.gguf")
    return (folder / "sound.gguf").read_bytes()


@given(data=st.data())
@fuzzed
def test_gguf_files(folder: Path, gguf: bytes, data: st.DataObject) -> None:
    """A file is converted into a folder that opens, or refused, and then nothing is left."""
    from quail_engine.engine.local.weights import open_checkpoint
    from quail_engine.models.convert import convert

    path, target = folder / "x.gguf", folder / "converted"
    path.write_bytes(data.draw(damaged(gguf, 3_800)))
    with no_hang():
        try:
            convert(path, "0" * 64, target, "x")
        except ModelError:
            assert not target.exists()
        else:
            open_checkpoint(target)
            shutil.rmtree(target)


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    pytest.importorskip("torch", reason="without the extra `local` there is nothing that reads models")
    from reference.decoder import write_tiny_folder

    written = write_tiny_folder(folder / "model", "llama", num_layers=1)
    description = json.loads((written / "quail.json").read_text())
    description["files"] = {"model.safetensors": "0" * 64}
    (written / "quail.json").write_text(json.dumps(description))
    return written


@given(data=st.data())
@fuzzed
def test_safetensors_and_their_description(model: Path, data: st.DataObject) -> None:
    from quail_engine.engine.local.model import build_decoder
    from quail_engine.engine.local.weights import open_checkpoint
    from quail_engine.models.folder import read_folder

    name, spots = data.draw(st.sampled_from([("model.safetensors", 1_500), ("quail.json", 600)]))
    whole = (model / name).read_bytes()
    try:
        (model / name).write_bytes(data.draw(damaged(whole, spots)))
        with no_hang(), suppress(ModelError):
            read_folder(model)
        with no_hang(), suppress(ModelError):
            checkpoint = open_checkpoint(model)
            build_decoder(checkpoint, _float32(), lambda *_: None)
    finally:
        (model / name).write_bytes(whole)


def _float32() -> object:
    import torch

    return torch.float32


@given(text=st.text(max_size=50) | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), _nested).map(json.dumps))
@fuzzed
def test_labels_that_come_with_rows(text: str) -> None:
    with no_hang(), suppress(ValueError):
        assert len(labels_of(text)) >= 2


@given(text=templates, arguments=st.integers(0, 3))
@fuzzed
def test_templates(text: str, arguments: int) -> None:
    columns = ["a", "b", "c"][:arguments]
    literal = "'" + text.replace("'", "''") + "'"
    sql = f"select AI_FILTER(PROMPT({', '.join([literal, *columns])})) from t"
    refused = None
    with no_hang():
        try:
            for statement in split(sql):
                analyze(sql, statement)
        except SqlError as error:
            refused = error
    assert refused is None or 0 <= refused.position < refused.end <= len(sql)


@given(sql=statements())
@fuzzed
def test_statements_are_analysed_or_refused(sql: str) -> None:
    refused = None
    with no_hang():
        try:
            contains_ai(sql)
            for statement in split(sql) if mentions_ai(sql) else ():
                if statement.calls:
                    analyze(sql, statement)
        except SqlError as error:
            refused = error
    assert refused is None or (0 <= refused.position <= len(sql) and str(refused))


@pytest.mark.parametrize("depth", [50, 2_000])
@pytest.mark.parametrize(
    "shape", ["({})", "not {}", "- {}", "case when {} then 1 end", "(select {})", "{} and true", "{} || 'x'"]
)
def test_deep_nesting_ends(depth: int, shape: str) -> None:
    before, after = shape.split("{}")
    sql = f"select {before * depth}AI_FILTER('is it ''red''?', 'x'){after * depth}"
    with no_hang(), suppress(QuailError):
        contains_ai(sql)
        for statement in split(sql):
            analyze(sql, statement)


@pytest.mark.parametrize(
    "sql",
    [
        "update(create table n as select * from t where AI_FILTER('red?', a))",
        "select AI_CLASSIFY(a, ['x', 'y'], {'output_mode',: 'multi'}) from t",
        "select AI_CLASSIFY(a, ['x', 'y'], {'outmulti'}) from t",
        "explain else((((select distinct on (AI_FILTER('red?', a)) * exclude (a) from t pivot (count(*) for b in ('x'))",
        "select AI_FILTER(PROMPT('{" + "1" * 5_000 + "}', a))",
    ],
)
def test_what_was_found_is_refused_with_its_place(sql: str) -> None:
    (statement,) = split(sql)
    with pytest.raises(SqlError, match="line 1: "):
        analyze(sql, statement)


def test_a_prompt_that_mixes_operators_is_one_text() -> None:
    sql = "select AI_FILTER('1' | '2' || a) from t"
    (statement,) = split(sql)
    assert [call.arguments for call in analyze(sql, statement).calls] == [("'1' | '2' || a",)]


@pytest.fixture(scope="module")
def con() -> Iterator[quail_engine.Connection]:
    with quail_engine.connect(engine="mock", max_requests=1_000) as connection:
        yield connection


@given(sql=statements())
@fuzzed
def test_statements_run_or_are_refused(
    con: quail_engine.Connection, tmp_path_factory: pytest.TempPathFactory, sql: str
) -> None:
    if "copy" in sql.lower() or "attach" in sql.lower():
        return  # they would write files
    con.sql("create or replace table t as select 1 as id, 'a red' as a, 'b' as b union all select 2, null, 'red'")
    con.sql("create or replace table u as from t")
    with no_hang(), suppress(QuailError, duckdb.Error):
        con.sql(sql)
    with suppress(duckdb.Error):
        con.sql("rollback")
