"""Hidden features by answer key: what decisions were fitted to, kept so that fitting again asks nothing.

They are a cache, not answers: one that is lost costs asking again when labelled rows change. Like answers they go to this
process's journal as they come, and the next process that writes goes on with it. At `_FILE_BYTES` it becomes an Arrow IPC file
that is never changed and is read where it lies. Both hold batches of two columns, key and features, which are float16 numbers
end to end, and begin with the version of what features are; files of another version are not read. The oldest go when all have
more bytes than the store may keep. Beside them lie the fitted rules, one small file each.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quail_engine.answers import files, frames
from quail_engine.answers.keys import FEATURES, KEY_BYTES

Vector = NDArray[np.float32]

_FILE_BYTES = 1 << 23  # of features in a journal that becomes a file
_MEMORY_BYTES = 1 << 28  # that a store without a folder remembers; then it begins anew
_SCHEMA = pa.schema([("key", pa.binary(KEY_BYTES)), ("features", pa.binary())], {"version": FEATURES})
_SUFFIX = ".arrow"
_Places = dict[bytes, tuple[pa.Array, int]]


class FeatureStore:
    """Features and rules under `folder`, None: in memory. Safe to use from several threads.

    What cannot be read is taken as unknown, and what cannot be written is only remembered by this process: nobody waits for a
    cache.
    """

    def __init__(self, folder: Path | None, limit_bytes: int, writes: bool = True) -> None:
        """`limit_bytes`: of the files together; `writes` False never makes a file."""
        self._folder = folder
        self._limit = limit_bytes
        self._writes = writes and limit_bytes > 0
        self._fresh: dict[bytes, bytes] = {}  # what our own journal holds, or all that was remembered without one
        self._fresh_bytes = 0
        self._journal: frames.Writer | None = None
        self._places: _Places = {}
        self._read: dict[Path, int] = {}  # how far
        self._rules: dict[bytes, bytes] = {}
        self._lock = threading.Lock()

    def recall(self, keys: Iterable[bytes]) -> dict[bytes, Vector]:
        """The features that are known."""
        with self._lock:
            self._read_new_files()
            found = {key: content for key in keys if (content := self._content(key)) is not None}
        return {key: np.frombuffer(content, "<f2").astype(np.float32) for key, content in found.items()}

    def remember(self, keys: Sequence[bytes], features: Vector) -> None:
        """Keeps a row of features a key, float16 numbers all of them, as `AnswerStore.remember` keeps answers."""
        rows = dict(zip(keys, (row.tobytes() for row in features.astype("<f2")), strict=True))
        with self._lock, self._writing() as folder:
            if not folder and self._fresh_bytes >= _MEMORY_BYTES:
                self._forget()
            self._note(rows)
            if folder:
                self._append(folder, rows)
                if self._fresh_bytes >= _FILE_BYTES:
                    self._seal(folder)

    def flush(self) -> None:
        """Returns when everything remembered would survive a power cut."""
        with self._lock, self._writing():
            if self._journal:
                self._journal.sync()

    def rule(self, key: bytes) -> bytes | None:
        """The rule that was kept for a question with labelled rows."""
        with self._lock:
            if key not in self._rules and self._folder:
                with suppress(OSError):
                    self._rules[key] = _rule_path(self._folder, key).read_bytes()
            return self._rules.get(key)

    def keep_rule(self, key: bytes, rule: bytes) -> None:
        with self._lock:
            self._rules[key] = rule
            if self._folder and self._writes:
                with suppress(OSError):
                    self._create(self._folder)
                    files.write_private(_rule_path(self._folder, key), rule)

    def close(self) -> None:
        """Leaves the journal to the next process and lets go of the files. The store is not used afterwards."""
        with self._lock:
            journal, self._journal = self._journal, None
            with self._writing():
                if journal:
                    journal.close()
            self._places.clear()
            self._forget()

    @contextmanager
    def _writing(self) -> Iterator[Path | None]:
        """The folder, if it is written to. Where that fails nothing more is: what comes is only remembered."""
        try:
            yield self._folder if self._writes else None
        except OSError:
            self._writes = False

    def _content(self, key: bytes) -> bytes | None:
        fresh = self._fresh.get(key)
        if fresh is not None:
            return fresh
        place = self._places.get(key)
        return None if place is None else bytes(place[0][place[1]].as_py())

    def _read_new_files(self) -> None:
        for path in self._files():
            with suppress(OSError, pa.ArrowException):
                if path.suffix == _SUFFIX and path not in self._read:
                    self._read[path] = 0
                    self._places |= _places(path)
                elif path.suffix == frames.SUFFIX and not (self._journal and path == self._journal.path):
                    found, self._read[path] = _JOURNAL.read(path, self._read.get(path, 0))
                    for places in found:
                        self._places |= places

    def _files(self) -> Iterator[Path]:
        """Journals, and when these have been looked at the others: one that is sealed in between is then among those."""
        for suffix in (frames.SUFFIX, _SUFFIX):
            yield from sorted(self._folder.glob(f"*{suffix}")) if self._folder else ()

    def _create(self, folder: Path) -> None:
        files.private_folder(folder)
        files.private_folder(folder / "rules")
        if not (folder / ".gitignore").exists():
            files.write_private(folder / ".gitignore", b"*\n")

    def _note(self, rows: Mapping[bytes, bytes]) -> None:
        self._fresh |= rows
        self._fresh_bytes += sum(map(len, rows.values()))

    def _forget(self) -> None:
        self._fresh, self._fresh_bytes = {}, 0

    def _append(self, folder: Path, rows: Mapping[bytes, bytes]) -> None:
        if self._journal and self._journal.deleted:
            gone, self._journal = self._journal, None
            gone.close()
        if self._journal is None:
            self._journal = self._open(folder)
        self._journal.append(_batch(rows).serialize().to_pybytes())

    def _open(self, folder: Path) -> frames.Writer:
        """An abandoned journal to go on with, else a new one."""
        self._create(folder)
        for path in sorted(folder.glob(f"*{frames.SUFFIX}")):
            if writer := _JOURNAL.adopt(path):
                for places in _JOURNAL.read(path)[0]:
                    self._note({key: bytes(column[row].as_py()) for key, (column, row) in places.items()})
                return writer
        return _JOURNAL.create(folder)

    def _seal(self, folder: Path) -> None:
        """Our journal becomes a file; the next features begin another one."""
        assert self._journal, "a journal is open"
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, _SCHEMA) as writer:
            writer.write_batch(_batch(self._fresh))
        files.write_private(folder / f"{uuid.uuid4().hex}{_SUFFIX}", sink.getvalue().to_pybytes())
        sealed, self._journal = self._journal, None
        sealed.remove()
        self._forget()
        self._forget_oldest()
        self._read_new_files()

    def _forget_oldest(self) -> None:
        """Deletes files until the others are within the limit. Processes that have one open read on."""
        sizes: dict[Path, os.stat_result] = {}
        for path in self._files():
            with suppress(FileNotFoundError):  # sealed by its process since the listing
                sizes[path] = path.stat()
        total = sum(found.st_size for found in sizes.values())
        for path in sorted(sizes, key=lambda path: sizes[path].st_mtime_ns):
            if total <= self._limit:
                return
            total -= sizes[path].st_size
            path.unlink(missing_ok=True)


def _rule_path(folder: Path, key: bytes) -> Path:
    return folder / "rules" / f"{key.hex()}.json"


def _batch(rows: Mapping[bytes, bytes]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(rows.keys(), pa.binary(KEY_BYTES)), pa.array(rows.values(), pa.binary())], schema=_SCHEMA)


def _places(path: Path) -> _Places:
    """Key → its place in a file, which stays on disk until it is read. Raises OSError and ArrowException."""
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    if not table.schema.equals(_SCHEMA, check_metadata=True):
        raise pa.ArrowInvalid(f"{path} is not a file of features")
    return {key: place for batch in table.to_batches() for key, place in _places_in(batch).items()}


def _places_in(batch: pa.RecordBatch) -> _Places:
    batch.validate(full=True)
    keys, features = batch.columns
    return {key: (features, row) for row, key in enumerate(keys.to_pylist())}


def _decode(payload: memoryview) -> _Places | None:
    try:
        return _places_in(pa.ipc.read_record_batch(pa.py_buffer(payload), _SCHEMA))
    except (OSError, EOFError, pa.ArrowException):
        return None


_JOURNAL = frames.Format(f"{FEATURES}\n".encode(), _decode)
