"""Engines answer batches. Nothing heavy is imported until an engine is loaded."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from quail_engine.errors import EngineError

if TYPE_CHECKING:
    from quail_engine.engine.base import Engine
    from quail_engine.settings import Settings


def cuda_devices() -> list[str]:
    """The CUDA devices of this machine, for people; needs the extra `local`."""
    from quail_engine.engine.local.device import listed

    return listed()


def load_engine(folder: Path, settings: Settings, precision: str = "full") -> Engine:
    """The local engine for the converted model in `folder`, on the device, dtype and threads that `settings` name.

    `precision`: 'full', or 'fp8' for matrices in 8 bits.

    Raises EngineError when a library of the extra `local` is missing or the device cannot be used, and ModelError when
    the folder is damaged or holds a model that this engine cannot run.
    """
    try:
        with _nothing_collected():
            from quail_engine.engine.local.load import load
    except ModuleNotFoundError as error:
        raise EngineError(
            f"The local engine needs the library {error.name!r}, which is not installed. Install it with "
            "pip install 'dbt-quail[local]', or set engine: mock to run without a model."
        ) from error
    return load(folder, settings, fp8=precision == "fp8")


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """What torch makes while it is imported stays; to look through it again and again is a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
