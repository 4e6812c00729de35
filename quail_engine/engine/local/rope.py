"""Rotary positions as one complex product.

Dot products of queries with keys do not change when both have their head dimensions permuted alike. So the projections'
rows are permuted once, at load, from half-split pairs (i, i + d/2) to neighbours (2i, 2i + 1), and a rotation is the product
with exp(i·angle): one pass over memory, in fp32, whose bits do not depend on where a row lies.
"""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor

from quail_engine.engine.local.weights import Config


def pair_neighbours(rows: Tensor, head_dim: int) -> Tensor:
    """Projection rows (or biases) of whole heads, [heads · head_dim, ...], from half-split to neighbouring pairs."""
    rest = rows.shape[1:]
    return rows.view(-1, 2, head_dim // 2, *rest).transpose(1, 2).reshape(rows.shape)


def rotations(positions: Tensor, config: Config) -> Tensor:
    """exp(i · position · frequency), complex64 [positions, 1, head_dim / 2].

    Frequencies and angles are rounded to fp32 as in the reference implementation; only sine and cosine are taken in double,
    so that they cannot depend on a vectorised kernel's tail.
    """
    angles = (positions.float()[:, None] * _frequencies(config)).double()
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)[:, None]


def _frequencies(config: Config) -> Tensor:
    """Of each pair of dimensions, in radians a token, fp32 [head_dim / 2]; slow ones are stretched as Llama 3 does it."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    frequencies = 1.0 / (config.rope_theta**exponents)
    if not config.rope_factor:
        return frequencies
    turns = config.rope_context / (2 * pi / frequencies)
    kept = ((turns - config.rope_low) / (config.rope_high - config.rope_low)).clamp(0, 1)
    return (1 - kept) * frequencies / config.rope_factor + kept * frequencies


def rotate(heads: Tensor, rotation: Tensor) -> Tensor:
    """`heads` [tokens, heads, head_dim] turned by `rotation` [tokens, 1, head_dim / 2]; fp32."""
    pairs = torch.view_as_complex(heads.float().view(*heads.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rotation).flatten(-2)
