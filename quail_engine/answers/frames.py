"""Files that one process appends records to, and any may read: a process killed while writing loses only its last record.

A file is its format's magic line and then records; a record is its payload's length (4 bytes, little-endian), the CRC-32 of
length and payload (4 bytes), and the payload. Whoever reads takes records until the first that is incomplete or fails its
checksum. A file that its process left behind is adopted by the next one that writes, so there are never more files than
processes wrote at once.
"""

from __future__ import annotations

import os
import secrets
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from quail_engine.answers import files

SUFFIX = ".journal"
SYNC_SECONDS = 1.0  # that what was appended may wait to be made durable
_FRAME = struct.Struct("<II")
_Record = TypeVar("_Record")


@dataclass(frozen=True)
class Format(Generic[_Record]):
    """What the records of a kind of file are."""

    magic: bytes  # the file's first line
    decode: Callable[[memoryview], _Record | None]  # None for a payload that is no record: files may be made up

    def read(self, path: Path, offset: int = 0) -> tuple[list[_Record], int]:
        """Records from `offset` (0, or an end that an earlier call returned) to the end of the valid prefix, and that end.

        The end is 0 for a file that does not begin with the magic line. Raises OSError.
        """
        with path.open("rb") as file:
            if file.read(len(self.magic)) != self.magic:
                return [], 0
            start = max(offset, len(self.magic))
            file.seek(start)
            data = file.read()
        records, end = [], 0
        for record, after in self._records(memoryview(data)):
            records.append(record)
            end = after
        return records, start + end

    def _records(self, data: memoryview) -> Iterator[tuple[_Record, int]]:
        at = 0
        while len(data) - at >= _FRAME.size:
            length, checksum = _FRAME.unpack_from(data, at)
            end = at + _FRAME.size + length
            payload = data[at + _FRAME.size : end]
            if len(payload) < length or _checksum(payload) != checksum:
                return
            record = self.decode(payload)
            if record is None:
                return
            yield record, end
            at = end

    def create(self, folder: Path) -> Writer:
        """A new file, under a name that no other process takes; the oldest sorts first. Raises OSError."""
        path = folder / f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        # Named only once it is locked and readable: a file under its final name without a lock is one to adopt.
        hidden = path.with_name(f".{path.name}.partial")
        writer = Writer(path, files.open_private(hidden, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL), 0)
        try:
            files.try_lock(writer._descriptor)
            writer._write(self.magic)
            writer.sync()  # a name without its magic line, after a power cut, would be a file that nobody takes up again
            hidden.rename(path)
            files.sync_folder(path.parent)
        except OSError:
            os.close(writer._descriptor)
            hidden.unlink(missing_ok=True)
            raise
        return writer

    def adopt(self, path: Path) -> Writer | None:
        """The file of a process that has ended, cut to its valid prefix; None where it has an owner or no magic line.

        Raises OSError.
        """
        try:
            descriptor = files.open_private(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            return None
        try:
            # The last owner may have sealed and removed the file between our opening it and our getting the lock.
            if files.try_lock(descriptor) and os.fstat(descriptor).st_nlink:
                _, size = self.read(path)
                if size:
                    os.ftruncate(descriptor, size)
                    return Writer(path, descriptor, size)
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None


def frame(payload: bytes) -> bytes:
    """A record as it stands in a file."""
    return _FRAME.pack(len(payload), _checksum(payload)) + payload


def _checksum(payload: bytes | memoryview) -> int:
    return zlib.crc32(payload, zlib.crc32(len(payload).to_bytes(4, "little")))


class Writer:
    """Appends records to one file and holds its lock, which says that the file has an owner. Not thread-safe."""

    def __init__(self, path: Path, descriptor: int, size: int) -> None:
        self.path = path
        self.size = size  # bytes of the valid prefix
        self._descriptor = descriptor
        self._dirty = False  # written since the last sync
        self._synced = time.monotonic()

    @property
    def deleted(self) -> bool:
        """Whether the file has lost its name: somebody removed the store, or Ctrl-C came while it was sealed."""
        return not os.fstat(self._descriptor).st_nlink

    def append(self, payload: bytes) -> None:
        """Writes a record; it is durable after the next `sync`, which comes with the first append a second later by itself.

        Raises OSError. A record that could not be written whole leaves nothing.
        """
        self._write(frame(payload))
        if time.monotonic() - self._synced >= SYNC_SECONDS:
            self.sync()

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
        self._synced = time.monotonic()

    def close(self) -> None:
        """Syncs, and gives the file up for adoption. Raises OSError."""
        try:
            self.sync()
        finally:
            os.close(self._descriptor)

    def remove(self) -> None:
        """Deletes the file, whose records lie elsewhere by now. Raises OSError."""
        self.path.unlink(missing_ok=True)
        os.close(self._descriptor)
