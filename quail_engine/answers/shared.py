"""Another store, at a folder or a URL, whose answers are recalled and which is never written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from quail_engine.answers.folder import Folder
from quail_engine.answers.remote import Remote
from quail_engine.answers.segments import Segments, Stored
from quail_engine.answers.tails import Tails, merge, newest, newest_time
from quail_engine.errors import AnswerStoreError
from quail_engine.settings import is_url


class SharedStore:
    """Recalls. Safe to use from several threads."""

    def __init__(self, place: str, namespace: str, warn: Callable[[str], None]) -> None:
        """Opens nothing. `place` and `namespace` are as for the own store."""
        self._place = place
        self._remote = Remote(place, namespace, warn) if is_url(place) else None
        self._folder = self._remote.folder if self._remote else Folder.at(place, namespace)
        self._segments = Segments(self._folder.segments, warn)
        self._tails = Tails(self._folder)
        self._opened = False
        self._lock = threading.Lock()

    def recall(self, keys: Sequence[bytes]) -> dict[bytes, Stored]:
        """The answers that the store has; at a URL, those that it had at the first call.

        Raises AnswerStoreError where it is missing or cannot be reached, else as `Segments.recall`.
        """
        found = newest(keys, self._journals())
        return merge(found, self._segments.recall(keys))

    def latest(self) -> int:
        """When the newest answer was given, in microseconds since 1970 UTC; 0 without any. Raises as `recall`."""
        return max([*map(newest_time, self._journals()), self._segments.latest()])

    def _journals(self) -> list[dict[bytes, Stored]]:
        with self._lock:
            if not self._opened:
                self._open()
                self._opened = True
            return self._tails.read()

    def _open(self) -> None:
        if self._remote:
            self._remote.fetch()
        elif not Path(self._place).expanduser().is_dir():
            # Silence would be dear: everything that lies there would be asked again.
            raise AnswerStoreError(
                f"There are no shared answers at {self._place}: no such folder. Correct the path in `answers.shared`, "
                "or take it out."
            )

    def close(self) -> None:
        self._segments.close()
