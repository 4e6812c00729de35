"""Hidden features by answer key: what decisions were fitted to, kept so that fitting again asks nothing.

They are a cache, not answers: one that is lost costs asking again when labelled rows change. They lie in Arrow IPC files of two
columns, key and features, which are float16 numbers end to end, and with the version of what features are; files of another
version are not read. A file appears whole, is never changed, and is read where it lies. The oldest go when all have more bytes
than the store may keep. Beside them lie the fitted rules, one small file each.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quail_engine.answers import files
from quail_engine.answers.keys import FEATURES, KEY_BYTES

Vector = NDArray[np.float32]

_FILE_BYTES = 1 << 23  # of features that are gathered before a file is written
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
        self._fresh: dict[bytes, bytes] = {}
        self._fresh_bytes = 0
        self._places: _Places = {}
        self._read: set[Path] = set()
        self._rules: dict[bytes, bytes] = {}
        self._lock = threading.Lock()

    def recall(self, keys: Iterable[bytes]) -> dict[bytes, Vector]:
        """The features that are known."""
        with self._lock:
            self._read_new_files()
            found = {key: content for key in keys if (content := self._content(key)) is not None}
        return {key: np.frombuffer(content, "<f2").astype(np.float32) for key, content in found.items()}

    def remember(self, keys: Sequence[bytes], features: Vector) -> None:
        """Keeps a row of features a key, float16 numbers all of them, on disk at the latest when the store is closed."""
        contents = [row.tobytes() for row in features.astype("<f2")]
        with self._lock:
            self._fresh |= dict(zip(keys, contents, strict=True))
            self._fresh_bytes += sum(map(len, contents))
            if self._folder and self._writes:
                if self._fresh_bytes >= _FILE_BYTES:
                    self._write(self._folder)
            elif self._fresh_bytes >= _MEMORY_BYTES:
                self._fresh, self._fresh_bytes = dict(zip(keys, contents, strict=True)), sum(map(len, contents))

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
        """Writes what is not yet on disk and lets go of the files. The store is not used afterwards."""
        with self._lock:
            if self._folder and self._writes:
                self._write(self._folder)
            self._places.clear()
            self._fresh.clear()

    def _content(self, key: bytes) -> bytes | None:
        fresh = self._fresh.get(key)
        if fresh is not None:
            return fresh
        place = self._places.get(key)
        return None if place is None else bytes(place[0][place[1]].as_py())

    def _read_new_files(self) -> None:
        for path in self._files():
            if path not in self._read:
                self._read.add(path)
                with suppress(OSError, pa.ArrowInvalid):
                    self._places |= _places(path)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{_SUFFIX}")) if self._folder else []

    def _create(self, folder: Path) -> None:
        files.private_folder(folder)
        files.private_folder(folder / "rules")
        if not (folder / ".gitignore").exists():
            files.write_private(folder / ".gitignore", b"*\n")

    def _write(self, folder: Path) -> None:
        if not self._fresh:
            return
        sink = pa.BufferOutputStream()
        columns = [pa.array(self._fresh.keys(), pa.binary(KEY_BYTES)), pa.array(self._fresh.values(), pa.binary())]
        with pa.ipc.new_file(sink, _SCHEMA) as writer:
            writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
        try:
            self._create(folder)
            files.write_private(folder / f"{uuid.uuid4().hex}{_SUFFIX}", sink.getvalue().to_pybytes())
            self._forget_oldest()
        except OSError:
            self._writes = False  # from here on as a store without a folder
            return
        self._read_new_files()
        self._fresh, self._fresh_bytes = {}, 0

    def _forget_oldest(self) -> None:
        """Deletes files until the others are within the limit. Processes that have one open read on."""
        sizes = {path: path.stat() for path in self._files()}
        total = sum(found.st_size for found in sizes.values())
        for path in sorted(sizes, key=lambda path: sizes[path].st_mtime_ns):
            if total <= self._limit:
                return
            total -= sizes[path].st_size
            path.unlink(missing_ok=True)


def _rule_path(folder: Path, key: bytes) -> Path:
    return folder / "rules" / f"{key.hex()}.json"


def _places(path: Path) -> _Places:
    """Key → its place in a file, which stays on disk until it is read. Raises OSError and ArrowInvalid."""
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    if not table.schema.equals(_SCHEMA, check_metadata=True):
        raise pa.ArrowInvalid(f"{path} is not a file of features")
    places: _Places = {}
    for batch in table.to_batches():
        keys, features = batch.columns
        places.update((key, (features, row)) for row, key in enumerate(keys.to_pylist()))
    return places
