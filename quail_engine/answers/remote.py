"""A store at a URL, through fsspec: its segments are copied here once, and recalled from the copy.

Segments are named by their content and never change, so that a copy is complete when the names are the same. Only segments
are copied: a journal is its process's own until it is sealed.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quail_engine.answers import files
from quail_engine.answers.folder import Folder, cache_folder
from quail_engine.errors import AnswerStoreError

_NAME = re.compile(r"[0-9a-f]{64}\.parquet")
_AT_ONCE = 16  # segments that are fetched together, some 10 MB each
_FRESH_SECONDS = 3_600.0  # a copy this young may be one that another process is about to send


class Remote:
    """The store at a URL and its copy on this machine. Methods raise AnswerStoreError where it cannot be reached."""

    def __init__(self, url: str, namespace: str, warn: Callable[[str], None]) -> None:
        self.url = re.sub(r"(?<=://)[^/@]*@", "", url)  # for people: without a name and a password
        self.folder = Folder.at(str(cache_folder(url)), namespace)
        self._address = f"{url.rstrip('/')}/mock" if namespace == "mock" else url.rstrip("/")
        self._warn = warn

    def fetch(self) -> None:
        """Copies the segments that are missing here, and drops copies of segments that are gone there."""
        with self._reaching():
            system, root = self._open()
            there = _segments(system, root)
            self.folder.create()
            here = {path.name: path for path in self.folder.segments.glob("*.parquet")}
            for name, data in _read(system, [there[name] for name in sorted(there.keys() - here.keys())]):
                self._keep(name, data)
        for name in here.keys() - there.keys():
            if time.time() - here[name].stat().st_mtime > _FRESH_SECONDS:
                here[name].unlink(missing_ok=True)

    def push(self, segment: Path) -> None:
        """Sends a segment, which is then a part of the store."""
        with self._reaching():
            system, root = self._open()
            system.makedirs(f"{root}/segments", exist_ok=True)
            system.pipe_file(f"{root}/segments/{segment.name}", segment.read_bytes())

    @contextmanager
    def whole(self) -> Iterator[Folder]:
        """A folder that holds all segments while the block lasts; what they have become then replaces those at the URL.

        New ones are sent before old ones go, so that whoever reads meanwhile finds every answer.
        """
        self.folder.create()
        with tempfile.TemporaryDirectory(dir=self.folder.root) as place:
            folder = Folder(Path(place))
            folder.create()
            with self._reaching():
                system, root = self._open()
                there = _segments(system, root)
                for name, data in _read(system, sorted(there.values())):
                    files.write_private(folder.segments / name, data)
            yield folder
            left = {path.name: path for path in folder.segments.glob("*.parquet")}
            for name in sorted(left.keys() - there.keys()):
                self.push(left[name])
            with self._reaching():
                for path in sorted(folder.damaged.glob("*")):
                    system.makedirs(f"{root}/damaged", exist_ok=True)
                    system.pipe_file(f"{root}/damaged/{path.name}", path.read_bytes())
                for name in sorted(there.keys() - left.keys()):
                    system.rm_file(there[name])
                    (self.folder.segments / name).unlink(missing_ok=True)

    def _keep(self, name: str, data: bytes) -> None:
        if f"{hashlib.sha256(data).hexdigest()}.parquet" == name:
            files.write_private(self.folder.segments / name, data)
        else:
            self._warn(f"answers: segment {name} at {self.url} is skipped: it is damaged, or was not yet whole.")

    def _open(self) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        system, root = url_to_fs(self._address)
        system.invalidate_cache()
        return system, root.rstrip("/")

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except ImportError as error:
            raise AnswerStoreError(
                f"The answers at {self.url} are read through fsspec, and {error.name or 'what this kind of URL needs'} is not "
                "installed: pip install fsspec, and for s3:// s3fs, for gs:// gcsfs, for abfs:// adlfs."
            ) from error
        except Exception as error:  # each file system has errors of its own, and all of them mean this
            raise AnswerStoreError(
                f"The answers at {self.url} cannot be reached: {type(error).__name__}: {error}. What was answered here is "
                "kept; mend the address or the access, or take it out of `answers:`."
            ) from error


def _segments(system: Any, root: str) -> dict[str, str]:
    """The segments of a store by name, with their addresses."""
    return {Path(name).name: name for name in _listed(system, f"{root}/segments") if _NAME.fullmatch(Path(name).name)}


def _read(system: Any, addresses: list[str]) -> Iterator[tuple[str, bytes]]:
    """The files by name, some at once."""
    for start in range(0, len(addresses), _AT_ONCE):
        for address, data in system.cat(addresses[start : start + _AT_ONCE]).items():
            yield Path(address).name, data


def _listed(system: Any, folder: str) -> list[str]:
    try:
        return list(system.ls(folder, detail=False))
    except FileNotFoundError:
        return []
