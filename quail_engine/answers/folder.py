"""Where a store's files lie: `segments/*.parquet`, `journals/*.journal`, and `damaged/` for what `check` took out."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from quail_engine.answers import files, frames
from quail_engine.errors import AnswerStoreError


def cache_folder(url: str) -> Path:
    """Where the copy of the store at a URL lies on this machine."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return caches / "quail" / "answers" / hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Folder:
    root: Path  # absolute
    group_readable: bool = False  # modes 0640 and 0750 instead of 0600 and 0700

    @classmethod
    def at(cls, place: str, namespace: str, group_readable: bool = False) -> Folder:
        """The folder of an engine's answers: a mock's lie apart, so that they never meet a model's."""
        root = Path(place).expanduser().absolute()
        return cls(root / "mock" if namespace == "mock" else root, group_readable)

    @property
    def segments(self) -> Path:
        return self.root / "segments"

    @property
    def damaged(self) -> Path:
        return self.root / "damaged"

    @property
    def journals(self) -> Path:
        return self.root / "journals"

    @property
    def failures(self) -> Path:
        return self.root / "failures.jsonl"

    @property
    def tables(self) -> Path:
        return self.root / "tables"

    def create(self) -> None:
        """Makes the folders and a `.gitignore` that keeps answers out of a repository. Raises OSError."""
        for path in (self.root, self.segments, self.journals, self.tables):
            files.private_folder(path)
            if self.group_readable:
                files.share_folder(path)
        if not (self.root / ".gitignore").exists():
            files.write_private(self.root / ".gitignore", b"*\n")

    def journal_paths(self) -> list[Path]:
        return sorted(self.journals.glob(f"*{frames.SUFFIX}"))

    @contextmanager
    def upkeep(self) -> Iterator[None]:
        """Held while segments are rewritten or moved, so that one process at a time does it.

        Raises AnswerStoreError where another process is at it, OSError where the folder cannot be written.
        """
        descriptor = files.open_private(self.root / "upkeep.lock", os.O_RDWR | os.O_CREAT)
        try:
            if not files.try_lock(descriptor):
                raise AnswerStoreError(f"Another process is at work on all the answers at {self.root}. Try again later.")
            yield
        finally:
            os.close(descriptor)
