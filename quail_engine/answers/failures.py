"""Why inputs have no answer: `failures.jsonl` beside the answers, a JSON object a line, for inputs that failed alike at once.

The file holds keys and no text of any row. It stays small: when it outgrows `MAX_BYTES` the oldest part goes. Whoever writes
holds the file's lock, so that processes do not lose each other's lines while it is rewritten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

from quail_engine.answers import files

MAX_BYTES = 4 << 20  # some 60,000 inputs


@dataclass(frozen=True)
class Failure:
    """Inputs of one question that got no answer, for the same reason and at the same time."""

    template: str  # the question as written
    model: str
    reason: str  # one line; no text of a row
    node: str  # who asked, as dbt names it; may be empty
    time: int  # microseconds since 1970 UTC
    keys: tuple[bytes, ...]  # answer keys of the inputs
    question: bytes = b""  # question key


class FailureLog:
    """The file of one store. Methods raise OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, failure: Failure) -> None:
        # A line that a killed process left unfinished spoils only itself, because each line begins with its own line break.
        line = b"\n" + _line(failure)
        with self._locked() as descriptor:
            os.write(descriptor, line)
            if os.fstat(descriptor).st_size > MAX_BYTES:
                self._rewrite(_newest(self.read(), MAX_BYTES // 2))

    def read(self) -> list[Failure]:
        """What failed, newest first; each input once, with its last reason."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        seen: set[bytes] = set()
        found = []
        for failure in sorted(filter(None, map(_parsed, lines)), key=lambda failure: -failure.time):
            keys = tuple(key for key in failure.keys if key not in seen)
            seen.update(keys)
            if keys:
                found.append(replace(failure, keys=keys))
        return found

    def clear(self, template: str | None, model: str | None, before: datetime | None) -> None:
        """Forgets the failures to which every given condition applies; all of them, without one."""
        if self.path.exists():
            moment = None if before is None else before.timestamp() * 1_000_000
            with self._locked():
                self._rewrite(
                    failure
                    for failure in self.read()
                    if (template is not None and failure.template != template)
                    or (model is not None and failure.model != model)
                    or (moment is not None and failure.time >= moment)
                )

    def _rewrite(self, failures: Iterable[Failure]) -> None:
        files.write_private(self.path, b"".join(b"\n" + _line(failure) for failure in failures))

    @contextmanager
    def _locked(self) -> Iterator[int]:
        while True:
            descriptor = files.open_private(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                files.lock(descriptor)
                if os.fstat(descriptor).st_nlink:  # else another process has rewritten the file while we waited
                    yield descriptor
                    return
            finally:
                os.close(descriptor)


def _newest(failures: Iterable[Failure], budget_bytes: int) -> Iterator[Failure]:
    """The first ones, which are the newest, as far as they fit."""
    for failure in failures:
        room = budget_bytes - len(_line(replace(failure, keys=())))
        keys = failure.keys[: max(0, room // _KEY_TEXT_BYTES)]
        if not keys:
            return
        failure = replace(failure, keys=keys)
        yield failure
        budget_bytes -= len(_line(failure))


def _line(failure: Failure) -> bytes:
    content = {**asdict(failure), "question": failure.question.hex(), "keys": [key.hex() for key in failure.keys]}
    return json.dumps(content, ensure_ascii=True).encode("ascii")


_KEY_TEXT_BYTES = 68  # a key in hexadecimal, quoted, and the comma and blank behind it


def _parsed(line: bytes) -> Failure | None:
    try:
        content = json.loads(line)
        keys, question = tuple(map(bytes.fromhex, content.pop("keys"))), bytes.fromhex(content.pop("question"))
        return Failure(**content, keys=keys, question=question)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
