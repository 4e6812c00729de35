"""The least time that the same tokens can take: the model's plain linear layers at the same row counts, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache

import torch
import torch.nn.functional as F

from quail_engine.engine.local.weights import Config


@cache
def _layer(config: Config, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    attention = config.num_heads * config.head_dim
    shapes = (
        (attention + 2 * config.num_kv_heads * config.head_dim, config.hidden_size),
        (config.hidden_size, attention),
        (2 * config.intermediate_size, config.hidden_size),
        (config.hidden_size, config.intermediate_size),
    )
    return tuple(torch.randn(shape).to(dtype) * 0.02 for shape in shapes)


def layer_seconds(config: Config, dtype: torch.dtype, rows: int) -> float:
    """One layer's linears once. The caller repeats it, interleaved with what it compares, and takes the median."""
    weights = _layer(config, dtype)
    inputs = [torch.randn(rows, weight.shape[1]).to(dtype) for weight in weights]
    begun = time.perf_counter()
    for given, weight in zip(inputs, weights, strict=True):
        F.linear(given, weight)
    return time.perf_counter() - begun


def floor_seconds(config: Config, dtype: torch.dtype, batches: Sequence[int], repeats: int = 3) -> float:
    """Seconds of all layers for batches of so many rows: of each row count the median of `repeats` whole layers."""
    seconds = {}
    with torch.inference_mode():
        for rows in set(batches):
            layer_seconds(config, dtype, rows)  # the first call compiles a kernel for the shape
            seconds[rows] = sorted(layer_seconds(config, dtype, rows) for _ in range(repeats))[repeats // 2]
    return config.num_layers * sum(seconds[rows] for rows in batches)
