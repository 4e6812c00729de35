"""Rows' texts as token ids: each distinct text is encoded once, and lies on disk, memory-mapped, as Arrow IPC files.

A file holds two columns, the digest of a text and its ids; its name begins with the tokenizer's digest, so that ids are only
ever reused with the tokenizer that made them. Ids are written in files of some size; what is younger is still in memory.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quail_engine.arrow import numbers_of, of_keys, of_numbers
from quail_engine.errors import EngineError
from quail_engine.prompts.prompter import Prompter
from quail_engine.prompts.request import Ids

_FILE_TOKENS = 1 << 20  # tokens that are gathered before a file is written: 4 MB
_MEMORY_TOKENS = 1 << 22  # tokens that a store without a folder remembers, some 36 bytes each; then it begins anew
_PLACES = 1 << 20  # texts whose place in a file is remembered, some 300 bytes each; then it begins anew
_SCHEMA = pa.schema([("text", pa.binary(32)), ("ids", pa.list_(pa.uint32()))])
_SUFFIX = ".arrow"


class _Place(NamedTuple):
    """Where a text's ids are: in the mapped column of a file."""

    column: NDArray[np.uint32]
    start: int
    end: int

    def read(self) -> Ids:
        return tuple(self.column[self.start : self.end].tolist())


class TokenStore:
    """Encodes texts with a prompter and remembers the ids. Safe to use from several threads.

    `folder` None remembers some in memory. Otherwise files go there with mode 0600, for they hold the rows' content. With
    `keep` they stay and later stores on the same folder reuse them; without it a file's name is removed as soon as the file
    is mapped, so that nothing is left even of a process that is killed.
    """

    def __init__(self, folder: Path | None, keep: bool) -> None:
        self._folder = folder
        self._keep = keep
        self._places: dict[str, dict[bytes, _Place]] = {}  # tokenizer → text → where its ids are
        self._fresh: dict[str, dict[str, Ids]] = {}  # tokenizer → text → ids, not yet written
        self._fresh_tokens = 0
        self._lock = threading.Lock()

    def ids(self, prompter: Prompter, texts: Sequence[str]) -> list[Ids]:
        """The ids of each text, as `prompter.encode` gives them."""
        with self._lock:
            return self._ids(prompter, texts)

    def _ids(self, prompter: Prompter, texts: Sequence[str]) -> list[Ids]:
        tokenizer = prompter.tokenizer
        if tokenizer not in self._places:
            self._places[tokenizer] = self._kept(tokenizer)
            self._fresh[tokenizer] = {}
        places, fresh = self._places[tokenizer], self._fresh[tokenizer]
        unknown = [text for text in dict.fromkeys(texts) if text not in fresh]
        written = {text: places[d].read() for text in unknown if (d := _digest(text)) in places} if places else {}
        missing = [text for text in unknown if text not in written]
        encoded = dict(zip(missing, prompter.encode(missing), strict=True))
        fresh |= encoded
        self._fresh_tokens += sum(map(len, encoded.values()))
        result = [fresh[text] if text in fresh else written[text] for text in texts]
        if self._folder and self._fresh_tokens >= _FILE_TOKENS:
            self._flush()
        elif self._fresh_tokens >= _MEMORY_TOKENS:
            self._forget()
        return result

    def close(self) -> None:
        """Writes what is to be kept and lets go of the files. The store is not used afterwards."""
        if self._folder and self._keep:
            self._flush()
        self._places.clear()
        self._fresh.clear()

    def _kept(self, tokenizer: str) -> dict[bytes, _Place]:
        """What earlier stores left for a tokenizer. A file that cannot be read is left alone: its texts are encoded again."""
        places: dict[bytes, _Place] = {}
        if not (self._folder and self._keep and self._folder.is_dir()):
            return places
        for path in sorted(self._folder.glob(f"{tokenizer}-*{_SUFFIX}")):
            try:
                places |= _places(path)
            except (OSError, pa.ArrowInvalid):
                continue
        return places

    def _flush(self) -> None:
        """Writes what is fresh, a file a tokenizer, and reads it from there from now on."""
        assert self._folder is not None, "a store in memory writes nothing"
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for tokenizer, fresh in self._fresh.items():
                if not fresh:
                    continue
                path = self._folder / f"{tokenizer}-{uuid.uuid4().hex}{_SUFFIX}"
                _write(path, {_digest(text): ids for text, ids in fresh.items()})
                if len(self._places[tokenizer]) > _PLACES:
                    self._places[tokenizer].clear()
                self._places[tokenizer] |= _places(path)
                if not self._keep:
                    path.unlink()
                fresh.clear()
        except OSError as error:
            raise EngineError(
                f"Token ids cannot be written to {self._folder}: {error}. `tokens: off` keeps them in memory."
            ) from error
        self._fresh_tokens = 0

    def _forget(self) -> None:
        for fresh in self._fresh.values():
            fresh.clear()
        self._fresh_tokens = 0


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _write(path: Path, ids: dict[bytes, Ids]) -> None:
    """Writes a file that appears whole or not at all, readable by its owner only."""
    ends = np.cumsum([0, *map(len, ids.values())], dtype=np.int32)
    column = np.fromiter(itertools.chain.from_iterable(ids.values()), np.uint32, int(ends[-1]))
    columns = [of_keys(list(ids), 32), pa.ListArray.from_arrays(of_numbers(ends), of_numbers(column))]
    batch = pa.record_batch(columns, schema=_SCHEMA)
    unfinished = path.with_suffix(".tmp")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        writer.write_batch(batch)
    unfinished.replace(path)


def _places(path: Path) -> dict[bytes, _Place]:
    """Text → its place in a file. The ids themselves stay on disk until they are read."""
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    if not table.schema.equals(_SCHEMA):
        raise pa.ArrowInvalid(f"{path} is not a token file")
    places: dict[bytes, _Place] = {}
    for batch in table.to_batches():
        texts, ids = batch.columns
        column, ends = numbers_of(ids.values), ids.offsets.to_pylist()
        spans = itertools.pairwise(ends)
        places.update((text, _Place(column, *span)) for text, span in zip(texts.to_pylist(), spans, strict=True))
    return places
