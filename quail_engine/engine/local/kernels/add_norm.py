"""Residual add and RMS norm in one pass over the rows."""

from __future__ import annotations

import torch
from torch import Tensor

from quail_engine.engine.local.kernels.language import power_of_two, tl, triton
from quail_engine.engine.local.kernels.quantise import FP8_MAX, Quantised, rounded_reference, row_outputs, store_row


@triton.jit
def add_norm_kernel(
    residual, update, weight, output, scales, columns, epsilon,
    ADD: tl.constexpr, QUANTISE: tl.constexpr, MAX: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program a row."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    values = tl.load(residual + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        values += tl.load(update + row * columns + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(residual + row * columns + column, values.to(residual.dtype.element_ty), mask=inside)
    mean = tl.sum(values * values, axis=0) / columns
    values = values / tl.sqrt(mean + epsilon) * tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    store_row(values, output, scales, row, column, columns, QUANTISE, MAX)


def add_norm(
    residual: Tensor, update: Tensor | None, weight: Tensor, epsilon: float, like: Tensor, quantise: bool = False
) -> Tensor | Quantised:
    """RMS norm of `residual + update`, which `residual` becomes, in place.

    `residual` and `update` [rows, columns], contiguous; `weight` [columns]. Returns [rows, columns] in the type of `like`, or
    with `quantise` fp8 rows and their scales. The norm is taken of the fp32 sum, before it is rounded to the residual's type.
    """
    rows, columns = residual.shape
    assert residual.is_contiguous()
    assert weight.shape == (columns,)
    assert update is None or (update.shape == residual.shape and update.is_contiguous())
    output, scales = row_outputs(rows, columns, like, quantise)
    if rows:
        given = residual if update is None else update
        block = power_of_two(columns)
        add_norm_kernel[(rows,)](
            residual, given, weight, output, scales, columns, epsilon,
            ADD=update is not None, QUANTISE=quantise, MAX=FP8_MAX, BLOCK=block, num_warps=_warps(block),
        )  # fmt: skip
    return (output, scales) if quantise else output


def add_norm_reference(
    residual: Tensor, update: Tensor | None, weight: Tensor, epsilon: float, like: Tensor, quantise: bool = False
) -> Tensor | Quantised:
    """The definition of `add_norm`."""
    values = residual.float()
    if update is not None:
        values = values + update.float()
        residual.copy_(values)
    normed = values * torch.rsqrt(values.square().mean(-1, keepdim=True) + epsilon) * weight.float()
    return rounded_reference(normed, like, quantise)


def _warps(block: int) -> int:
    """Warps that hold a row of `block` values, 8 to 16 values a thread."""
    return max(1, min(16, block // 512))
