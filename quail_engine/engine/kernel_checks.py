"""On which devices a model's kernels were checked, kept on this machine. No torch: EXPLAIN reads it, too.

What was checked holds for the very same code and libraries, so whatever could change a result is in the file's name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Protocol

from quail_engine.engine.machine_files import path_of, recall, remember, version_of
from quail_engine.engine.rates import Dimensions, shape_of

_FORMAT = 1
_LIBRARIES = ("torch", "triton", "flash-attn", "flash-attn-3")


class Shapes(Dimensions, Protocol):
    @property
    def qk_norm(self) -> bool: ...


class KernelChecks:
    """Of one model's shapes in one number format."""

    def __init__(self, config: Shapes, dtype: str, fp8: bool) -> None:
        """`dtype`: as set; all but 'float32' is bfloat16 on a device."""
        dimensions = asdict(shape_of(config))
        # They are checked on one layer.
        del dimensions["layers"], dimensions["bytes"]
        versions = [version_of(library) for library in _LIBRARIES]
        self._path = path_of(["kernels", _FORMAT, _source(), versions, dimensions, config.qk_norm, dtype == "float32", fp8])

    def recall(self) -> Mapping[str, str]:
        """By the name of each device where every kernel was right: whose attention is the fastest there."""
        return {device: attention for device, attention in recall(self._path).items() if isinstance(attention, str)}

    def remember(self, device: str, attention: str) -> None:
        remember(self._path, device, attention)


@cache
def _source() -> str:
    """sha256 of all that is computed on a device, and what plans and checks it."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
