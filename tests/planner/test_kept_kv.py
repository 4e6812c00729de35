# ruff: noqa: E501 - SQL is easier to read on one line
"""Conditions about one text that follow each other beside AI joins read its KV: rows, requests and tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pytest
from reference.min_tokens import min_tokens
from text_first import put_texts_first

from quail_engine import BudgetError, Connection
from quail_engine.batching.batch import Batch, Node
from quail_engine.engine import mock
from quail_engine.prompts.request import Ids, Logits
from quail_engine.roofline import CHUNK_TOKENS

TABLES = """
create or replace table r as select i as id, i % 3 as site, 'report ' || i // 2 || repeat(' ' || md5((i // 2)::varchar), 9)
    || case when i // 2 % 2 = 0 then ' liver' else ' heart' end || case when i % 10 < 8 then ' even' else '' end as body from range(24) t(i);
create or replace table a as select i as id, 'item ' || i || case when i % 3 = 0 then ' liver' else ' lung' end as name from range(6) t(i);
create or replace table s as select i as id, i % 3 as site, 'spot ' || i || case when i % 4 = 0 then ' heart' else ' liver' end as name from range(8) t(i);
"""
"""Of 24 reports always two have one text, of some 310 bytes, and belong to different sites."""

FIRST = "AI_JOIN(PROMPT('{0} shares a word with {1}', r.body, a.name), {'selectivity': 0.3})"
SECOND = "AI_JOIN(PROMPT('Of {0} one word shares with {1}', r.body, s.name), {'selectivity': 0.6})"
THIRD = "AI_JOIN(PROMPT('That {0} also shares a word with {1}', r.body, b.name), {'selectivity': 0.9})"
EVEN = "AI_FILTER('Contains ''even''?', r.body, {'selectivity': 0.8})"
LIVER = "AI_FILTER('Contains ''liver''?', a.name, {'selectivity': 0.3})"

TWO = f"select r.id, a.id as a, s.id as s from r join a on {FIRST} join s on r.site = s.site and {SECOND}"
THREE = f"{TWO} join a b on b.id < a.id and {THIRD}"
FILTERED = f"{TWO} where {LIVER}"
FILTER_JOIN = f"select r.id, s.id as s from r join s on r.site = s.site and {SECOND} where {EVEN}"
AFTER = f"select r.id, a.id as a from r join a on {FIRST} where {EVEN.replace('0.8', '0.99')}"
OUTER = f"select r.id, s.id as s from r left join s on r.site = s.site and {SECOND} and {SECOND.replace('Of', 'In')}"

APART = "ask_together"
Connected = Callable[..., Connection]


class Recorder(mock.MockEngine):
    """Which paths were read, and how much KV was kept at most."""

    paths: dict[int, tuple[Ids, ...]]
    nodes: dict[int, Node]
    read: list[tuple[Ids, ...]]
    held: list[int]
    kept: set[int]

    def score(self, batch: Batch) -> list[Logits]:
        for node in batch.nodes:
            self.kept.add(node.number)
            assert {node.parent, *([node.sibling] if node.shared else [])} <= self.kept | {-1}, "its KV was dropped"
            self.paths[node.number] = (*self.paths.get(node.parent, ()), node.ids)
            self.nodes[node.number] = node
        self.read += [self.paths[read.node] for read in batch.reads]
        self.held.append(sum(len(self.nodes[number].ids) for number in batch.keep))
        assert batch.keep <= self.kept
        self.kept.intersection_update(batch.keep)
        return super().score(batch)


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> type[Recorder]:
    put_texts_first(monkeypatch)
    engine = type("Recording", (Recorder,), {"paths": {}, "nodes": {}, "read": [], "held": [], "kept": set()})
    monkeypatch.setattr(mock, "MockEngine", engine)
    return engine


@pytest.fixture(autouse=True)
def tables(database: duckdb.DuckDBPyConnection, oracle: duckdb.DuckDBPyConnection) -> None:
    database.execute(TABLES)
    oracle.execute(TABLES)


def rows(table: object) -> Counter[str]:
    return Counter(map(str, table.to_pylist()))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("sql", "saved", "kv_bytes"),
    [
        (TWO, 0.93, None),
        (TWO, 0.93, 1),
        (THREE, 0.87, 1),
        (FILTERED, 0.9, None),
        (FILTER_JOIN, 0.84, 1),
        (AFTER, 0.84, 4 * 700),
        (OUTER, 0.86, None),
    ],
    ids=["two joins", "text by text", "three joins", "filter on partners", "filter, join", "join, filter", "outer"],
)
def test_an_anchor_is_read_once(
    connected: Connected,
    oracle: duckdb.DuckDBPyConnection,
    recorded: type[Recorder],
    sql: str,
    saved: float,
    kv_bytes: int | None,
) -> None:
    other = connected(sample_rows=0, disable_rules=APART)
    expected = rows(oracle.sql(sql).to_arrow_table())
    assert rows(other.sql(sql)) == expected
    recorded.read.clear()
    recorded.held.clear()
    con = connected(sample_rows=0, kv_bytes=kv_bytes)
    assert rows(con.sql(sql)) == expected
    assert con.report.asked == other.report.asked == len(recorded.read)
    assert con.report.tokens_fresh < saved * other.report.tokens_fresh
    if sql not in (THREE, OUTER):  # there joins share partners, too, which these prompts put before the question
        assert con.report.tokens_fresh <= 1.01 * min_tokens(recorded.read, CHUNK_TOKENS)
    assert con.report.tokens_fresh + con.report.tokens_reused == other.report.tokens_fresh + other.report.tokens_reused
    assert "asked where the one before is TRUE, on its KV" in con.report.plan
    # A token of the mock has 4 bytes, a text some 310; beside what is held there is the path to what is asked next.
    assert max(recorded.held) <= (2 * 2_048 if kv_bytes is None else max(330, kv_bytes // 4)) + 50
    con.sql(sql)
    assert con.report.asked == 0


@pytest.mark.parametrize(
    "sql",
    [
        TWO.replace("(PROMPT('Of {0} one word shares with {1}', r.body, s.name)", "(PROMPT('Of {0} one word shares with {1}', s.name, r.body)"),
        TWO.replace("'selectivity': 0.6", "'selectivity': 0.6, 'symmetric': true"),
        TWO.replace("r.body, s.name)", "upper(r.body), s.name)"),
    ],
    ids=["another anchor", "either may be the anchor", "another text"],
)  # fmt: skip
def test_kv_of_other_texts_is_none_of_its(connected: Connected, oracle: duckdb.DuckDBPyConnection, sql: str) -> None:
    con, other = connected(sample_rows=0), connected(sample_rows=0, disable_rules=APART)
    assert rows(con.sql(sql)) == rows(other.sql(sql)) == rows(oracle.sql(sql).to_arrow_table())
    assert con.report.asked == other.report.asked
    assert "KV," not in con.report.plan.replace("its KV shared", "")


def test_nothing_to_ask(connected: Connected) -> None:
    con = connected(sample_rows=0)
    assert con.sql(f"{TWO} where r.id < 0").num_rows == con.report.asked == 0
    assert con.sql(f"{TWO} where a.id = 1").num_rows == 0
    assert con.report.asked == 12, "no first pair is TRUE"


def test_failed_pairs_refuse(connected: Connected) -> None:
    given = {"sample_rows": 0, "mock_fail": "item 3", "max_error_ratio": 1.0}
    con, other = connected(**given), connected(**given, disable_rules=APART)
    assert rows(con.sql(TWO)) == rows(other.sql(TWO))
    assert con.report.asked == other.report.asked
    assert con.report.failed == other.report.failed > 0


def test_what_the_store_knows(connected: Connected) -> None:
    con, other = connected(sample_rows=0), connected(sample_rows=0, disable_rules=APART)
    for each in (con, other):
        each.sql(TWO.replace("on r.site", "on r.id < 20 and a.id < 5 and r.site"))
        each.sql(TWO)
    assert (con.report.asked, con.report.recalled) == (other.report.asked, other.report.recalled)
    assert con.report.tokens_fresh < other.report.tokens_fresh


def test_a_budget_is_looked_at_before_each_part(connected: Connected, recorded: type[Recorder]) -> None:
    con = connected(sample_rows=0)
    con.sql(TWO)
    asked = con.report.asked
    recorded.read.clear()
    with pytest.raises(BudgetError):
        connected(sample_rows=0, max_requests=asked - 1, kv_bytes=1).sql(TWO)
    assert asked // 2 < len(recorded.read) < asked
    recorded.read.clear()
    with pytest.raises(BudgetError):
        connected(sample_rows=0, max_requests=asked // 2).sql(TWO)
    assert not recorded.read, "the first join alone is too much"


def test_held_kv_stays_while_other_statements_ask(
    connected: Connected, database: duckdb.DuckDBPyConnection, recorded: type[Recorder]
) -> None:
    con = connected(sample_rows=0, kv_bytes=1)
    several = [f"create or replace table kept{n} as {TWO} where r.id % 4 = {n}" for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda sql: con._session.execute(database.cursor(), sql), several))
    found = sum(database.execute(f"select count(*) from kept{n}").fetchall()[0][0] for n in range(4))
    con = connected(sample_rows=0, disable_rules=APART)
    assert found == con.sql(TWO).num_rows
    assert sum(report.asked for report in reports) == con.report.asked


def test_the_plan_says_what_it_saves(connected: Connected) -> None:
    sql = TWO.replace("0.3", "0.35")
    (kept,), (apart,) = (con._session.explain(con._connection, sql) for con in (connected(), connected(disable_rules=APART)))
    assert [node.on_kv for node in kept.nodes[:2]] == [False, True]  # type: ignore[union-attr]
    assert kept.estimate.requests == apart.estimate.requests
    assert kept.estimate.tokens_fresh.value < 0.9 * apart.estimate.tokens_fresh.value  # type: ignore[union-attr]
    assert kept.choices[0].rejected[0].tokens_fresh


def test_what_waits_for_something_needless_is_needless(connected: Connected) -> None:
    about = [f"AI_FILTER('Contains ''{word}''?', r.body, {{'selectivity': 0.2}})" for word in ("heart", "even", "report")]
    con = connected(sample_rows=0)
    sql = f"select r.id, a.id as a from r join a on {FIRST} where {' and '.join(about)}"
    con.sql(sql)
    # Of 12 texts 6 hold 'heart', 5 of these 'even', and all 'report': with 6 names they make 30 pairs.
    assert con.report.asked == 12 + 6 + 5 + 30
    assert con.report.plan.count("asked where the one before is TRUE, on its KV") >= 2
    con.sql(sql)
    assert (con.report.asked, con.report.recalled) == (0, 12 + 6 + 5 + 30), "of a text without 'heart' the rest is not asked"
