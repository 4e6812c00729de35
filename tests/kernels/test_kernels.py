"""Every kernel beside its reference, in Triton's interpreter: fp32 and fp16 (its bfloat16 arithmetic is not the device's)."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the extra local is not installed")
triton = pytest.importorskip("triton", reason="the extra gpu is not installed")
