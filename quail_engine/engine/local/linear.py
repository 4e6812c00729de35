"""Products with a model's matrices, laid out once as this processor's library reads them, or widened as they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

_ROWS = 2_048  # the row count that a layout is chosen for; it serves any


@dataclass(frozen=True)
class Linear:
    """A matrix to multiply activations with. Build it with `linear`."""

    weight: Tensor  # [outputs, inputs], or the library's own layout of it
    bias: Tensor | None  # [outputs]
    packed: bool  # whether `weight` is in that layout, which nothing else can read

    @property
    def dtype(self) -> torch.dtype:
        """That activations must have."""
        return self.weight.dtype

    def __call__(self, given: Tensor) -> Tensor:
        """[rows, inputs] → [rows, outputs], the same bits in either layout."""
        if self.packed:
            return _packed_product(given, self.weight, self.bias)
        return F.linear(given, self.weight, self.bias)


@dataclass(frozen=True)
class Widened:
    """A matrix that stays in bfloat16 where the model's file is mapped, and is multiplied with in float32.

    Writing it out in float32 takes as long as a product with some six rows. To keep it so takes memory that no other process
    shares, and the system more time to give than all else when a model is loaded.
    """

    parts: tuple[Tensor, ...]  # bfloat16, one below the other [outputs, inputs]
    room: Tensor  # fp32, of as many numbers or more; all matrices of a model use the same

    dtype = torch.float32

    def __call__(self, given: Tensor) -> Tensor:
        """As `Linear`, with the same bits."""
        weight = self.room[: sum(part.numel() for part in self.parts)].view(-1, given.shape[1])
        start = 0
        for part in self.parts:
            weight[start : start + len(part)].copy_(part)
            start += len(part)
        return F.linear(given, weight)


def stacked(parts: Sequence[Tensor], dtype: torch.dtype, room: Tensor) -> Linear | Widened:
    """A product with matrices that stand one below the other. `room`: see `Widened`."""
    if dtype == torch.float32 and all(part.dtype == torch.bfloat16 for part in parts):
        return Widened(tuple(parts), room)
    return linear(torch.cat([part.to(dtype) for part in parts]))


def linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """A product with `weight`: in oneDNN's layout where it is bfloat16 and this torch can, else as it is."""
    if weight.dtype == torch.bfloat16 and packing_works():
        return Linear(_pack(weight), bias, packed=True)
    return Linear(weight, bias, packed=False)


@cache
def packing_works() -> bool:
    """Whether torch's internal operators are there, and give the bits that a plain product gives."""
    generator = torch.Generator().manual_seed(0)
    weight, given, bias = (torch.randn(shape, generator=generator).bfloat16() for shape in ((48, 64), (32, 64), (48,)))
    try:
        packed = _pack(weight)
        return all(torch.equal(_packed_product(given, packed, b), F.linear(given, weight, b)) for b in (None, bias))
    except (AttributeError, RuntimeError, TypeError, NotImplementedError):
        return False


def _pack(weight: Tensor) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _ROWS)
    return packed


def _packed_product(given: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(given, weight, bias, "none", [], "")
    return product
