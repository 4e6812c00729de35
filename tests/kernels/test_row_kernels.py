"""Kernels that work row by row, beside their references: fp32 and fp16 (the interpreter's bfloat16 is not a device's)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from quail_engine.engine.local.kernels.add_norm import add_norm, add_norm_reference
from quail_engine.engine.local.kernels.quantise import FP8, FP8_MAX, quantise, quantised_reference
from quail_engine.engine.local.kernels.rope import rope, rope_reference
from quail_engine.engine.local.kernels.scatter_kv import scatter_kv, scatter_kv_reference
from quail_engine.engine.local.kernels.swiglu import swiglu, swiglu_reference

TYPES = [torch.float32, torch.float16]
ROWS = [0, 5]


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def assert_alike(found: object, expected: object) -> None:
    """Equal but for rounding: an fp8 number may lie a step apart, where the last bit of its row's scale decides.

    The interpreter loses the carry when a number is rounded up to a power of two, and gives half of it; a device does not.
    """
    if isinstance(found, tuple) and isinstance(expected, tuple):
        (rows, scales), (expected_rows, expected_scales) = found, expected
        assert rows.dtype == FP8
        torch.testing.assert_close(scales, expected_scales, rtol=1e-5, atol=0)
        numbers, wanted = rows.float(), expected_rows.float()
        carry = (2 * numbers == wanted) & (wanted.abs().log2() % 1 == 0)
        torch.testing.assert_close(torch.where(carry, wanted, numbers), wanted, rtol=0.13, atol=2**-9)
        assert int((numbers != wanted).logical_and(~carry).sum()) <= 1 + 0.02 * wanted.numel()
        assert not (numbers.abs() > FP8_MAX).any()
    else:
        assert isinstance(found, Tensor)
        assert isinstance(expected, Tensor)
        assert found.dtype == expected.dtype
        within = 1e-5 if found.dtype == torch.float32 else 2e-3
        torch.testing.assert_close(found, expected, rtol=within, atol=within)


@pytest.mark.parametrize("quantise", [False, True])
@pytest.mark.parametrize("columns", [64, 96])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dtype", TYPES)
def test_add_norm(dtype: torch.dtype, rows: int, columns: int, quantise: bool) -> None:
    weight, like = random(columns), torch.empty(0, dtype=dtype)
    for update in (None, random(rows, columns, dtype=dtype, seed=2)):
        ours, theirs = random(rows, columns, seed=1), random(rows, columns, seed=1)
        found = add_norm(ours, update, weight, 1e-6, like, quantise)
        assert_alike(found, add_norm_reference(theirs, update, weight, 1e-6, like, quantise))
        assert torch.equal(ours, theirs)


def test_a_row_of_zeros_stays_one() -> None:
    rows = torch.zeros(2, 64)
    output, scales = add_norm(rows, None, torch.ones(64), 1e-6, rows, quantise=True)
    assert not output.float().any()
    assert torch.isfinite(scales).all()


@pytest.mark.parametrize("quantise", [False, True])
@pytest.mark.parametrize("columns", [48, 128])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dtype", TYPES)
def test_swiglu(dtype: torch.dtype, rows: int, columns: int, quantise: bool) -> None:
    gate_up = random(rows, 2 * columns, dtype=dtype) * 4
    assert_alike(swiglu(gate_up, quantise), swiglu_reference(gate_up, quantise))


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dtype", TYPES)
def test_quantise(dtype: torch.dtype, rows: int) -> None:
    values = random(rows, 96, dtype=dtype) * 4
    assert_alike(quantise(values), quantised_reference(values))


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("heads", [(2, 1), (6, 2), (3, 3)])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dtype", TYPES)
def test_rope(dtype: torch.dtype, rows: int, heads: tuple[int, int], normed: bool) -> None:
    query_heads, key_heads, dim = *heads, 32
    qkv = random(rows, query_heads + 2 * key_heads, dim, dtype=dtype)
    expected = qkv.clone()
    angles = random(50, dim // 2)
    rotation = torch.stack([angles.cos(), angles.sin()], -1)
    positions = torch.arange(rows) * 7
    norms = random(2, dim, seed=3) if normed else None
    rope(qkv, rotation, positions, query_heads, key_heads, norms, 1e-6)
    rope_reference(expected, rotation, positions, query_heads, key_heads, norms, 1e-6)
    assert_alike(qkv, expected)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dtype", TYPES)
def test_scatter_kv(dtype: torch.dtype, rows: int) -> None:
    qkv, slots = random(rows, 3 + 2 * 3, 16, dtype=dtype), torch.randperm(20)[:rows]
    ours, theirs = ([torch.zeros(20, 3, 16, dtype=dtype) for _ in range(2)] for _ in range(2))
    scatter_kv(qkv, *ours, slots)
    scatter_kv_reference(qkv, *theirs, slots)
    assert all(torch.equal(found, expected) for found, expected in zip(ours, theirs, strict=True))
