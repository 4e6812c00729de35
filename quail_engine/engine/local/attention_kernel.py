"""Attention that also returns its log-sum-exp, so that the parts of a split softmax can be merged."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

AttentionKernel = Callable[[Tensor, Tensor, Tensor, bool], tuple[Tensor, Tensor]]
"""(query [b, h, m, d], key [b, h, n, d], value [b, h, n, d], causal) → (output [b, h, m, d], log-sum-exp fp32 [b, h, m]).

Scores are scaled by d^-0.5. Causal needs m = n. Keys and values may be expanded views.
"""


def reference_attention(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """The definition, in plain torch and fp32."""
    scores = query.float() @ key.float().mT * query.shape[-1] ** -0.5
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    return (scores.softmax(-1) @ value.float()).to(query.dtype), scores.logsumexp(-1)


def flash_attention(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """torch's fused CPU kernel, an internal operator: use `attention_kernel`, which checks that it is there and agrees."""
    output, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, causal)
    return output, log_sum.float()


@cache
def attention_kernel() -> AttentionKernel:
    """The fastest kernel of this torch that does what the reference does."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 2, 20, 16, generator=generator) for _ in range(3))
    for causal in (False, True):
        try:
            found = flash_attention(query, key, value, causal)
        except (AttributeError, RuntimeError, TypeError, NotImplementedError):
            return reference_attention
        expected = reference_attention(query, key, value, causal)
        if any(a.shape != b.shape or not torch.allclose(a, b, atol=1e-4) for a, b in zip(found, expected, strict=True)):
            return reference_attention
    return flash_attention
