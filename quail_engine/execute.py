"""The loop: a statement runs, notes what its AI calls are missing, is answered, and runs again until nothing is missing.

Rows are DuckDB's. Every wait for a model lies between two DuckDB statements, because an error inside one would abort the
user's transaction.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import duckdb
import pyarrow as pa

from quail_engine.answering import Answering, Model
from quail_engine.errors import QuailError, SqlError
from quail_engine.lookups import Arguments, Inquiry, StatementLookUps, digest_of, probability
from quail_engine.plan import AskStep, PhysicalPlan, build, explain, lower, optimize
from quail_engine.progress import Listener, Warned
from quail_engine.report import RunReport
from quail_engine.settings import Settings
from quail_engine.sql import Form, Query, RowLimit, analyze, candidates_query, quoted, render, render_written, split

_numbers = itertools.count(1)

_TURNS, _TURNS_A_CALL = 40, 8  # runs that a statement may take: conditions in a row, and groups that double each time
_WASTE = 4  # a LIMIT's rounds grow by a quarter of what was asked: at most a fifth of all questions is asked in vain

_ROW = "__quail_row"

Deliver = Callable[[str], object]

RESULT = "__quail_result"
"""The last run's rows, a temporary table of the cursor; replaced by its next statement with AI calls."""


@dataclass(frozen=True)
class Services:
    """What a statement needs from its session."""

    settings: Settings
    model: Callable[[str], Model]  # loads a model by name on first use
    lock: threading.Lock  # one statement at a time in the engine
    listener: Listener


def execute(
    services: Services, cursor: duckdb.DuckDBPyConnection, text: str, cancelled: threading.Event, deliver: Deliver | None = None
) -> RunReport:
    """Runs the statements of `text` on `cursor`, and leaves the last one's result there to be fetched.

    `deliver` runs the SQL of a statement that needs no more answers; default: `cursor.execute`.

    A statement without an AI call goes to DuckDB to the byte. Raises QuailError for what a user can mend, duckdb.Error
    for what DuckDB refuses. A transaction that is open is used and left open.
    """
    report = RunReport()
    statements = split(text)
    queries = [analyze(text, statement) if statement.calls else None for statement in statements]  # a mistake in any stops all
    for statement, query in zip(statements, queries, strict=True):
        if query is not None:
            report += _Run(services, cursor, query, text, cancelled, deliver or cursor.execute).run()
        else:
            (deliver or cursor.execute)(text[statement.start : statement.end])
    return report


def plan_text(services: Services, cursor: duckdb.DuckDBPyConnection, text: str) -> str:
    """The plans of a text's statements with AI calls, as EXPLAIN shows them; nothing is asked."""
    never = threading.Event()
    runs = [_Run(services, cursor, analyze(text, s), text, never, cursor.execute) for s in split(text) if s.calls]
    try:
        return "\n\n".join(run.plan_text for run in runs) or "No AI calls: DuckDB runs this as it is."
    finally:
        for run in runs:
            run.close()


class _Run:
    """One statement with AI calls."""

    def __init__(
        self,
        services: Services,
        cursor: duckdb.DuckDBPyConnection,
        query: Query,
        text: str,
        cancelled: threading.Event,
        deliver: Deliver,
    ) -> None:
        self._services = services
        self._cursor = cursor
        self._query = query
        self._text = text
        self._deliver = deliver
        self._answering = Answering(services.settings, services.listener, cancelled, services.lock)
        self._plan: PhysicalPlan = lower(optimize(build(query)), f"__quail_answers_{next(_numbers)}")
        deciding = self._plan.first.limit.calls if self._plan.first else ()
        self._look_ups = StatementLookUps(query.calls, services.settings, deciding)
        self._joined = 0  # inputs answered through answer tables
        self._begun = time.perf_counter()

    @property
    def plan_text(self) -> str:
        return explain(self._plan, self._query.calls, self._services.settings.model)

    def close(self) -> None:
        self._look_ups.close()

    def run(self) -> RunReport:
        for warning in dict.fromkeys(w for call in self._query.calls for w in call.warnings):
            self._services.listener(Warned(warning))
        try:
            return self._report(self._run())
        finally:
            self.close()

    def _run(self) -> int:
        """Runs the statement by its form; returns the rows that it wrote, -1 for a query."""
        query = self._query
        if query.form is Form.EXPLAIN:
            self._explain()
            return -1
        names = self._names()
        if query.form is Form.DESCRIBE or query.empty:
            self._deliver(self._query.head + render(query, self._look_ups.tags, {}, names) + query.tail)
            return -1
        if query.form is Form.CREATE_VIEW:
            self._refuse_or_warn_view()
        with _transaction(self._cursor), self._answer_tables():
            if self._plan.first:
                self._first_rows(self._plan.first.limit, names)
            self._rounds(render(query, self._look_ups.tags, self._plan.tables, names))
            rows = self._write() if query.form is not Form.QUERY else -1
        if query.form is Form.QUERY:
            order = f" ORDER BY {_ROW}" if self._numbered else ""
            self._deliver(f"SELECT {self._columns(names)} FROM {RESULT}{order}")
        else:
            self._deliver(f'SELECT CAST({rows} AS BIGINT) AS "Count"')  # what DuckDB itself answers
        return rows

    def _names(self) -> list[str]:
        """The names that DuckDB gives to select items without an alias, by DuckDB's own parser."""
        names = []
        for start, end in self._query.unnamed:
            item = self._query.text[start:end]
            tree = self._one("SELECT json_serialize_sql(?)", f"SELECT {item}")
            if json.loads(tree)["error"]:
                names.append(item)
            else:
                names.append(self._one("SELECT json_deserialize_sql(?::JSON)", tree).removeprefix("SELECT "))
        return names

    def _one(self, sql: str, *values: str) -> str:
        row = self._cursor.execute(sql, list(values)).fetchall()[0]
        return str(row[0])

    def _explain(self) -> None:
        if "analyze" in self._query.head.lower():
            at = self._text.find(self._query.head)
            raise SqlError(
                "EXPLAIN ANALYZE of a statement with AI calls asks its questions.",
                self._text,
                max(at, 0),
                max(at, 0) + len(self._query.head.rstrip()),
                "EXPLAIN for the plan alone, or con.explain(sql, analyze=True) from Python",
            )
        sql = render(self._query, self._look_ups.tags, {}, self._names())
        theirs = self._cursor.execute(self._query.head + sql + self._query.tail).fetchall()
        rows = [("quail_plan", self.plan_text), *theirs]
        values = ", ".join(f"({_literal(key)}, {_literal(value)})" for key, value in rows)
        self._deliver(f"SELECT * FROM (VALUES {values}) AS plan(explain_key, explain_value)")

    def _refuse_or_warn_view(self) -> None:
        if self._services.settings.ai_views == "error":
            call = self._query.calls[0]
            at = self._text.find(self._query.text) + call.start
            raise SqlError(
                "A view cannot hold an AI call: DuckDB could not evaluate it when the view is read.",
                self._text,
                at,
                at + call.end - call.start,
                "create table … as select …, or set ai_views: table to have that done for you",
            )
        self._services.listener(Warned("A view cannot hold an AI call, so a table was stored in its place."))

    def _first_rows(self, limit: RowLimit, names: list[str]) -> None:
        """Asks about the first rows that are certain or open, until as many as the LIMIT needs are certain.

        Of each row only the first open question is asked: a row that it refuses needs no other. As many rows are looked at
        as are needed, so nothing is asked that a scan row by row would not ask; after many questions with few hits their
        number grows with what was asked, so that passes do not stay small.
        """
        wanted, spent = limit.rows + limit.offset, 0
        while True:
            sql = candidates_query(self._query, limit, self._look_ups.tags, names, wanted + spent // _WASTE)
            table = self._cursor.sql(sql).to_arrow_table()
            self._joined = table.num_rows
            open_rows = self._first_open(limit, table)
            if not open_rows or open_rows[0][0] >= wanted:
                return
            for _, call, texts in open_rows:
                inquiry = self._look_ups.inquiry(call)
                arguments = inquiry.canonical(texts)
                inquiry.note(digest_of(arguments), arguments)
            spent += len(open_rows)
            self._answer(self._look_ups.missing())

    def _first_open(self, limit: RowLimit, table: pa.Table) -> list[tuple[int, int, Arguments]]:
        """The rows that have an open question: their number, the first such call, and what it is about."""
        widths = [1 + self._look_ups.width(i) for i in limit.calls]
        rows = zip(*(column.to_pylist() for column in table.columns[table.num_columns - sum(widths) :]), strict=True)
        found = []
        for number, row in enumerate(rows):
            for i, start, width in zip(limit.calls, itertools.accumulate([0, *widths]), widths, strict=False):
                if row[start]:
                    found.append((number, i, row[start + 1 : start + width]))
                    break
        return found

    def _rounds(self, sql: str) -> None:
        """Runs the query level by level until a run that made the result table noted nothing."""
        levels = self._plan.rounds.levels
        last = max(0, levels - 1)
        level, settled = 0, levels == 0
        for turn in itertools.count():
            keep = level == last and settled
            self._look_ups.start(level)
            try:
                if keep:
                    self._cursor.execute(f"CREATE OR REPLACE TEMP TABLE {RESULT} AS {self._kept(sql)}").fetchall()
                else:
                    for _ in self._cursor.sql(sql).to_arrow_reader():
                        pass
            finally:
                self._look_ups.stop()
            if missing := self._look_ups.missing():
                self._refuse_without_end(turn, missing)
                self._answer(missing)
                settled = True
            elif keep:
                return
            elif level < last:
                level, settled = level + 1, False
            else:
                settled = True

    def _refuse_without_end(self, turn: int, missing: list[Inquiry]) -> None:
        """Raises when rounds keep finding new inputs, as they do where a view or macro hides a volatile value."""
        full = any(len(inquiry.missing) >= inquiry.room for inquiry in missing)
        if turn > _TURNS + _TURNS_A_CALL * len(self._query.calls) and not full:
            raise QuailError(
                f"After {turn} runs this statement still finds texts that it did not have before, as it does when random() or "
                "another volatile value stands in a view or macro that it reads. Store that part in a table first."
            )

    def _answer(self, missing: list[Inquiry]) -> None:
        for name in dict.fromkeys(inquiry.model for inquiry in missing):
            inquiries = [inquiry for inquiry in missing if inquiry.model == name]
            self._answering.answer(self._services.model(name), inquiries)

    @contextmanager
    def _answer_tables(self) -> Iterator[None]:
        """Asks each planned condition and registers its answers as a relation while the statement runs."""
        registered: list[str] = []
        try:
            for step in self._plan.asks:
                table = self._ask(step)
                self._cursor.register(step.table.name, table)
                registered.append(step.table.name)
            yield
        finally:
            for name in registered:
                # In a transaction that an error has aborted nothing works but ROLLBACK, which takes the tables with it.
                with suppress(duckdb.TransactionException):
                    self._cursor.unregister(name)

    def _ask(self, step: AskStep) -> pa.Table:
        """Lists the inputs, has them answered, and returns those that are TRUE."""
        pairs = self._cursor.sql(step.source.sql).to_arrow_table()
        inquiry = self._look_ups.inquiry(step.ask.call)
        inputs = [inquiry.canonical(pair) for pair in zip(*(column.to_pylist() for column in pairs.columns), strict=True)]
        digests = [digest_of(arguments) for arguments in inputs]
        asking = True
        while asking:
            for digest, arguments in zip(digests, inputs, strict=True):
                if digest not in inquiry.known:
                    inquiry.note(digest, arguments)
            asking = bool(inquiry.missing)
            if asking:
                self._answering.answer(self._services.model(inquiry.model), [inquiry])
        self._joined += len(inputs)
        threshold = self._look_ups.threshold(step.ask.call)
        numbers = [inquiry.known[digest] for digest in digests]
        return pairs.filter(pa.array([n is not None and probability(n[0]) >= threshold for n in numbers], pa.bool_()))

    def _write(self) -> int:
        """Runs the user's own statement over the result table; returns the number of rows it wrote."""
        if self._query.written:
            return self._write_once()
        count = self._cursor.execute(f"{self._query.head}SELECT * FROM {RESULT}{self._query.tail}").fetchall()
        self._cursor.execute(f"DROP TABLE {RESULT}")
        return _count(count)

    def _write_once(self) -> int:
        """Runs an UPDATE or DELETE over the answers that its SELECT gathered."""
        self._cursor.execute(f"DROP TABLE {RESULT}")
        self._look_ups.start(self._plan.rounds.levels)
        try:
            count = self._cursor.execute(render_written(self._query, self._look_ups.tags)).fetchall()
        finally:
            self._look_ups.stop()
        assert not self._look_ups.missing(), "the statement met an input that its SELECT did not"
        return _count(count)

    @cached_property
    def _numbered(self) -> bool:
        """Whether a query's rows are numbered, because a table would not keep their order."""
        keeps = self._one("SELECT current_setting('preserve_insertion_order')") == "True"
        return self._query.form is Form.QUERY and not keeps

    def _kept(self, sql: str) -> str:
        return f"SELECT *, row_number() OVER () AS {_ROW} FROM ({sql})" if self._numbered else sql

    def _columns(self, names: list[str]) -> str:
        """The result's columns under the names that the query gives them: a table cannot have one name twice."""
        wanted = self._cursor.sql(render(self._query, self._look_ups.tags, {}, names)).columns
        have = [column for column in self._cursor.sql(f"FROM {RESULT}").columns if column != _ROW]
        return ", ".join(f"{quoted(h)} AS {quoted(w)}" if h != w else quoted(h) for h, w in zip(have, wanted, strict=True))

    def _report(self, rows: int) -> RunReport:
        tally = self._answering.tally
        models = dict.fromkeys(call.options.model or self._services.settings.model for call in self._query.calls)
        return RunReport(
            calls=self._look_ups.rows + self._joined,
            asked=tally.asked,
            recalled=tally.recalled,
            failed=tally.failed,
            overlong=tally.overlong,
            tokens_fresh=tally.tokens_fresh,
            tokens_reused=tally.tokens_logical - tally.tokens_fresh,
            seconds=time.perf_counter() - self._begun,
            seconds_engine=tally.seconds_engine,
            rows=rows,
            model=", ".join(models),
            plan=self.plan_text,
            warnings=tuple(dict.fromkeys(w for call in self._query.calls for w in call.warnings)),
        )


@contextmanager
def _transaction(cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """One transaction around all runs of a statement: the user's if one is open, else ours."""
    ids = {cursor.execute("SELECT txid_current()").fetchall()[0] for _ in range(2)}
    if len(ids) == 1:  # in autocommit every statement has an id of its own
        yield
        return
    cursor.execute("BEGIN")
    try:
        yield
    except BaseException:
        cursor.execute("ROLLBACK")
        raise
    cursor.execute("COMMIT")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _count(rows: list[tuple[Any, ...]]) -> int:
    """Rows that a statement says it wrote; none when it says nothing, as CREATE TABLE IF NOT EXISTS of one that does."""
    return int(rows[0][0]) if rows else 0
