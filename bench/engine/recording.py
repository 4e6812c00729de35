"""What the engine was asked while a statement ran: its batches, and the requests that they answer, as token ids."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa

import quail_engine.engine
from quail_engine.batching.batch import Batch, Node
from quail_engine.engine.base import Engine, Scored
from quail_engine.engine.rates import shape_of
from quail_engine.models.folder import read_folder
from quail_engine.prompts.request import Ids, Logits
from quail_engine.report import RunReport
from quail_engine.roofline import ASSUMED, Roofline

UNBOUNDED: Mapping[str, Any] = {"answers": {"mode": "off"}, "max_requests": 10**9, "max_seconds": 10**9}
"""Settings of a statement that is measured: nothing is recalled, and nothing refused."""


@dataclass(frozen=True)
class Asked:
    """One read of one request: everything before it, in the runs that the layout cuts, and the head rows that are wanted."""

    runs: tuple[Ids, ...]
    rows: Ids

    @property
    def ids(self) -> Ids:
        return tuple(token for run in self.runs for token in run)


@dataclass
class Recording:
    """Filled while the engine works."""

    batches: list[Batch] = field(default_factory=list)
    seconds: float = 0.0  # in the engine
    dtype: str = ""
    asked: list[Asked] = field(default_factory=list)
    logits: list[Logits] = field(default_factory=list)  # one an entry of `asked`

    @property
    def fresh_tokens(self) -> int:
        return sum(batch.tokens for batch in self.batches)


class _Recorder:
    """An engine that notes what another one is given, a batch at a time."""

    in_flight = 1

    def __init__(self, engine: Engine, recording: Recording) -> None:
        self._engine, self._recording = engine, recording
        self._nodes: dict[int, Node] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def score(self, batch: Batch) -> list[Logits]:
        begun = time.perf_counter()
        logits = self._engine.score(batch)
        note = self._recording
        note.seconds += time.perf_counter() - begun
        note.batches.append(batch)
        note.dtype = self._engine.dtype
        self._nodes |= {node.number: node for node in batch.nodes}
        for read, found in zip(batch.reads, logits, strict=True):
            note.asked.append(Asked(self._runs(read.node), read.rows))
            note.logits.append(np.array(found))
        return logits

    def submit(self, batch: Batch) -> Scored:
        return Scored(self.score(batch))

    def _runs(self, number: int) -> tuple[Ids, ...]:
        runs = []
        while number >= 0:
            runs.append(self._nodes[number].ids)
            number = self._nodes[number].parent
        return tuple(reversed(runs))


class _Counting(Engine):
    """An engine that prefills nothing: every margin is 0, so every condition is TRUE. For counts of tokens alone."""

    precision, dtype, device = "full", "float32", "none"

    def __init__(self, folder: Path) -> None:
        found = read_folder(folder)
        self.weights = found.source_sha256
        self._shape = shape_of(found.config)

    @property
    def roofline(self) -> Roofline:
        return Roofline(self._shape, ASSUMED)

    def score(self, batch: Batch) -> list[Logits]:
        return [np.zeros(len(read.rows), np.float32) for read in batch.reads]

    def close(self) -> None:
        """Holds nothing."""


@contextmanager
def recorded(counting: bool = False) -> Iterator[Recording]:
    """Engines that are loaded inside the block are recorded; with `counting` none is loaded and nothing is prefilled."""
    recording = Recording()
    load = quail_engine.engine.load_engine

    def opened(folder: Path, *given: Any) -> Any:
        return _Recorder(_Counting(folder) if counting else load(folder, *given), recording)

    with patch("quail_engine.engine.load_engine", opened):
        yield recording


def run(
    model: str, sql: str, tables: Mapping[str, Sequence[str]] | None = None, counting: bool = False
) -> tuple[Recording, RunReport]:
    """A statement over tables of one column `text`, recorded. No answer is kept."""
    with duckdb.connect() as database, recorded(counting) as recording:
        for name, texts in (tables or {}).items():
            database.register(name, pa.table({"text": list(texts)}))
        with quail_engine.connect(database, model=model, **UNBOUNDED) as con:
            con.sql(sql)
            return recording, con.report
