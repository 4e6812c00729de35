"""Answers in journals: what processes have appended to theirs, read as far as the files have grown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from quail_engine.answers import journal
from quail_engine.answers.folder import Folder
from quail_engine.answers.journal import Record
from quail_engine.answers.segments import Stored


@dataclass
class _Tail:
    """What has been read of one journal."""

    end: int = 0
    answers: dict[bytes, Stored] = field(default_factory=dict)


class Tails:
    """The journals of one folder that other processes write. Not thread-safe."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._tails: dict[Path, _Tail] = {}

    def read(self, own: Path | None = None) -> list[dict[bytes, Stored]]:
        """The answers of every journal but `own`, those included that came since the last call. Raises OSError."""
        paths = [path for path in self._folder.journal_paths() if path != own]
        self._tails = {path: self._tails.get(path, _Tail()) for path in paths}
        for path, tail in list(self._tails.items()):
            try:
                if path.stat().st_size > tail.end:
                    records, tail.end = journal.read(path, tail.end)
                    note(tail.answers, records)
            except FileNotFoundError:
                del self._tails[path]  # sealed since the listing
        return [tail.answers for tail in self._tails.values()]


def note(answers: dict[bytes, Stored], records: Sequence[Record]) -> None:
    """Adds the records' answers; the newest to a key counts."""
    for record in records:
        for key, answer in zip(record.keys, record.answers, strict=True):
            answers[key] = Stored(record.time, answer).newest(answers.get(key))


def newest(keys: Sequence[bytes], sources: Iterable[Mapping[bytes, Stored]]) -> dict[bytes, Stored]:
    """The answers to these keys, of all sources."""
    found: dict[bytes, Stored] = {}
    for answers in sources:
        for key in keys if answers else ():
            if key in answers:
                found[key] = answers[key].newest(found.get(key))
    return found


def newest_time(answers: Mapping[bytes, Stored]) -> int:
    """When the last of them was given, 0 without any."""
    return max((stored.time for stored in answers.values()), default=0)


def merge(found: dict[bytes, Stored], more: dict[bytes, Stored]) -> dict[bytes, Stored]:
    """Both; of two answers to one key the newest."""
    if not found:
        return more
    return found | {key: stored.newest(found.get(key)) for key, stored in more.items()}
