"""QK-norm and rotary positions, in place on the fused QKV product."""

from __future__ import annotations

import torch
from torch import Tensor

from quail_engine.engine.local.kernels.language import power_of_two, tl, triton


@triton.jit
def rope_kernel(
    qkv, rotation, positions, norms, query_heads, row_stride, epsilon,
    NORM: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program a (row, head); neighbours are a pair."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    pair = tl.arange(0, BLOCK)
    inside = pair < HALF
    start = qkv + row * row_stride + head * 2 * HALF
    even = tl.load(start + 2 * pair, mask=inside, other=0.0).to(tl.float32)
    odd = tl.load(start + 2 * pair + 1, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        mean = (tl.sum(even * even, axis=0) + tl.sum(odd * odd, axis=0)) / (2 * HALF)
        scale = 1.0 / tl.sqrt(mean + epsilon)
        weights = norms + (head >= query_heads).to(tl.int32) * 2 * HALF
        even_weight = tl.load(weights + 2 * pair, mask=inside, other=0.0).to(tl.float32)
        odd_weight = tl.load(weights + 2 * pair + 1, mask=inside, other=0.0).to(tl.float32)
        even, odd = even * scale * even_weight, odd * scale * odd_weight
    angle = rotation + tl.load(positions + row).to(tl.int64) * 2 * HALF
    cosine = tl.load(angle + 2 * pair, mask=inside, other=0.0)
    sine = tl.load(angle + 2 * pair + 1, mask=inside, other=0.0)
    tl.store(start + 2 * pair, (even * cosine - odd * sine).to(qkv.dtype.element_ty), mask=inside)
    tl.store(start + 2 * pair + 1, (odd * cosine + even * sine).to(qkv.dtype.element_ty), mask=inside)


def rope(
    qkv: Tensor, rotation: Tensor, positions: Tensor, query_heads: int, key_heads: int,
    norms: Tensor | None, epsilon: float,
) -> None:  # fmt: skip
    """Rotates the queries and keys of `qkv`, in place.

    `qkv` [rows, query heads + 2 · key heads, dim], contiguous, dimensions of a pair side by side; `rotation` fp32 [context,
    dim / 2, 2], cosine and sine of each pair's angle; `positions` [rows], integers. `norms`: weights [2, dim] of an RMS norm
    of each query head and of each key head before the rotation, in the order of the pairs; None for models without.
    """
    rows, heads, dim = qkv.shape
    assert qkv.is_contiguous()
    assert heads == query_heads + 2 * key_heads
    assert rotation.shape[1:] == (dim // 2, 2)
    assert rotation.dtype == torch.float32
    assert positions.shape == (rows,)
    assert norms is None or (norms.shape == (2, dim) and norms.is_contiguous())
    if rows:
        rope_kernel[(rows, query_heads + key_heads)](
            qkv, rotation, positions, rotation if norms is None else norms, query_heads, heads * dim, epsilon,
            NORM=norms is not None, HALF=dim // 2, BLOCK=power_of_two(dim // 2), num_warps=1,
        )  # fmt: skip


def rope_reference(
    qkv: Tensor, rotation: Tensor, positions: Tensor, query_heads: int, key_heads: int,
    norms: Tensor | None, epsilon: float,
) -> None:  # fmt: skip
    """The definition of `rope`."""
    turned = qkv[:, : query_heads + key_heads].float()
    if norms is not None:
        scale = torch.rsqrt(turned.square().mean(-1, keepdim=True) + epsilon)
        weights = torch.cat([norms[0].float().expand(query_heads, -1), norms[1].float().expand(key_heads, -1)])
        turned = turned * scale * weights
    even, odd = turned.unflatten(-1, (-1, 2)).unbind(-1)
    cosine, sine = (part[:, None] for part in rotation[positions.long()].unbind(-1))
    pairs = torch.stack([even * cosine - odd * sine, odd * cosine + even * sine], -1)
    qkv[:, : query_heads + key_heads] = pairs.flatten(-2).to(qkv.dtype)
