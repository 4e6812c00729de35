"""A lack of memory, as torch tells it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def memory_errors() -> Iterator[None]:
    """Torch's own errors of a lack of memory, of which the CPU's has no class of its own, as MemoryError."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error):
            raise MemoryError(str(error)) from error
        raise
