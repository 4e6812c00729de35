"""What only a CUDA device can show. `pytest -m gpu` runs these; no device has run them yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from reference.decoder import write_tiny_folder
from reference.requests import TINY_MODELS, assert_like_reference, random_requests, score

from quail_engine.batching.forest import schedule
from quail_engine.engine import machine_files
from quail_engine.engine.local import device_engine, kernel_choice
from quail_engine.engine.local.device import find_device
from quail_engine.engine.local.device_engine import DeviceEngine
from quail_engine.engine.local.device_kernels import TORCH, TRITON, by_sequences
from quail_engine.engine.local.kernel_check import disagreements
from quail_engine.engine.local.varlen import installed
from quail_engine.engine.local.weights import open_checkpoint

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]


@pytest.fixture
def no_waiting() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


def load(folder: Path, dtype: str, fp8: bool = False) -> DeviceEngine:
    return device_engine.load(
        folder, find_device("cuda"), dtype, fp8=fp8, memory_fraction=0.5, token_budget=8_192, cpu_threads=None
    )


@pytest.mark.parametrize("name", TINY_MODELS)
def test_logits_equal_transformers(name: str, tmp_path: Path) -> None:
    architecture, changes = TINY_MODELS[name]
    folder = write_tiny_folder(tmp_path / "model", architecture, **changes)
    requests = random_requests(1, [1, 2, 17, 130, 600])[::2]
    assert_like_reference(folder, requests, score(load(folder, "float32"), requests, 900), within=2e-3)


@pytest.mark.parametrize("fp8", [False, True])
@pytest.mark.parametrize("name", ["llama tied", "qwen3"])
def test_every_kernel_agrees_with_plain_torch(name: str, fp8: bool, tmp_path: Path) -> None:
    architecture, changes = TINY_MODELS[name]
    config = open_checkpoint(write_tiny_folder(tmp_path / "model", architecture, **changes)).config
    device = find_device("cuda")
    if fp8 and torch.cuda.get_device_capability(device) < (8, 9):
        pytest.skip("this device has no fp8")
    assert not disagreements(TRITON, config, torch.bfloat16, device, fp8)


@pytest.mark.parametrize("name", ["llama tied", "qwen3"])
def test_attention_of_installed_libraries_agrees_with_plain_torch(name: str, tmp_path: Path) -> None:
    architecture, changes = TINY_MODELS[name]
    config = open_checkpoint(write_tiny_folder(tmp_path / "model", architecture, **{"head_dim": 64, **changes})).config
    device = find_device("cuda")
    found = installed(device, torch.bfloat16)
    if not found:
        pytest.skip("no library has attention for this device")
    for function in found.values():
        kernels = replace(TORCH, attention=by_sequences(function))
        assert not disagreements(kernels, config, torch.bfloat16, device, fp8=False)


def test_what_was_checked_is_not_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_files, "user_cache", lambda: tmp_path)
    folder = write_tiny_folder(tmp_path / "model", "qwen3", head_dim=32)
    first = load(folder, "bfloat16").device
    monkeypatch.setattr(kernel_choice, "disagreements", lambda *args, **named: pytest.fail("checked again"))
    assert load(folder, "bfloat16").device == first


def test_nothing_waits_for_the_device(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    engine = load(write_tiny_folder(tmp_path / "model", "qwen3", head_dim=32), "bfloat16")
    batches = list(schedule(random_requests(5, [30, 60, 90]), 120))
    expected = [engine.score(batch) for batch in batches]  # compiles, and fills the staging buffers
    request.getfixturevalue("no_waiting")
    pending = [engine.submit(batch) for batch in batches]
    torch.cuda.set_sync_debug_mode("default")
    for one, vectors in zip(pending, expected, strict=True):
        assert all(np.allclose(a, b, atol=0.05) for a, b in zip(one.logits(), vectors, strict=True))
