"""Arrow arrays made without pyarrow's own conversions, and that a question needs no pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from quail_engine.arrow import numbers_of, of_flags, of_keys, of_numbers


@pytest.mark.parametrize(
    "values", [np.arange(5, dtype=np.int32), np.arange(9)[::2], np.zeros(0, np.int64), np.array([0.5, -1])]
)
def test_numbers_there_and_back(values: np.ndarray[Any, Any]) -> None:
    array = of_numbers(values)
    array.validate(full=True)
    assert array.equals(pa.array(values))
    assert numbers_of(array).tolist() == values.tolist()
    assert numbers_of(array[1:4]).tolist() == values[1:4].tolist()
    assert numbers_of(array).dtype == values.dtype


@pytest.mark.parametrize("count", [0, 1, 8, 9, 100])
def test_flags(count: int) -> None:
    rng = np.random.default_rng(0)
    flags, known = rng.random(count) < 0.5, rng.random(count) < 0.5
    assert of_flags(flags).to_pylist() == flags.tolist()
    assert of_flags(flags, known).to_pylist() == [bool(f) if k else None for f, k in zip(flags, known, strict=True)]


def test_keys() -> None:
    assert of_keys([b"ab", b"cd"], 2).equals(pa.array([b"ab", b"cd"], pa.binary(2)))
    assert len(of_keys([], 2)) == 0
    with pytest.raises(AssertionError, match="2 bytes"):
        of_keys([b"abc"], 2)


def test_a_question_needs_no_pandas(tmp_path: Path) -> None:
    """Importing it would be a tenth of the time to the first answer."""
    pytest.importorskip("pandas")
    code = f"""import sys, quail_engine
with quail_engine.connect(engine="mock", answers={str(tmp_path / "answers")!r}) as con:
    for asked in (9, 0):
        con.sql("SELECT count(*) FROM range(9) r(i) WHERE AI_FILTER('Is it odd?', 'number ' || i)")
        assert con.report.asked == asked, con.report
sys.exit("pandas" in sys.modules)"""
    subprocess.run([sys.executable, "-c", code], check=True)
