# ruff: noqa: E501 - SQL is easier to read on one line
"""Many missing inputs: numbered in a table, waiting in a file, asked in parts, and answered as few would be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quail_engine
from quail_engine import Connection, QuailError, RunReport, answering, waiting
from quail_engine.lookups import DigestTable, Spill, distinct

QUESTION = "AI_FILTER('Is it angry?', body)"
LIMITS: dict[str, Any] = {"max_requests": 10**9, "max_seconds": 10**9}


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 4_000), max_size=900), max_size=12), st.booleans())
def test_the_table_numbers_digests_as_a_dict_would(chunks: list[list[int]], crowded: bool) -> None:
    table, expected = DigestTable(), {}
    for chunk in chunks:
        # Crowded digests differ only above the bits that choose a slot.
        names = [(1 if crowded else n * 0x9E3779B97F4A7C15 % 2**64, n) for n in chunk]
        digests = np.array(names, np.uint64).reshape(-1, 2)
        assert table.find(digests).tolist() == [expected.get(name, -1) for name in names]
        new = [name for name in dict.fromkeys(names) if name not in expected]
        first = digests[distinct(digests)]
        table.add(first[table.find(first) < 0])
        expected |= {name: len(expected) + i for i, name in enumerate(new)}
        assert table.find(digests).tolist() == [expected[name] for name in names]
    assert len(table) == len(expected)


@pytest.mark.parametrize("memory_bytes", [1, 5_000, 1 << 30])
def test_rows_come_back_in_order_wherever_they_waited(memory_bytes: int) -> None:
    schema = pa.schema([("number", pa.int32()), ("text", pa.string())])
    spill = Spill(schema, memory_bytes)
    for start in range(0, 1_000, 50):
        numbers = list(range(start, start + 50))
        spill.append(pa.record_batch([pa.array(numbers, pa.int32()), pa.array([f"ü{n % 7}" for n in numbers])], schema=schema))
        assert spill._bytes <= memory_bytes
    assert spill.spilled == (memory_bytes < 1 << 30)
    parts = list(spill.parts(64, 400))
    assert [n for part in parts for n in part.column(0).to_pylist()] == list(range(1_000))
    assert all(part.num_rows <= 64 and part.nbytes <= 500 for part in parts)
    spill.close()
    assert len(spill) == 0


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes in memory at each write to a temporary file."""
    sizes: list[int] = []
    write = Spill._write

    def counting(spill: Spill) -> None:
        sizes.append(spill._bytes)
        write(spill)

    monkeypatch.setattr(Spill, "_write", counting)
    return sizes


def run(sql: str, **options: Any) -> tuple[list[tuple[Any, ...]], RunReport, int]:
    """Rows, report and number of rounds that asked."""
    rounds = []
    with quail_engine.connect(engine="mock", answers={"mode": "off"}, **LIMITS, **options) as con:
        con.sql(
            "create table many as select i as id, i % 40 as team, 'Ticket ' || i || ' says: the parcel is late' as body from range(20000) r(i)"
        )
        con._session._listener = lambda event: (
            rounds.append(event) if hasattr(event, "tokens") and not hasattr(event, "done") else None
        )
        table, report = con.sql(sql, report=True)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)), report, len(rounds)


def test_many_inputs_are_one_round_in_bounded_memory(written: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "ASKED_ROWS", 5_000)
    monkeypatch.setattr(answering, "PART_ROWS", 1_000)
    sql = f"select count(*), count(*) filter ({QUESTION}), sum(id) filter ({QUESTION}) from many"
    rows, report, rounds = run(sql, missing_bytes=200_000)
    assert rounds == 1
    assert (report.asked, report.failed) == (20_000, 0)
    assert len(written) >= 10, "the texts, and then the requests, did not stay in 200 KB"
    assert max(written) < 200_000 + 2_048 * 50, "no more than the bound and the chunk that crosses it"
    written.clear()
    oracle = quail_engine.oracle()
    oracle.execute(
        "create table many as select i as id, 'Ticket ' || i || ' says: the parcel is late' as body from range(20000) r(i)"
    )
    assert rows == oracle.execute(sql).fetchall()


def test_pairs_that_waited_in_a_file_share_their_anchors(written: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    # 40 tickets are anchors; the 50 partners of each come from DuckDB far apart.
    sql = "select count(*) from many p join many a on a.team = p.team and a.id < 40 and p.id < 2000 where AI_FILTER(PROMPT('{0} shares a topic with {1}', a.body, p.body)) is not null"
    reports = []
    for memory in (1 << 26, 20_000):
        rows, report, rounds = run(sql, missing_bytes=memory)
        assert (rows, rounds, report.asked) == ([(2_000,)], 1, 2_000)
        reports.append((report.tokens_fresh, report.tokens_reused))
        assert bool(written) == (memory == 20_000)
    assert reports[0] == reports[1], "where the pairs waited changes nothing of what is prefilled"


def test_a_round_that_may_note_less_takes_more_rounds() -> None:
    rows, report, rounds = run(
        f"select count(*) from many where id < 3000 and {QUESTION} is not null", max_missing_per_round=1_000
    )
    assert (rows, report.asked, rounds) == ([(3_000,)], 3_000, 3)


@pytest.fixture
def con() -> Iterator[Connection]:
    with quail_engine.connect(engine="mock", answers={"mode": "off"}) as connection:
        connection.sql("create table t as select 'text ' || i as body, i from range(10) r(i)")
        yield connection


@pytest.mark.parametrize(
    ("first", "second", "asked"),
    [
        ("AI_FILTER('q', body)", "AI_FILTER('q', body, {'on_overlong': 'truncate'})", 10),
        ("AI_FILTER(PROMPT('{0} or {1}', body, body), {'symmetric': true})", "AI_FILTER(PROMPT('{0} or {1}', body, body))", 10),
        ("AI_CLASSIFY(body, case when i < 5 then ['a', 'b'] else ['c', 'd'] end)", "AI_CLASSIFY(body, ['a', 'b'])", 15),
        (
            "AI_CLASSIFY(body, case when i < 5 then ['a', 'b'] else ['c', 'd', 'e'] end)",
            "AI_CLASSIFY_SCORES(body, case when i < 5 then ['a', 'b'] else ['c', 'd', 'e'] end)",
            10,
        ),
    ],
)
def test_one_request_that_is_reached_in_two_ways_is_asked_once(con: Connection, first: str, second: str, asked: int) -> None:
    # Without a store, so that nothing else could know the answer.
    ours = con.sql(f"select i, {first} as one, {second} as other from t order by i").to_pylist()
    assert con.report.asked == asked
    oracle = quail_engine.oracle()
    oracle.execute("create table t as select 'text ' || i as body, i from range(10) r(i)")
    plain = [
        call.split(", {'")[0].rstrip(")") + ")" * call.split(", {'")[0].count("(") if "{'" in call else call
        for call in (first, second)
    ]
    theirs = oracle.sql(f"select i, {plain[0]} as one, {plain[1]} as other from t order by i").to_arrow_table().to_pylist()
    for mine, reference in zip(ours, theirs, strict=True):
        assert mine["one"] == reference["one"]
        assert (
            dict(mine["other"]) == pytest.approx(dict(reference["other"]), abs=1e-6)
            if isinstance(mine["other"], list)
            else mine["other"] == reference["other"]
        )


def test_the_strictest_error_ratio_of_calls_that_share_a_question_holds() -> None:
    with quail_engine.connect(engine="mock", mock_fail="1") as con:
        con.sql("create table t as select 'text ' || i as body from range(100, 130) r(i)")
        con.sql("select AI_FILTER('q', body, {'max_error_ratio': 1.0}) from t")
        with pytest.raises(QuailError, match="30 of 30 requests"):
            con.sql("select AI_FILTER('q', body, {'max_error_ratio': 1.0}), AI_SCORE('q', body) from t")


def test_a_full_disk_stops_the_statement_before_it_asks(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(spill: Spill, batch: pa.RecordBatch) -> None:
        raise OSError(28, "No space left on device")

    con.sql("begin")
    with monkeypatch.context() as patch:
        patch.setattr(Spill, "append", full)
        with pytest.raises(QuailError, match=r"No space left.*TMPDIR"):
            con.sql("select AI_FILTER('q', body) from t")
    assert con.report.asked == 0
    assert len(con.sql("select AI_FILTER('q', body) from t")) == 10, "the user's transaction goes on"
    con.sql("rollback")
