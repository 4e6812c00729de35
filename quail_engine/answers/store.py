"""The answer store: recall what was asked before, remember what was answered now.

Answers go to this process's journal as they come; at `SEAL_ANSWERS` the journal becomes a segment. A journal that a process
left behind is adopted by the next one that writes, so there are never more journals than processes wrote at once. Processes
share a folder without a server: every file has one writer, and files appear and vanish whole.
"""

from __future__ import annotations

import itertools
import logging
import math
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from quail_engine.answers import journal, transfer, upkeep
from quail_engine.answers.answer import Answer
from quail_engine.answers.failures import Failure, FailureLog
from quail_engine.answers.folder import Folder
from quail_engine.answers.frames import Writer
from quail_engine.answers.journal import Record
from quail_engine.answers.keys import KEY_BYTES, features_key, truncated_key
from quail_engine.answers.remote import Remote
from quail_engine.answers.segments import Segments, Stored
from quail_engine.answers.shared import SharedStore
from quail_engine.answers.tables import TableRecords
from quail_engine.answers.tails import Tails, merge, newest, newest_time, note
from quail_engine.answers.upkeep import CheckReport, StoreStats
from quail_engine.errors import AnswerStoreError
from quail_engine.settings import AnswersSettings, is_url

SEAL_ANSWERS = 1 << 16
READ_ONLY_ANSWERS = 1 << 20  # new answers that a `read_only` store has in memory, some 400 bytes each; then the older half goes
_log = logging.getLogger(__name__)


class AnswerStore:
    """Answers by content key. Nothing is opened or created before the first use. Safe to use from several threads.

    Every method raises AnswerStoreError where the folder cannot be read or written.
    """

    def __init__(self, settings: AnswersSettings, namespace: str, warn: Callable[[str], None] = _log.warning) -> None:
        """`namespace` is the engine's name: a mock's answers lie in a folder apart, `<path>/mock`, and never meet a model's.

        `warn` is told what a user should know and what stops nothing.
        """
        path = settings.path if settings.mode != "off" else None
        self._remote = Remote(path, namespace, warn) if path and is_url(path) else None
        self._folder = self._remote.folder if self._remote else None
        if path and not self._remote:
            self._folder = Folder.at(path, namespace, settings.group_readable)
        self._shared = [] if settings.mode == "off" else [SharedStore(place, namespace, warn) for place in settings.shared]
        self._mode = settings.mode
        self._warn = warn
        self._segments = Segments(self._folder.segments, warn) if self._folder else None
        self._tails = Tails(self._folder) if self._folder else None
        self._lock = threading.RLock()
        self._fetched = False  # the copy of a store at a URL is as new as this process
        self._recent: dict[bytes, Stored] = {}  # what our own journal holds, or all that was remembered without one
        self._writer: Writer | None = None

    def recall(self, keys: Sequence[bytes], since: int = 0) -> dict[bytes, Answer]:
        """The answers that are known, of this process and, as far as they are on disk, of all others; what is not is looked for
        in the shared stores, in their order.

        Those given before `since` (microseconds since 1970 UTC) are taken as unknown.
        """
        if self._mode == "off" or not keys:
            return {}
        with self._reading():
            # Journals before segments: a journal that is sealed in between is then found in its segment.
            with self._lock:
                self._fetch()
                others = self._tails.read(self._writer.path if self._writer else None) if self._tails else []
                found = newest(keys, [self._recent, *others])
            if self._segments:
                found = merge(found, self._segments.recall(keys))
            for shared in self._shared:
                if missing := [key for key in keys if key not in found]:
                    found |= shared.recall(missing)
        return {key: stored.answer for key, stored in found.items() if stored.time >= since}

    def latest(self) -> int:
        """When the newest answer that `recall` could give was given; 0 where there is none. A clock may have been ahead."""
        if self._mode == "off":
            return 0
        with self._reading():
            with self._lock:
                self._fetch()
                times = [newest_time(self._recent)]
                times += map(newest_time, self._tails.read(self._writer.path if self._writer else None) if self._tails else ())
            times += [self._segments.latest()] if self._segments else []
            return max(times + [shared.latest() for shared in self._shared])

    def _fetch(self) -> None:
        if self._remote and not self._fetched:
            self._remote.fetch()
            self._fetched = True

    def remember(
        self,
        question_key: bytes,
        template_text: str,
        answers: Sequence[tuple[bytes, Answer]],
        model: str = "",
        dtype: str = "",
        since: int = 0,
    ) -> None:
        """Keeps the answers to one question by their keys; durable after the next `flush`, or a second later. A `read_only`
        store keeps them in memory, so that it is not asked twice in a process.

        Template, model and dtype are for people (statistics, clearing); they are no part of any key. A later answer to the
        same key replaces an earlier one. The time is now, or `since` where that is later: the answers are then newer than
        those that a `recall` of this `since` took as unknown, whatever clocks there are.
        """
        if self._mode == "off" or not answers:
            return
        assert len(question_key) == KEY_BYTES, "not a question key"
        for key, answer in answers:
            assert len(key) == KEY_BYTES, "not an answer key"
            assert all(map(math.isfinite, answer.values)), "a failed request has no answer to remember"
        keys, kept = zip(*answers, strict=True)
        record = Record(question_key, template_text, model, dtype, max(time.time_ns() // 1000, since), keys, kept)
        with self._lock, self._writing():
            written = self._folder if self._mode == "read_write" else None
            if written:
                self._append(written, record)
            note(self._recent, [record])
            if written and len(self._recent) >= SEAL_ANSWERS:
                self._seal(written)
            elif self._mode == "read_only" and len(self._recent) > READ_ONLY_ANSWERS:
                self._recent = dict(itertools.islice(self._recent.items(), READ_ONLY_ANSWERS // 2, None))

    def remember_failures(
        self, question_key: bytes, template_text: str, keys: Sequence[bytes], reason: str, model: str = "", node: str = ""
    ) -> None:
        """Keeps why these inputs have no answer, for `failures`; a store in memory keeps nothing of it.

        Failures are not answers: the inputs are asked again by the next statement that needs them.
        """
        if self._mode != "read_write" or not self._folder or not keys:
            return
        failure = Failure(template_text, model, reason, node, time.time_ns() // 1000, tuple(keys), question_key)
        with self._lock, self._writing():
            self._folder.create()
            FailureLog(self._folder.failures).append(failure)

    def failures(self) -> list[Failure]:
        """What failed, newest first, without the inputs that have been answered by now."""
        if not self._folder:
            return []
        with self._reading():
            failures = FailureLog(self._folder.failures).read()
        keys = [key for failure in failures for key in failure.keys]
        ways = {key: (key, truncated_key(key), features_key(key), features_key(truncated_key(key))) for key in keys}
        answered = self.recall([way for own in ways.values() for way in own])
        open_keys = {key for key, own in ways.items() if answered.keys().isdisjoint(own)}
        left = [replace(failure, keys=tuple(filter(open_keys.__contains__, failure.keys))) for failure in failures]
        return [failure for failure in left if failure.keys]

    def table_record(self, table: str) -> dict[str, Any] | None:
        """What `keep_table_record` kept for a table last; None where there is nothing, and for a store in memory."""
        if not self._folder or self._mode == "off":
            return None
        with self._reading():
            return TableRecords(self._folder.tables).read(table)

    def keep_table_record(self, table: str, record: dict[str, Any]) -> None:
        if self._folder and self._mode == "read_write":
            with self._lock, self._writing():
                self._folder.create()
                TableRecords(self._folder.tables).write(table, record)

    def try_write(self) -> None:
        """Makes the folder, and a file in it that is gone afterwards: whether answers can be kept, before any is paid for."""
        if self._folder and self._mode == "read_write":
            with self._writing():
                self._folder.create()
                tempfile.TemporaryFile(dir=self._folder.journals).close()

    def flush(self) -> None:
        """Returns when everything remembered is on disk and would survive a power cut."""
        with self._lock, self._writing():
            if self._writer:
                self._writer.sync()

    def close(self) -> None:
        """Flushes, and leaves the journal to the next process; to a store at a URL it sends its answers.

        Memory-only answers are gone; the store is not used again.
        """
        with self._lock, self._writing():
            if self._folder and self._remote and self._writer:
                self._seal(self._folder)
            if self._writer:
                self._writer.close()
                self._writer = None
        for opened in (self._segments, *self._shared):
            if opened:
                opened.close()

    def stats(self) -> StoreStats:
        """What the store holds. A store without a folder knows no templates and gives only the number of answers."""
        if not self._folder or not self._segments:
            return StoreStats("", len(self._recent), 0, 0, 0, ())
        with self._reading():
            self._fetch()
            return upkeep.stats(self._folder, self._segments)

    def count(self, question_keys: Sequence[bytes]) -> int:
        """Answers that the own store holds to these questions; one that two processes gave may count twice."""
        if not self._folder or not self._segments or self._mode == "off":
            return 0
        with self._reading():
            return upkeep.count(self._folder, self._segments, question_keys)

    def shares(self, question_key: bytes, least: float) -> tuple[int, int]:
        """Answers that the own store holds to a question, and those of them whose first number is at least `least`.

        One that two processes gave may count twice; a store in memory tells nothing.
        """
        if not self._folder or not self._segments or self._mode == "off":
            return 0, 0
        with self._reading():
            return upkeep.shares(self._folder, self._segments, question_key, least)

    def check(self) -> CheckReport:
        """Verifies every segment and journal; a damaged segment is moved to the folder `damaged`, and only it is lost."""
        with self._upkeep() as (folder, _):
            return upkeep.check(folder)

    def compact(self) -> None:
        """Merges all segments and abandoned journals into few files, each answer once."""
        with self._upkeep() as (folder, segments):
            upkeep.compact(folder, segments)

    def clear(self, template: str | None = None, model: str | None = None, before: datetime | None = None) -> int:
        """Deletes the answers to which every given condition applies (all answers, without one) and says how many.

        `before` keeps what is as new or newer; it has a time zone. Answers in the journals of running processes stay.
        """
        with self._upkeep() as (folder, segments):
            assert self._folder
            FailureLog(self._folder.failures).clear(template, model, before)
            removed, left = upkeep.clear(folder, segments, template, model, before)
        if left:
            self._warn(f"answers: {left:,} journals of running processes were not cleared.")
        return removed

    def export(self, path: Path, prompt: str | None = None, model: str | None = None, since: datetime | None = None) -> int:
        """Writes answers to a Parquet file and says how many: whose question contains `prompt`, of a model, given since."""
        if not self._folder or not self._segments:
            raise AnswerStoreError("Answers in memory cannot be exported: name a folder in `answers`.")
        with self._reading():
            self._fetch()
            return transfer.write_file(self._folder, self._segments, path, prompt, model, since)

    def import_(self, path: Path) -> int:
        """Adds the answers of an exported file and says how many there are. Of two to one key the newest counts."""
        with self._upkeep() as (folder, _):
            return transfer.read_file(folder, path)

    def _append(self, folder: Folder, record: Record) -> None:
        if self._writer and self._writer.deleted:
            self._writer.close()
            self._writer = None
        if self._writer is None:
            self._writer = self._open(folder)
        self._writer.append(journal.encode(record))

    def _open(self, folder: Folder) -> Writer:
        """An abandoned journal to go on with, else a new one. An abandoned one that is full is sealed on the way."""
        folder.create()
        for path in folder.journal_paths():
            writer = journal.FORMAT.adopt(path)
            if writer is None:
                continue
            self._writer = writer
            note(self._recent, journal.read(path)[0])
            if len(self._recent) < SEAL_ANSWERS:
                return writer
            self._seal(folder)
        return journal.FORMAT.create(folder.journals)

    def _seal(self, folder: Folder) -> None:
        """Our journal becomes a segment; the next answer begins another journal."""
        assert self._writer, "a journal is open"
        upkeep.seal(folder, self._writer, self._remote.push if self._remote else None)
        self._writer = None
        self._recent = {}

    @contextmanager
    def _upkeep(self) -> Iterator[tuple[Folder, Segments]]:
        """All answers but those in journals of running processes, to be worked on by nobody else on this machine."""
        if not self._folder or self._mode != "read_write":
            raise AnswerStoreError("These answers are not kept in a folder that may be written: there is nothing to do.")
        with self._lock, self._writing():
            self._folder.create()
            with self._folder.upkeep():
                if self._writer:
                    self._seal(self._folder)
                if not self._remote:
                    assert self._segments
                    yield self._folder, self._segments
                    return
                upkeep.seal_abandoned(self._folder, self._remote.push)
                self._fetched = False  # the copy is as old as before
                with self._remote.whole() as folder, closing(Segments(folder.segments, self._warn)) as segments:
                    yield folder, segments

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, duckdb.Error) as error:
            raise AnswerStoreError(f"The answers at {self.place} cannot be read: {error}.") from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, duckdb.Error) as error:
            raise AnswerStoreError(
                f"The answers at {self.place} cannot be written: {error}. What was kept before is not lost. Make room or give"
                " write permission, or set `answers` to another folder, or its mode to read_only."
            ) from error

    @property
    def place(self) -> str:
        """Where the answers are, for people."""
        if self._remote:
            return self._remote.url
        return str(self._folder.root) if self._folder else "in memory"
