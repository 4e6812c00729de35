"""Which of the local engines runs: the CPU's own, that for a device, or one for several."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from quail_engine.engine.base import Engine
from quail_engine.engine.local import engine, workers
from quail_engine.engine.local.device import all_cuda, find_device
from quail_engine.errors import EngineError
from quail_engine.settings import Settings


def load(folder: Path, settings: Settings, fp8: bool) -> Engine:
    """The engine for a converted model folder. Raises ModelError for a damaged folder, EngineError for a device that is not
    there or cannot run the model."""
    devices = all_cuda() if settings.devices == ("all",) else settings.devices
    if len(devices) > 1:
        return workers.start(folder, settings, fp8, devices)
    return load_one(folder, replace(settings, device=devices[0]) if devices else settings, fp8)


def load_one(folder: Path, settings: Settings, fp8: bool) -> Engine:
    """The engine on the one device that `settings.device` names. Raises as `load`."""
    device = find_device(settings.device)
    if device.type == "cpu":
        if fp8:
            raise EngineError("@fp8 runs on a GPU; here the model would run on the CPU. Name the model without @fp8.")
        return engine.load(folder, settings.dtype, settings.cpu_threads)
    from quail_engine.engine.local import device_engine  # with its kernels, whose compiler takes a while to import

    loaded = device_engine.load(
        folder,
        device,
        settings.dtype,
        fp8=fp8,
        memory_fraction=settings.gpu_memory_fraction,
        token_budget=settings.token_budget,
        cpu_threads=settings.cpu_threads,
    )
    if settings.device == "auto":
        loaded.remarks = (f"device: auto took {loaded.device}. Set device: cpu to run without it.", *loaded.remarks)
    return loaded
