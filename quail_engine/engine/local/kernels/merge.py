"""Two parts of a softmax, each normalised over its own keys, as one."""

from __future__ import annotations

import torch
from torch import Tensor

from quail_engine.engine.local.kernels.language import power_of_two, tl, triton
from quail_engine.engine.local.kernels.quantise import FP8_MAX, Quantised, rounded_reference, row_outputs, store_row


@triton.jit
def merge_kernel(
    first, first_sum, second, second_sum, output, output_sum, scales, columns, heads,
    DIM: tl.constexpr, QUANTISE: tl.constexpr, MAX: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program a row, all heads."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    head = column // DIM
    one = tl.load(first_sum + row * heads + head, mask=inside, other=0.0)
    other = tl.load(second_sum + row * heads + head, mask=inside, other=0.0)
    larger = tl.maximum(one, other)
    # Both minus infinity: no key at all; the row is then 0.
    larger = tl.where(larger == float("-inf"), 0.0, larger)
    one_weight, other_weight = tl.exp(one - larger), tl.exp(other - larger)
    total = one_weight + other_weight
    a = tl.load(first + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(second + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    some = tl.where(total > 0.0, total, 1.0)
    values = (a * one_weight + b * other_weight) / some
    log_sum = tl.where(total > 0.0, tl.log(some) + larger, float("-inf"))
    tl.store(output_sum + row * heads + head, log_sum, mask=inside & (column % DIM == 0))
    store_row(values, output, scales, row, column, columns, QUANTISE, MAX)


def merge(
    first: Tensor, first_sum: Tensor, second: Tensor, second_sum: Tensor, quantise: bool = False
) -> tuple[Tensor | Quantised, Tensor]:
    """Outputs [rows, heads, dim] and their log-sum-exps fp32 [rows, heads], all contiguous → the same for both parts' keys.

    A part without keys has the log-sum-exp -inf. The output is [rows, heads · dim], with `quantise` fp8 rows and their scales.
    """
    rows, heads, dim = first.shape
    assert second.shape == first.shape
    assert first_sum.shape == second_sum.shape == (rows, heads)
    assert first.is_contiguous()
    assert second.is_contiguous()
    columns = heads * dim
    output, scales = row_outputs(rows, columns, first, quantise)
    output_sum = torch.empty_like(first_sum)
    if rows:
        block = power_of_two(columns)
        merge_kernel[(rows,)](
            first, first_sum, second, second_sum, output, output_sum, scales, columns, heads,
            DIM=dim, QUANTISE=quantise, MAX=FP8_MAX, BLOCK=block, num_warps=min(16, max(1, block // 512)),
        )  # fmt: skip
    return ((output, scales) if quantise else output), output_sum


def merge_reference(
    first: Tensor, first_sum: Tensor, second: Tensor, second_sum: Tensor, quantise: bool = False
) -> tuple[Tensor | Quantised, Tensor]:
    """The definition of `merge`."""
    total = torch.logaddexp(first_sum, second_sum)
    weights = [torch.where(total.isneginf(), 0.0, (part - total).exp()).unsqueeze(-1) for part in (first_sum, second_sum)]
    values = (first.float() * weights[0] + second.float() * weights[1]).flatten(1)
    return rounded_reference(values, first, quantise), total
