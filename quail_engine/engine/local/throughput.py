"""How fast this machine multiplies matrices: chooses the dtype, and predicts the rate before anything was measured."""

from __future__ import annotations

from functools import cache
from time import perf_counter

import torch
import torch.nn.functional as F

_ROWS = 256
_SECONDS = 0.1


@cache
def matrix_rate(dtype: torch.dtype, inputs: int, outputs: int, threads: int) -> float:
    """FLOP/s of a linear of `inputs` x `outputs` at a typical row count: the best of what fits in 0.1 s.

    Measured once a process; `threads` is only the key, torch has been set to it.
    """
    activations, matrix = torch.ones(_ROWS, inputs, dtype=dtype), torch.ones(outputs, inputs, dtype=dtype)
    F.linear(activations, matrix)  # the first call compiles a kernel for the shape
    best = float("inf")
    stop = perf_counter() + _SECONDS
    while (start := perf_counter()) < stop:
        F.linear(activations, matrix)
        best = min(best, perf_counter() - start)
    return 2.0 * _ROWS * inputs * outputs / best


def fastest_dtype(inputs: int, outputs: int, threads: int) -> torch.dtype:
    """bfloat16 where the processor has instructions for it, else usually float32."""
    return max((torch.bfloat16, torch.float32), key=lambda dtype: matrix_rate(dtype, inputs, outputs, threads))
