"""Which of the local engines runs: the CPU's own, or that for devices."""

from __future__ import annotations

from pathlib import Path

from quail_engine.engine.base import Engine
from quail_engine.engine.local import engine
from quail_engine.engine.local.device import find_device
from quail_engine.errors import EngineError
from quail_engine.settings import Settings


def load(folder: Path, settings: Settings, fp8: bool) -> Engine:
    """The engine for a converted model folder. Raises ModelError for a damaged folder, EngineError for a device that is not
    there or cannot run the model."""
    device = find_device(settings.device)
    if device.type == "cpu":
        if fp8:
            raise EngineError("@fp8 runs on a GPU; here the model would run on the CPU. Name the model without @fp8.")
        return engine.load(folder, settings.dtype, settings.cpu_threads)
    from quail_engine.engine.local import device_engine  # with its kernels, whose compiler takes a while to import

    return device_engine.load(
        folder,
        device,
        settings.dtype,
        fp8=fp8,
        memory_fraction=settings.gpu_memory_fraction,
        token_budget=settings.token_budget,
        cpu_threads=settings.cpu_threads,
    )
