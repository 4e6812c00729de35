"""Triton, where it is installed. Without it the kernels are plain functions that nobody calls: their references serve."""

from __future__ import annotations

from typing import Any

try:
    import triton
    import triton.language as tl

    AVAILABLE = True
except ModuleNotFoundError:

    class _Absent:
        @staticmethod
        def jit(kernel: Any) -> Any:
            return kernel

    triton, tl, AVAILABLE = _Absent, None, False


def power_of_two(count: int) -> int:
    """The smallest power of two that is `count` or more."""
    return 1 << max(count - 1, 0).bit_length()


__all__ = ["AVAILABLE", "power_of_two", "tl", "triton"]
