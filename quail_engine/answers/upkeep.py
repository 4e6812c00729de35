"""What is done to a whole store: statistics, checking, compaction, clearing."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quail_engine.answers import files, journal, segments
from quail_engine.answers.folder import Folder
from quail_engine.answers.frames import Writer
from quail_engine.answers.journal import Record
from quail_engine.answers.keys import KEY_BYTES
from quail_engine.answers.segments import Segments
from quail_engine.arrow import of_keys

MERGED_ANSWERS = 1 << 18  # answers of a segment after compaction, about 10 MB; building one takes some 200 MB
STALE_SECONDS = 3_600.0  # a partial file this old belongs to no process that still writes it
_KEY_RANGE = 1 << 16  # compaction cuts by the first two bytes of a key


@dataclass(frozen=True)
class QuestionStats:
    template: str
    model: str
    answers: int
    tokens: int  # what asking again would cost, without shared prefixes


@dataclass(frozen=True)
class StoreStats:
    path: str
    answers: int  # an answer that two processes asked at once counts twice until compaction
    segments: int
    journals: int
    bytes: int
    questions: tuple[QuestionStats, ...]  # most answers first


@dataclass(frozen=True)
class CheckReport:
    segments: int  # whole ones
    journals: int
    answers: int
    damaged: tuple[str, ...]  # file names of the segments that were moved away
    torn: tuple[tuple[str, int], ...]  # journals and how many bytes follow their last whole record


def seal(folder: Folder, writer: Writer, send: Callable[[Path], None] | None = None) -> None:
    """Turns a journal into a segment. Until that is durable, and sent where it has to be, the journal stays. Raises OSError."""
    records, _ = journal.read(writer.path)
    if records:
        path = segments.write(folder.segments, segments.table_of(records))
        if send:
            send(path)
    writer.remove()


def stats(folder: Folder, sealed: Segments) -> StoreStats:
    """Raises OSError, duckdb.Error."""
    journals, paths = folder.journal_paths(), sealed.paths()
    tables = [segments.table_of(_read(path)[0]) for path in journals]
    columns = ["template", "model", "tokens"]
    found = sealed.query("select template, model, tokens from segments")
    parts = [table.select(columns).cast(_stats_schema()) for table in (*tables, found) if table is not None]
    rows = pa.concat_tables(parts) if parts else _stats_schema().empty_table()
    groups = rows.group_by(["template", "model"]).aggregate([("tokens", "count"), ("tokens", "sum")]).to_pylist()
    questions = [QuestionStats(g["template"], g["model"], g["tokens_count"], g["tokens_sum"]) for g in groups]
    return StoreStats(
        path=str(folder.root),
        answers=rows.num_rows,
        segments=len(paths),
        journals=len(journals),
        bytes=sum(_size(path) for path in (*journals, *paths)),
        questions=tuple(sorted(questions, key=lambda q: (-q.answers, q.template, q.model))),
    )


def count(folder: Folder, sealed: Segments, questions: Sequence[bytes]) -> int:
    """Answers to questions with these keys. Raises OSError, duckdb.Error."""
    records = [record for path in folder.journal_paths() for record in _read(path)[0]]
    wanted = pa.table({"question": of_keys(questions, KEY_BYTES)})
    found = sealed.query("select count(*) as n from segments semi join wanted using (question)", wanted=wanted)
    in_segments = found["n"][0].as_py() if found else 0
    return sum(len(record.keys) for record in records if record.question in questions) + int(in_segments)


def shares(folder: Folder, sealed: Segments, question: bytes, least: float) -> tuple[int, int]:
    """Answers to a question, and those of them whose first number is at least `least`. Raises OSError, duckdb.Error."""
    records = [record for path in folder.journal_paths() for record in _read(path)[0] if record.question == question]
    numbers = [answer.values[0] for record in records for answer in record.answers]
    wanted = pa.table({"question": pa.array([question], pa.binary(KEY_BYTES)), "least": pa.array([least], pa.float64())})
    found = sealed.query(
        'select count(*) as n, count(*) filter (where "values"[1] >= least) as hits from segments join wanted using (question)',
        wanted=wanted,
    )
    sealed_answers, sealed_hits = (int(found[name][0].as_py()) for name in ("n", "hits")) if found else (0, 0)
    return len(numbers) + sealed_answers, sum(number >= least for number in numbers) + sealed_hits


def _stats_schema() -> pa.Schema:
    return pa.schema([("template", pa.string()), ("model", pa.string()), ("tokens", pa.uint32())])


def check(folder: Folder) -> CheckReport:
    """Raises OSError."""
    whole, damaged, answers = 0, [], 0
    for path in sorted(folder.segments.glob("*.parquet")):
        if segments.is_whole(path):
            whole += 1
            answers += pq.read_metadata(path).num_rows
        else:
            files.private_folder(folder.damaged)
            path.replace(folder.damaged / path.name)
            damaged.append(path.name)
    journals, torn = folder.journal_paths(), []
    for path in journals:
        size = _size(path)
        records, end = _read(path)
        answers += sum(len(record.keys) for record in records)
        rest = size - end
        if rest > 0:
            torn.append((path.name, rest))
    return CheckReport(whole, len(journals), answers, tuple(damaged), tuple(torn))


def compact(folder: Folder, sealed: Segments) -> None:
    """Raises OSError, duckdb.Error."""
    seal_abandoned(folder)
    _sweep(folder)
    old = sealed.paths()
    # Keys are spread evenly, so equal ranges of them are parts of about MERGED_ANSWERS each.
    parts = math.ceil(sum(pq.read_metadata(path).num_rows for path in old) / MERGED_ANSWERS)
    bounds = [f"from_hex('{part * _KEY_RANGE // parts:04x}')" for part in range(parts)] + [None]
    new = set()
    for low, high in itertools.pairwise(bounds):
        # Of two answers to a key the greater (time, values) counts, as in `Stored.newest`.
        found = sealed.query(
            f"select * from segments where key >= {low} and {f'key < {high}' if high else 'true'}"
            ' qualify row_number() over (partition by key order by time desc, "values" desc) = 1 order by key'
        )
        if found:
            new.add(segments.write(folder.segments, segments.as_segment(found)))
    _remove(folder, [path for path in old if path not in new])


def clear(
    folder: Folder, sealed: Segments, template: str | None, model: str | None, before: datetime | None
) -> tuple[int, int]:
    """Answers that were deleted, and journals of running processes, which were not looked at. Raises OSError."""
    left = seal_abandoned(folder)
    assert before is None or before.tzinfo, "a time without a zone is a different moment on every machine"
    removed, old = 0, []
    for path in sealed.paths():
        table = pq.read_table(path)
        doomed = pa.array([True] * table.num_rows)
        for column, value in (("template", template), ("model", model)):
            if value is not None:
                doomed = pc.and_(doomed, pc.equal(table[column], value))
        if before is not None:
            doomed = pc.and_(doomed, pc.less(table["time"], pa.scalar(before, segments.SCHEMA.field("time").type)))
        count = pc.sum(doomed).as_py()
        if count:
            if count < table.num_rows:
                segments.write(folder.segments, segments.as_segment(table.filter(pc.invert(doomed))))
            old.append(path)
            removed += count
    _remove(folder, old)
    return removed, left


def seal_abandoned(folder: Folder, send: Callable[[Path], None] | None = None) -> int:
    """Seals the journals of processes that have ended, sends them where they have to be, and gives how many have an owner."""
    owned = 0
    for path in folder.journal_paths():
        writer = journal.FORMAT.adopt(path)
        if writer:
            seal(folder, writer, send)
        else:
            owned += 1
    return owned


def _read(path: Path) -> tuple[list[Record], int]:
    """As `journal.read`; nothing for a journal that its owner has sealed since the listing."""
    try:
        return journal.read(path)
    except FileNotFoundError:
        return [], 0


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sweep(folder: Folder) -> None:
    """Removes what processes left that were killed while writing a file."""
    for path in (*folder.segments.glob(".*.partial"), *folder.journals.glob(".*.partial")):
        if time.time() - path.stat().st_mtime > STALE_SECONDS:
            path.unlink(missing_ok=True)


def _remove(folder: Folder, paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
    files.sync_folder(folder.segments)
