"""Rates of this machine that were measured once, kept in the user's cache. No torch: EXPLAIN reads them, too.

A file a machine, model shape and library version; in it, for each number format, a machine's rates and how far the batches
since then took.

An estimate is of a machine that has nothing else to do. What other programs took of it while something was measured would
make the next estimates wrong, so it is kept out in two ways: a batch counts only if its threads were on their cores all the
time, by the processor's clock, and of those that count the faster ones are believed (`Roofline.correction`), since a neighbour
on the same host, or a core that others keep hot, does not show on that clock. How long a round still takes as things are is
told by its progress, which goes by the wall clock.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Protocol

from quail_engine.engine.machine_files import path_of, recall, remember, version_of
from quail_engine.roofline import Machine, ModelShape, Roofline, Work

_FORMAT = 3

_PAST = 32
"""Batches that are remembered. Older ones are forgotten: libraries, clocks and machines change."""

_LEAST_TOKENS = 256
"""Of a batch that counts: a smaller one says more of the time of a pass than of the rates."""

_MOST_CORRECTED = 8.0
"""No batch is believed to be slower, or faster, by more than this."""

_ON_CORE = 0.85
"""Share of the wall clock that threads are on their cores when nothing else wants these; the rest is what one thread does."""


class Dimensions(Protocol):
    """What is read of a decoder's configuration."""

    @property
    def num_layers(self) -> int: ...
    @property
    def hidden_size(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def num_kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def intermediate_size(self) -> int: ...


def shape_of(config: Dimensions) -> ModelShape:
    return ModelShape(
        layers=config.num_layers,
        hidden=config.hidden_size,
        heads=config.num_heads,
        kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        mlp=config.intermediate_size,
    )


def fastest(known: Mapping[str, Roofline]) -> str:
    """The number format with the highest rates, of those that were measured if any was. Their history is left out: only the
    one in use has any."""
    return max(known, key=lambda n: (known[n].machine.measured, replace(known[n], past=()).tokens_per_second))


def corrected(roofline: Roofline, work: Work, seconds: float) -> Roofline:
    """`roofline` after a batch that took so long, with nothing beside it."""
    if work.tokens < _LEAST_TOKENS:
        return roofline
    found = seconds / replace(roofline, past=()).seconds(work, max(1, round(work.tokens)))
    found = min(max(found, 1 / _MOST_CORRECTED), _MOST_CORRECTED)
    return replace(roofline, past=(*roofline.past, found)[-_PAST:])


def is_undisturbed(seconds: float, cpu_seconds: float, threads: int) -> bool:
    """Whether so many threads had their cores to themselves: by the wall clock, and by the process's share of all cores."""
    return cpu_seconds >= _ON_CORE * seconds * min(threads, os.cpu_count() or threads)


@dataclass(frozen=True)
class Rates:
    """Of one model on this machine."""

    shape: ModelShape
    cpu_threads: int | None  # as set; None: torch's own number

    @property
    def path(self) -> Path:
        dimensions = asdict(self.shape)
        # A layer's rates do not depend on how many there are, and the number format is a key inside.
        del dimensions["layers"], dimensions["bytes"]
        threads = [self.cpu_threads, os.cpu_count(), os.environ.get("OMP_NUM_THREADS")]
        return path_of([_FORMAT, _processor(), version_of("torch"), threads, dimensions])

    def recall(self) -> dict[str, Roofline]:
        """Rooflines by number format, as torch names it; none where nothing usable is kept."""
        found = {}
        for dtype, values in recall(self.path).items():
            with suppress(KeyError, TypeError, ValueError):
                numbers = {name: float(value) for name, value in values["machine"].items()}
                past = tuple(float(value) for value in values["past"])
                sound = all(isfinite(number) and number >= 0 for number in (*numbers.values(), *past))
                if sound and numbers["prefix_gain"] > 0:
                    machine = Machine(**numbers, measured=values.get("measured", True) is True)
                    found[dtype] = Roofline(self.shaped(dtype), machine, past[-_PAST:])
        return found

    def expected(self, dtype: str) -> Roofline | None:
        """The roofline of an engine that is not loaded yet; None where nothing is kept. 'auto' is the fastest."""
        known = self.recall()
        if dtype == "auto":
            return known[fastest(known)] if known else None
        return known.get(dtype)

    def remember(self, dtype: str, roofline: Roofline) -> None:
        """Keeps a roofline beside those of other formats."""
        machine = asdict(roofline.machine)
        measured = machine.pop("measured")
        remember(self.path, dtype, {"machine": machine, "measured": measured, "past": roofline.past})

    def shaped(self, dtype: str) -> ModelShape:
        return replace(self.shape, bytes=4 if dtype.startswith("float32") else 2)


class Pace:
    """What an engine's batches take: its roofline, corrected by each that has run."""

    def __init__(self, roofline: Roofline, rates: Rates, dtype: str) -> None:
        """`rates` and `dtype`: where `close` keeps the roofline for the next engine."""
        self.roofline = roofline
        self._rates = rates
        self._dtype = dtype
        self._done = 0.0

    def ran(self, work: Work, launched: float, undisturbed: bool = True) -> None:
        """A batch is done that was launched at a time of `perf_counter`. It began when the one before it was done. One that
        others disturbed tells nothing."""
        begun, self._done = max(launched, self._done), perf_counter()
        if undisturbed:
            self.roofline = corrected(self.roofline, work, self._done - begun)

    def close(self) -> None:
        self._rates.remember(self._dtype, self.roofline)


def _processor() -> str:
    """The processor's name, as far as the system tells it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
