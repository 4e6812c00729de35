"""Rows as fp8: one scale a row, the largest magnitude of the row at fp8's end."""

from __future__ import annotations

import torch
from torch import Tensor

from quail_engine.engine.local.kernels.language import power_of_two, tl, triton

FP8 = torch.float8_e4m3fn
FP8_MAX = 448.0  # the largest finite number of e4m3
TINY = 1e-12  # a row of zeros is divided by this

Quantised = tuple[Tensor, Tensor]
"""Rows as fp8 [rows, columns], and what to multiply each row with, fp32 [rows, 1]."""


@triton.jit
def store_row(values, output, scales, row, column, columns, QUANTISE: tl.constexpr, MAX: tl.constexpr):
    """Stores one row of fp32 `values`, as fp8 with its scale or in the output's own type."""
    inside = column < columns
    if QUANTISE:
        largest = tl.max(tl.where(inside, tl.abs(values), 0.0), axis=0)
        scale = tl.maximum(largest, 1e-12) / MAX
        tl.store(scales + row, scale)
        values = tl.minimum(tl.maximum(values / scale, -MAX), MAX)
    tl.store(output + row * columns + column, values.to(output.dtype.element_ty), mask=inside)


def row_outputs(rows: int, columns: int, like: Tensor, quantise: bool) -> tuple[Tensor, Tensor]:
    """Room for rows [rows, columns] in the type of `like` or fp8, and for scales [rows, 1] (unused ones are empty)."""
    output = torch.empty(rows, columns, dtype=FP8 if quantise else like.dtype, device=like.device)
    scales = torch.empty(rows if quantise else 0, 1, dtype=torch.float32, device=like.device)
    return output, scales


def quantised_reference(values: Tensor) -> Quantised:
    """[rows, columns] of any type as fp8 rows and scales."""
    values = values.float()
    scales = values.abs().amax(-1, keepdim=True).clamp_min(TINY) / FP8_MAX
    return (values / scales).clamp(-FP8_MAX, FP8_MAX).to(FP8), scales


def rounded_reference(values: Tensor, like: Tensor, quantise: bool) -> Tensor | Quantised:
    """What a kernel with an optional quantisation returns for fp32 `values`."""
    return quantised_reference(values) if quantise else values.to(like.dtype)


@triton.jit
def quantise_kernel(values, output, scales, columns, MAX: tl.constexpr, BLOCK: tl.constexpr):
    """One program a row."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    given = tl.load(values + row * columns + column, mask=column < columns, other=0.0).to(tl.float32)
    store_row(given, output, scales, row, column, columns, True, MAX)


def quantise(values: Tensor) -> Quantised:
    """[rows, columns], contiguous, as fp8 rows and scales."""
    rows, columns = values.shape
    assert values.is_contiguous()
    output, scales = row_outputs(rows, columns, values, True)
    if rows:
        block = power_of_two(columns)
        quantise_kernel[(rows,)](
            values, output, scales, columns, MAX=FP8_MAX, BLOCK=block, num_warps=min(16, max(1, block // 512))
        )
    return output, scales
