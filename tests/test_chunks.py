"""The inputs of a chunk of rows: those that a look-up met a moment ago are found again, and nothing else is taken for them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from quail_engine import connect
from quail_engine.calls import Question, Task, Template
from quail_engine.lookups import Inquiry, chunks, digests_of
from quail_engine.lookups.chunks import RecentChunks

BODIES = pa.array(["a", "b", None, "a", "", "c"])


def inquiry(width: int = 1, symmetric: bool = False) -> Inquiry:
    question = Question(Task.JUDGE, Template(("Is it? ", 0)))
    return Inquiry(question, "mock", None, symmetric, width, 100, 1 << 20)


def met(recent: RecentChunks, shown: list[bool], columns: list[pa.Array], of: Inquiry, grouping: int = 0) -> list[object]:
    """By shown row: its group and its digest."""
    inputs = recent.inputs(columns, grouping, pa.array(shown), of)
    digests, groups = inputs.digests[inputs.codes].tolist(), [inputs.groups[code] for code in inputs.codes]
    assert len(inputs.numbers) == len(np.unique(inputs.numbers)), "each input once"
    return list(zip(groups, map(tuple, digests), strict=True))


def expected(shown: list[bool], columns: list[pa.Array], grouping: int = 0) -> list[object]:
    kept = [column.filter(pa.array(shown)) for column in columns]
    digests = digests_of(kept[grouping:], sum(shown)).tolist()
    groups = zip(*(column.to_pylist() for column in kept[:grouping]), strict=True) if grouping else [()] * sum(shown)
    return list(zip(groups, map(tuple, digests), strict=True))


@pytest.mark.parametrize(
    "shown", [[True, True, False, True, True, True], [True, False, False, True, False, False], [False] * 6]
)
def test_shown_rows_of_a_chunk_that_was_met(shown: list[bool]) -> None:
    keys, recent, of = pa.array(["k", "l", "k", "l", None, "k"]), RecentChunks(), inquiry()
    everything = BODIES.is_valid().to_pylist()
    for columns, grouping in (([BODIES], 0), ([keys, BODIES], 1)):
        for rows in (shown, everything, shown):  # before the whole chunk was met, and after
            assert met(recent, rows, columns, of, grouping) == expected(rows, columns, grouping)


def test_pairs_in_either_order_are_no_pairs_in_this_order() -> None:
    recent, columns = RecentChunks(), [pa.array(["a", "b"]), pa.array(["b", "a"])]
    (_, one), (_, other) = met(recent, [True, True], columns, inquiry(2))
    assert one != other
    (_, one), (_, other) = met(recent, [True, True], columns, inquiry(2, symmetric=True))
    assert one == other


def test_a_chunk_is_hashed_once_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []
    monkeypatch.setattr(chunks, "digests_of", lambda columns, rows: hashed.append(rows) or digests_of(columns, rows))
    recent, of = RecentChunks(), inquiry()
    for _ in range(3):
        met(recent, [True] * 4, [pa.array(["a", "b", "a", "c"])], of)
    met(recent, [True] * 4, [pa.array(["a", "b", "a", "d"])], of)
    assert hashed == [3, 3]
    long = pa.array(["x" * (1 << 24)])  # more than is remembered
    for _ in range(2):
        met(recent, [True], [long], of)
    assert hashed == [3, 3, 1, 1]
    recent.clear()
    met(recent, [True] * 4, [pa.array(["a", "b", "a", "c"])], of)
    assert hashed == [3, 3, 1, 1, 3]


def test_conditions_of_an_or_share_what_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []
    monkeypatch.setattr(chunks, "digests_of", lambda columns, rows: hashed.append(rows) or digests_of(columns, rows))
    with connect(engine="mock", answers=None, sample_rows=0) as con:
        con.sql("create table t as select 'text ' || i as body from range(1000) r(i)")
        question = "AI_FILTER('Contains ''{}''?', body)"
        con.sql(f"select {' or '.join(question.format(word) for word in ('1', '22', '333', '4444'))} as x from t")
        assert con.report.asked == 1000 + 729 + 712 + 711
    # Five runs, in each of which 19 look-ups see one chunk, or the rows of it that an operand left open.
    assert sum(hashed) < 5 * 2.5 * 1000
