"""Rates of this machine that were measured once, kept in the user's cache. No torch: EXPLAIN reads them, too.

A file a machine, model shape and library version; in it, for each number format, a machine's rates and how far the batches
since then were off. Nothing is lost with it: what is missing or damaged is measured again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from math import exp, isfinite, log
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from quail_engine.roofline import Machine, ModelShape, Roofline, Work
from quail_engine.settings import user_cache

_FORMAT = 1

_MEMORY_TOKENS = 8_192
"""Tokens after which what batches took makes up about two thirds of the correction of the roofline."""

_MOST_CORRECTED = 8.0
"""Other programs slow a batch down by no more than this, as far as the correction goes; nor does it speed one up by more."""


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
    return max(known, key=lambda n: (known[n].machine.measured, replace(known[n], correction=1.0).tokens_per_second))


def corrected(roofline: Roofline, work: Work, seconds: float) -> Roofline:
    """`roofline` after a batch that took so long."""
    found = seconds / replace(roofline, correction=1.0).seconds(work, max(1, round(work.tokens)))
    found = min(max(found, 1 / _MOST_CORRECTED), _MOST_CORRECTED)
    old = exp(-work.tokens / _MEMORY_TOKENS)
    return replace(roofline, correction=exp(old * log(roofline.correction) + (1 - old) * log(found)))


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
        about = [_FORMAT, _processor(), _torch_version(), threads, dimensions]
        return user_cache() / "machine" / f"{hashlib.sha256(json.dumps(about).encode()).hexdigest()[:32]}.json"

    def recall(self) -> dict[str, Roofline]:
        """Rooflines by number format, as torch names it; none where nothing usable is kept."""
        found = {}
        for dtype, values in _read(self.path).items():
            with suppress(KeyError, TypeError, ValueError):
                numbers = {name: float(value) for name, value in values["machine"].items()}
                correction = float(values["correction"])
                if all(isfinite(number) and number >= 0 for number in (*numbers.values(), correction)):
                    machine = Machine(**numbers, measured=values.get("measured", True) is True)
                    found[dtype] = Roofline(self.shaped(dtype), machine, correction)
        return found

    def expected(self, dtype: str) -> Roofline | None:
        """The roofline of an engine that is not loaded yet; None where nothing is kept. 'auto' is the fastest."""
        known = self.recall()
        if dtype == "auto":
            return known[fastest(known)] if known else None
        return known.get(dtype)

    def remember(self, dtype: str, roofline: Roofline) -> None:
        """Keeps a roofline beside those of other formats; does nothing where the cache cannot be written."""
        machine = asdict(roofline.machine)
        measured = machine.pop("measured")
        kept = {**_read(self.path), dtype: {"machine": machine, "measured": measured, "correction": roofline.correction}}
        with suppress(OSError):
            _write_private(self.path, json.dumps(kept))

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

    def ran(self, work: Work, launched: float) -> None:
        """A batch is done that was launched at a time of `perf_counter`. It began when the one before it was done."""
        begun, self._done = max(launched, self._done), perf_counter()
        self.roofline = corrected(self.roofline, work, self._done - begun)

    def close(self) -> None:
        self._rates.remember(self._dtype, self.roofline)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    unfinished.replace(path)


def _processor() -> str:
    """The processor's name, as far as the system tells it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _torch_version() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""
