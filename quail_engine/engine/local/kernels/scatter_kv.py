"""Keys and values from the fused QKV product into the arena's slots."""

from __future__ import annotations

from torch import Tensor

from quail_engine.engine.local.kernels.language import power_of_two, tl, triton


@triton.jit
def scatter_kv_kernel(qkv, keys, values, slots, row_stride, key_offset, width, BLOCK: tl.constexpr):
    """One program a row."""
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + row).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    start = qkv + row * row_stride + key_offset
    key = tl.load(start + column, mask=inside, other=0.0)
    value = tl.load(start + width + column, mask=inside, other=0.0)
    tl.store(keys + slot * width + column, key, mask=inside)
    tl.store(values + slot * width + column, value, mask=inside)


def scatter_kv(qkv: Tensor, keys: Tensor, values: Tensor, slots: Tensor) -> None:
    """Copies each row's keys and values to its slot.

    `qkv` [rows, query heads + 2 · key heads, dim], contiguous, rotated; `keys` and `values` [slots, key heads, dim],
    contiguous, one layer of the arena; `slots` [rows], integers, no two alike.
    """
    rows, heads, dim = qkv.shape
    key_heads = keys.shape[1]
    assert keys.shape == values.shape
    assert keys.shape[2] == dim
    assert qkv.is_contiguous()
    assert keys.is_contiguous()
    assert values.is_contiguous()
    assert slots.shape == (rows,)
    if rows:
        width = key_heads * dim
        scatter_kv_kernel[(rows,)](
            qkv, keys, values, slots, heads * dim, (heads - 2 * key_heads) * dim, width,
            BLOCK=power_of_two(width), num_warps=4,
        )  # fmt: skip


def scatter_kv_reference(qkv: Tensor, keys: Tensor, values: Tensor, slots: Tensor) -> None:
    """The definition of `scatter_kv`."""
    key_heads = keys.shape[1]
    keys[slots.long()] = qkv[:, -2 * key_heads : -key_heads]
    values[slots.long()] = qkv[:, -key_heads:]
