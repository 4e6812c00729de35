"""The check that a device makes at load, and a whole model, with Triton's kernels in the interpreter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from reference.decoder import write_tiny_folder

from quail_engine.batching.batch import Batch, Node, Read
from quail_engine.engine.local import device_engine
from quail_engine.engine.local.device_kernels import TORCH, TRITON
from quail_engine.engine.local.kernel_check import disagreements
from quail_engine.engine.local.weights import Config

CPU = torch.device("cpu")


def test_every_kernel_agrees_with_plain_torch() -> None:
    config = Config(64, 1, 6, 2, 16, 96, 9, 1e4, 1e-6, tied_embeddings=True, attention_bias=False, context=64, qk_norm=True)
    assert disagreements(TRITON, config, torch.float32, CPU, fp8=False) == {}  # the interpreter rounds fp8 its own way


def test_a_model_on_the_kernels_answers_as_on_plain_torch(tmp_path: Path) -> None:
    folder = write_tiny_folder(tmp_path / "model", "qwen3", num_layers=2)
    nodes = (Node(0, -1, tuple(range(20))), Node(1, 0, (3, 4, 5)), Node(2, 0, (3, 4, 6, 7), sibling=1, shared=2))
    reads = (Read(1, (1, 2), 0, 0), Read(2, (5,), 1, 0))
    found = []
    for kernels in (TORCH, TRITON):
        engine = device_engine.load(folder, CPU, "float32", fp8=False, memory_fraction=0.9, token_budget=100, cpu_threads=None)
        engine._model = replace(engine._model, kernels=kernels)
        found.append(np.concatenate(engine.score(Batch(nodes, reads, frozenset()))))
    np.testing.assert_allclose(found[1], found[0], atol=1e-4)
