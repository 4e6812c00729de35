"""The journal: answers as they arrive, in a file that one process appends to.

A file is the magic line and then records; a record is its payload's length (4 bytes, little-endian), the CRC-32 of length and
payload (4 bytes), and the payload: `_HEAD`; template, model and dtype in UTF-8; the answer keys; and as 4-byte numbers each
answer's tokens, how many values each has, and all values. Whoever reads takes records until the first that is incomplete or
fails its checksum, so that a process killed while writing loses only its last record.
"""

from __future__ import annotations

import itertools
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quail_engine.answers import files
from quail_engine.answers.answer import Answer
from quail_engine.answers.keys import KEY_BYTES

MAGIC = b"quail journal 1\n"
_FRAME = struct.Struct("<II")
_HEAD = struct.Struct(f"<{KEY_BYTES}sqIIII")  # question key, time, answers, bytes of template, model and dtype


@dataclass(frozen=True)
class Record:
    """Answers to one question that were remembered together."""

    question: bytes  # question key
    template: str  # as the user wrote it; for people, not part of any key
    model: str  # for people, like dtype
    dtype: str
    time: int  # microseconds since 1970 UTC
    keys: tuple[bytes, ...]
    answers: tuple[Answer, ...]


def encode(record: Record) -> bytes:
    """The record as bytes of a journal, frame included."""
    texts = [text.encode("utf-8", "replace") for text in (record.template, record.model, record.dtype)]
    head = _HEAD.pack(record.question, record.time, len(record.keys), *map(len, texts))
    tokens = np.array([answer.tokens for answer in record.answers], "<u4")
    counts = np.array([len(answer.values) for answer in record.answers], "<u4")
    values = np.array([value for answer in record.answers for value in answer.values], "<f4")
    payload = b"".join([head, *texts, *record.keys, tokens.tobytes(), counts.tobytes(), values.tobytes()])
    return _FRAME.pack(len(payload), _checksum(payload)) + payload


def read(path: Path, offset: int = 0) -> tuple[list[Record], int]:
    """Records from `offset` (0, or an end that an earlier call returned) to the end of the valid prefix, and that end.

    The end is 0 for a file that does not begin with the magic line. Raises OSError.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return [], 0
        start = max(offset, len(MAGIC))
        file.seek(start)
        data = file.read()
    records, end = [], 0
    for record, after in _records(memoryview(data)):
        records.append(record)
        end = after
    return records, start + end


def _records(data: memoryview) -> Iterator[tuple[Record, int]]:
    at = 0
    while len(data) - at >= _FRAME.size:
        length, checksum = _FRAME.unpack_from(data, at)
        end = at + _FRAME.size + length
        payload = data[at + _FRAME.size : end]
        if len(payload) < length or _checksum(payload) != checksum:
            return
        record = _decode(payload)
        if record is None:
            return
        yield record, end
        at = end


def _decode(payload: memoryview) -> Record | None:
    """The record, or None where the payload is not one: a checksum shows accidents, not a file that somebody made up."""
    if len(payload) < _HEAD.size:
        return None
    question, time, count, *text_bytes = _HEAD.unpack_from(payload)
    keys_at = _HEAD.size + sum(text_bytes)
    tokens_at = keys_at + count * KEY_BYTES
    counts_at = tokens_at + count * 4
    values_at = counts_at + count * 4
    if values_at > len(payload):
        return None
    counts: NDArray[np.uint32] = np.frombuffer(payload[counts_at:values_at], "<u4")
    ends = np.cumsum(counts, dtype=np.int64)
    if len(payload) - values_at != 4 * (int(ends[-1]) if count else 0):
        return None
    values: NDArray[np.float32] = np.frombuffer(payload[values_at:], "<f4")
    if not np.isfinite(values).all():
        return None
    tokens: NDArray[np.uint32] = np.frombuffer(payload[tokens_at:counts_at], "<u4")
    numbers, keys = values.tolist(), bytes(payload[keys_at:tokens_at])
    template, model, dtype = _texts(payload[_HEAD.size : keys_at], text_bytes)
    return Record(
        question=question,
        template=template,
        model=model,
        dtype=dtype,
        time=time,
        keys=tuple(keys[i : i + KEY_BYTES] for i in range(0, len(keys), KEY_BYTES)),
        answers=tuple(
            Answer(tuple(numbers[end - size : end]), used)
            for end, size, used in zip(ends.tolist(), counts.tolist(), tokens.tolist(), strict=True)
        ),
    )


def _texts(data: memoryview, lengths: list[int]) -> list[str]:
    ends = itertools.accumulate(lengths)
    return [bytes(data[end - length : end]).decode("utf-8", "replace") for end, length in zip(ends, lengths, strict=True)]


def _checksum(payload: bytes | memoryview) -> int:
    return zlib.crc32(payload, zlib.crc32(len(payload).to_bytes(4, "little")))


class Writer:
    """Appends records to one journal file and holds its lock, which says that the file has an owner. Not thread-safe."""

    def __init__(self, path: Path, descriptor: int, size: int) -> None:
        self.path = path
        self.size = size  # bytes of the valid prefix
        self._descriptor = descriptor
        self._dirty = False  # written since the last sync

    @classmethod
    def create(cls, path: Path) -> Writer:
        """A new journal. Raises OSError."""
        # Named only once it is locked and readable: a file under its final name without a lock is one to adopt.
        hidden = path.with_name(f".{path.name}.partial")
        writer = cls(path, files.open_private(hidden, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL), 0)
        try:
            files.try_lock(writer._descriptor)
            writer._write(MAGIC)
            writer.sync()  # a name without its magic line, after a power cut, would be a file that nobody takes up again
            hidden.rename(path)
            files.sync_folder(path.parent)
        except OSError:
            os.close(writer._descriptor)
            hidden.unlink(missing_ok=True)
            raise
        return writer

    @classmethod
    def adopt(cls, path: Path) -> Writer | None:
        """The journal of a process that has ended, cut to its valid prefix; None where it has an owner or no magic line.

        Raises OSError.
        """
        try:
            descriptor = files.open_private(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            return None
        try:
            # The last owner may have sealed and removed the file between our opening it and our getting the lock.
            if files.try_lock(descriptor) and os.fstat(descriptor).st_nlink:
                _, size = read(path)
                if size:
                    os.ftruncate(descriptor, size)
                    return cls(path, descriptor, size)
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    @property
    def deleted(self) -> bool:
        """Whether the file has lost its name: somebody removed the store, or Ctrl-C came while it was sealed."""
        return not os.fstat(self._descriptor).st_nlink

    def append(self, record: Record) -> None:
        """Writes the record; it is durable after the next `sync`. Raises OSError, and then nothing of it was written."""
        self._write(encode(record))

    def _write(self, data: bytes) -> None:
        self._dirty = True
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            self.size += len(data)
        except BaseException:  # Ctrl-C, too: half a record in the middle would hide every later one from readers
            os.ftruncate(self._descriptor, self.size)
            raise

    def sync(self) -> None:
        """Makes what was appended durable. Raises OSError."""
        if self._dirty:
            os.fsync(self._descriptor)
            self._dirty = False

    def close(self) -> None:
        """Syncs, and gives the file up for adoption. Raises OSError."""
        try:
            self.sync()
        finally:
            os.close(self._descriptor)

    def remove(self) -> None:
        """Deletes the file, whose answers now lie in a segment. Raises OSError."""
        self.path.unlink(missing_ok=True)
        os.close(self._descriptor)
