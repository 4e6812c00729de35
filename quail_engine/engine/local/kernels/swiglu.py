"""SiLU of the gate times the up projection, from their fused product."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from quail_engine.engine.local.kernels.language import power_of_two, tl, triton
from quail_engine.engine.local.kernels.quantise import FP8_MAX, Quantised, rounded_reference, row_outputs, store_row


@triton.jit
def swiglu_kernel(
    gate_up, output, scales, columns, QUANTISE: tl.constexpr, MAX: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """One program a row."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    gate = tl.load(gate_up + row * 2 * columns + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * columns + columns + column, mask=inside, other=0.0).to(tl.float32)
    values = gate / (1.0 + tl.exp(-gate)) * up
    store_row(values, output, scales, row, column, columns, QUANTISE, MAX)


def swiglu(gate_up: Tensor, quantise: bool = False) -> Tensor | Quantised:
    """[rows, 2 · columns], gates first, contiguous → [rows, columns] in the same type, or fp8 rows and scales."""
    rows, both = gate_up.shape
    assert gate_up.is_contiguous()
    assert both % 2 == 0
    columns = both // 2
    output, scales = row_outputs(rows, columns, gate_up, quantise)
    if rows:
        block = power_of_two(columns)
        swiglu_kernel[(rows,)](
            gate_up,
            output,
            scales,
            columns,
            QUANTISE=quantise,
            MAX=FP8_MAX,
            BLOCK=block,
            num_warps=min(32, max(1, block // 512)),
        )
    return (output, scales) if quantise else output


def swiglu_reference(gate_up: Tensor, quantise: bool = False) -> Tensor | Quantised:
    """The definition of `swiglu`."""
    gate, up = gate_up.float().chunk(2, dim=-1)
    return rounded_reference(F.silu(gate) * up, gate_up, quantise)
