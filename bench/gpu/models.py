"""Models of the published shapes with random weights: no checkpoint is needed to measure, and zeros would be too fast."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import torch

from quail_engine.engine.local.device_engine import DeviceEngine, build
from quail_engine.engine.local.weights import Checkpoint, Config
from quail_engine.engine.rates import Rates, shape_of
from quail_engine.models.architecture import Config as Published
from quail_engine.models.checkpoint import tensor_shapes

_QWEN3_4B = Config(
    hidden_size=2560,
    num_layers=36,
    num_heads=32,
    num_kv_heads=8,
    head_dim=128,
    intermediate_size=9728,
    vocab_size=151_936,
    rope_theta=1e6,
    rms_norm_eps=1e-6,
    tied_embeddings=True,
    attention_bias=False,
    context=40_960,
    qk_norm=True,
)
MODELS = {
    "qwen3-0.6b": replace(_QWEN3_4B, hidden_size=1024, num_layers=28, num_heads=16, intermediate_size=3072),
    "qwen3-4b": _QWEN3_4B,
    "tiny": replace(
        _QWEN3_4B, hidden_size=64, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=16, intermediate_size=128, vocab_size=500
    ),
}


def random_engine(config: Config, device: torch.device, *, fp8: bool, token_budget: int) -> DeviceEngine:
    return build(
        random_checkpoint(config, device),
        device,
        "bfloat16",
        fp8=fp8,
        memory_fraction=0.9,
        token_budget=token_budget,
        rates=Rates(shape_of(config), None),
    )


def random_checkpoint(config: Config, device: torch.device) -> Checkpoint:
    """Every tensor is drawn when it is asked for, on the device."""
    shapes = tensor_shapes(Published(**asdict(config)))
    chance = torch.Generator(device).manual_seed(0)

    def tensor(name: str) -> torch.Tensor:
        shape = shapes[name]
        drawn = torch.randn(shape, generator=chance, device=device)
        return (drawn * shape[1] ** -0.5).bfloat16() if len(shape) > 1 else 1 + 0.1 * drawn

    return Checkpoint(Path("random"), "0" * 64, config, tensor)
