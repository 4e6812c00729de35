"""Kernels in Triton's interpreter. It must be chosen before Triton is imported, so `tests/test_kernels.py` runs these."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["test_*.py"]
