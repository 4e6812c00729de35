"""The kernels' own tests run in processes of their own: Triton's interpreter and its compiler exclude each other."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
needs_triton = pytest.mark.skipif(not find_spec("triton"), reason="the extra gpu (Triton) is not installed")


def run(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | environment,
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_triton
def test_kernels_equal_their_references_in_the_interpreter() -> None:
    said = run("-m", "pytest", "-v", "-p", "no:cacheprovider", str(TESTS / "kernels"), TRITON_INTERPRET="1")
    assert " passed" in said
    assert "skipped" not in said


@needs_triton
@pytest.mark.parametrize("capability", [80, 90])
def test_kernels_compile_for_devices_that_are_not_here(capability: int) -> None:
    """Shared memory, spills and tensor-core instructions are asserted by the script."""
    assert "compiled" in run(str(TESTS / "kernels" / "compile_all.py"), str(capability), TRITON_INTERPRET="0")
