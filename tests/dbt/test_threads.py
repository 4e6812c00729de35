"""Cursors of eight dbt threads at once, each inside its own open transaction, with ROLLBACKs between."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest
from dbt_common.events.contextvars import log_contextvars

from dbt.adapters.quail.credentials import QuailCredentials
from dbt.adapters.quail.environment import QuailCursor, QuailEnvironment
from quail_engine import QuailError
from quail_engine.batching.batch import Batch
from quail_engine.engine.mock import MockEngine
from quail_engine.prompts.request import Logits
from quail_engine.sql import split

THREADS = 8
ROUNDS = 3


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[QuailEnvironment]:
    quail = {"engine": "mock", "answers": {"mode": "off"}, "token_budget": 200}  # some batches a statement
    keys: dict[str, Any] = {"schema": "main", "path": str(tmp_path / "dev.duckdb"), "quail": quail}
    environment = QuailEnvironment(QuailCredentials.from_dict(keys))
    yield environment
    environment.shut_down()


@pytest.fixture
def cursor(environment: QuailEnvironment) -> QuailCursor:
    return environment.handle().cursor()


def test_open_transactions_do_not_disturb_each_other(environment: QuailEnvironment, cursor: QuailCursor) -> None:
    cursor.execute(
        "create table notes as "
        "select i as id, case when i % 3 = 0 then 'urgent ' else 'calm ' end || i as body from range(60) t(i)"
    )
    expected = [(i, i % 3 == 0) for i in range(60)]

    def work(thread: int) -> list[tuple[Any, ...]]:
        mine = environment.handle().cursor()
        call = f"AI_FILTER(PROMPT('{thread}: does {{0}} say ''urgent''?', body))"
        for turn in range(ROUNDS):
            mine.execute("begin")
            mine.execute(f"create table t{thread} as select id, {call} as u from notes")
            mine.execute("rollback" if turn < ROUNDS - 1 else "commit")
        mine.start_node({}, refresh=False)
        mine.execute(f"select id, {call} as u from notes order by id")
        assert mine.node.report is not None
        return mine.fetchall()

    with ThreadPoolExecutor(THREADS) as pool:
        selected = list(pool.map(work, range(THREADS)))
    assert selected == [expected] * THREADS
    for thread in range(THREADS):
        assert cursor.execute(f"select * from t{thread} order by id").fetchall() == expected


def test_an_interrupt_stops_between_batches(
    environment: QuailEnvironment, cursor: QuailCursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[object] = []
    score = MockEngine.score

    def interrupted(engine: MockEngine, batch: Batch) -> list[Logits]:
        batches.append(batch)
        cursor.interrupt()  # as dbt's main thread does on Ctrl-C
        return score(engine, batch)

    monkeypatch.setattr(MockEngine, "score", interrupted)
    cursor.execute("begin")
    with pytest.raises(QuailError, match="cancelled"):
        cursor.execute("create table t as select AI_FILTER('is it ''urgent''?', 'note ' || i) as u from range(100) t(i)")
    assert len(batches) == 1
    with pytest.raises(QuailError, match="not started"):  # nor does the node go on with its next statement
        cursor.execute("select 1")
    cursor.rollback()
    other = environment.handle().cursor()
    assert other.execute("select count(*) from duckdb_tables()").fetchall() == [(0,)]


def test_counts_are_kept_for_a_node_and_no_longer(cursor: QuailCursor) -> None:
    cursor.start_node({}, refresh=False)
    cursor.execute("create table a as select AI_FILTER('is it ''urgent''?', 'urgent') as u")
    cursor.execute("create table b as select AI_FILTER('is it ''urgent''?', 'calm') as u")
    cursor.execute("select 1")
    assert cursor.node.report is not None
    assert cursor.node.report.asked == 2
    cursor.start_node({}, refresh=False)
    assert cursor.node.report is None


def test_what_runs_next_on_a_thread_counts_for_itself(cursor: QuailCursor) -> None:
    # A seed, a hook of the run and `dbt show` announce no node; only dbt's context says that another one runs.
    with log_contextvars(node_info={"unique_id": "model.p.a"}):
        cursor.start_node({}, refresh=False)
        cursor.execute("create table a as select AI_FILTER('is it ''urgent''?', 'urgent') as u")
        main = cursor.response()
        assert (main.rows_affected, main.asked) == (1, 1)
        cursor.execute("insert into a select AI_FILTER('is it ''urgent''?', 'a post-hook')")
        assert (main.rows_affected, main.asked) == (1, 2)
        assert str(main).startswith("1 row, 2 asked, 0 recalled")
    with log_contextvars(node_info={"unique_id": "seed.p.b"}):
        cursor.execute("create table b as select 1 as one")
        assert cursor.response().to_dict(omit_none=True) == {"_message": "1 row", "rows_affected": 1}


def test_a_text_is_cut_into_statements_once(cursor: QuailCursor) -> None:
    for sql in ("select AI_FILTER('is it ''urgent''?', 'once') as u", "select 1 -- not AI_FILTER(x)"):
        split.cache_clear()
        cursor.execute(sql)
        assert split.cache_info().misses == 1


class Recorded:
    """A DuckDB cursor that keeps what it was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []

    def execute(self, *sent: Any) -> None:
        self.sent.append(sent)


@pytest.mark.parametrize(
    "sql",
    [
        "  SELECT\t0xff;; -- end ",
        "create table t as select 'AI_FILTER(x)' as \"AI_FILTER\" /* AI_FILTER(y) */;\r\n",
        "sélect ((",
    ],
)
def test_a_statement_without_an_ai_call_is_sent_as_it_came(environment: QuailEnvironment, sql: str) -> None:
    recorded = Recorded()
    cursor = QuailCursor(recorded, environment.session)
    cursor.execute(sql)
    cursor.execute(sql, [1])
    assert recorded.sent == [(sql,), (sql, [1])]


def test_a_failed_statement_keeps_its_error_type(cursor: QuailCursor) -> None:
    with pytest.raises(duckdb.CatalogException, match="no_such_table"):
        cursor.execute("select AI_FILTER('is it ''urgent''?', body) from no_such_table")
    with pytest.raises(QuailError):
        cursor.execute("select AI_FILTER(PROMPT('is {0 urgent?', 'x'))")
    assert cursor.execute("select 1").fetchall() == [(1,)]


def test_parameters_are_duckdb_s_unless_there_is_an_ai_call(cursor: QuailCursor) -> None:
    assert cursor.execute("select ? as ai_filter", ["x"]).fetchall() == [("x",)]
    with pytest.raises(QuailError, match="bound parameters"):
        cursor.execute("select AI_FILTER('is it ''urgent''?', ?)", ["x"])


def test_a_python_model_s_query_is_answered(cursor: QuailCursor) -> None:
    relation = cursor.sql("select AI_FILTER('is it ''urgent''?', body) as u from (values ('urgent'), ('calm')) t(body); ")
    assert sorted(relation.fetchall()) == [(False,), (True,)]
    assert cursor.sql("select 1").fetchall() == [(1,)]
    with pytest.raises(QuailError, match="line 1: select AI_FILTER"):
        cursor.sql("select AI_FILTER(PROMPT('is {1} urgent?', 'x'))")
