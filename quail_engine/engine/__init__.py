"""Engines answer batches. Nothing heavy is imported until an engine is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from quail_engine.errors import EngineError

if TYPE_CHECKING:
    from quail_engine.engine.base import Engine
    from quail_engine.settings import Settings


def load_engine(folder: Path, settings: Settings) -> Engine:
    """The local engine for the converted model in `folder`, on the device, dtype and threads that `settings` name.

    Raises EngineError when a library of the extra `local` is missing or the device cannot be used, and ModelError when
    the folder is damaged or holds a model that this engine cannot run.
    """
    if settings.device not in ("auto", "cpu"):
        raise EngineError(
            f"device: {settings.device!r} is not supported; the local engine runs on 'cpu' (also chosen by 'auto')."
        )
    try:
        from quail_engine.engine.local.engine import load
    except ModuleNotFoundError as error:
        raise EngineError(
            f"The local engine needs the library {error.name!r}, which is not installed. Install it with "
            "pip install 'dbt-quail[local]', or set engine: mock to run without a model."
        ) from error
    return load(folder, settings.dtype, settings.cpu_threads)
