"""The DuckDB instance of a dbt process and the cursors into it: the one place where dbt's statements meet `quail_engine`.

A statement without an AI call is DuckDB's, byte for byte. One with an AI call goes to the session, on the same DuckDB
connection and so inside the transaction that dbt has open.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import duckdb
from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.duckdb.environments import RetryableCursor
from dbt.adapters.duckdb.environments.local import DuckDBConnectionWrapper, DuckDBCursorWrapper, LocalEnvironment
from dbt.adapters.duckdb.environments.motherduck import MotherDuckEnvironment
from dbt.flags import get_flags
from dbt_common.events.contextvars import get_node_info

import quail_engine
from dbt.adapters.quail.credentials import QuailCredentials
from dbt.adapters.quail.node import Refresh
from dbt.adapters.quail.progress import ProgressLog
from dbt.adapters.quail.reports import QuailAdapterResponse, RunLog
from quail_engine import QuailError, RunReport, Session, SqlError, Transpiled

_STOP_SECONDS = 10.0  # for which a statement that was interrupted is waited for: a batch of a large model takes seconds


@dataclass
class NodeWork:
    """What the statements of one node are answered with, and what they cost."""

    unique_id: str | None  # None where dbt names no node, as in a run-operation
    overrides: Mapping[str, Any] = field(default_factory=dict)  # settings of its own
    refresh: Refresh | None = None  # None: it does not say
    compiled: str = ""  # the node's own SQL, in which errors are told
    dialect: str = "duckdb"  # of its own SQL
    fixtures: tuple[str, ...] = ()  # queries in it that dbt has written, in DuckDB's SQL
    rebuilds: bool = False  # its table is built anew, because its prompts have changed
    report: RunReport | None = None  # sum over its AI statements; None: it had none
    responses: list[QuailAdapterResponse] = field(default_factory=list)  # of its statements so far

    def emptied(self, sql: str) -> str:
        """A statement as `dbt run --empty` wants it: without rows. dbt empties what a model refers to, but a model may read a
        file or texts of its own."""
        if not self.compiled or not getattr(get_flags(), "EMPTY", False) or get_node_info().get("resource_type") != "model":
            return sql
        return sql.replace(self.compiled, f"select * from (\n{self.compiled}\n) where false limit 0")

    def in_duckdb(self, sql: str, session: Session) -> str:
        """A statement with the node's own SQL, which may be a vendor's, as DuckDB's; what dbt writes around it is DuckDB's.

        Raises SqlError, and QuailError for an AI call in a statement that does not hold that SQL as it was written.
        """
        if self.dialect == "duckdb":
            return sql
        if self.compiled and self.compiled in sql:
            return self.emptied(sql).replace(self.compiled, self._transpiled(session).text)
        if quail_engine.mentions_ai(sql) and session.contains_ai(sql):
            raise QuailError(
                f"{self.unique_id} is written in the SQL of {self.dialect}, and this statement holds an AI call but not the "
                "node's SQL as it was compiled, so nobody can say in which dialect the call is. A macro or a hook has written "
                "it: let it take the SQL as it is, or move the call into a model of its own."
            )
        return sql

    def own(self, session: Session) -> str:
        """The node's own SQL as it stands in its statements."""
        return self.compiled if self.dialect == "duckdb" else self._transpiled(session).text

    def _transpiled(self, session: Session) -> Transpiled:
        return session.transpile(self.compiled, self.dialect, self.fixtures)

    def told(self, error: SqlError, session: Session) -> SqlError:
        """An error about the node's own SQL with its place in what its author wrote."""
        if self.dialect == "duckdb" or error.sql != self.own(session):
            return error
        return self._transpiled(session).error(error)

    def response(self, rows: int) -> QuailAdapterResponse:
        """`rows`: that the last statement wrote, or -1."""
        response = QuailAdapterResponse.of(rows, self.report)
        if self.unique_id is not None:
            self.responses.append(response)
        return response

    def add(self, report: RunReport) -> None:
        """Counts a statement, in the earlier responses too: dbt keeps that of `main`, and a post-hook runs after it."""
        self.report = report if self.report is None else self.report + report
        for response in self.responses:
            response.count(self.report)


class QuailCursor(DuckDBCursorWrapper):
    """A cursor of one dbt thread. Sums what the AI statements of a node cost.

    `interrupt`, `stop` and `close` may be called by another thread; after any of them the cursor runs nothing more, so that a
    node does not go on with its next statement.
    """

    def __init__(self, cursor: Any, session: Session, run_log: RunLog | None = None) -> None:
        super().__init__(cursor)
        self.run_log = run_log
        self.refresh: Refresh = False  # where a node does not say
        self.share = 1.0  # of the rows that this invocation reads
        self._session = session
        self._stopped = threading.Event()
        self._busy = threading.Lock()  # held while a statement runs
        self._node = NodeWork(None)
        self._query = ""  # of a Python model, while it runs inside a statement
        self._rows = -1  # that the last statement wrote, if it held an AI call

    @property
    def connection(self) -> Any:
        """The DuckDB connection itself, without dbt-duckdb's wrappers."""
        return self._cursor._cursor if isinstance(self._cursor, RetryableCursor) else self._cursor

    @property
    def rowcount(self) -> int:
        """Rows that the last statement wrote; -1 if it writes none. An AI statement's last step only tells the number."""
        return self._cursor.rowcount if self._rows < 0 else self._rows

    @property
    def node(self) -> NodeWork:
        """The work of the node that runs on this thread. Seeds, hooks of a run and `dbt show` announce none: they begin one
        when dbt's context names another node than before."""
        unique_id = get_node_info().get("unique_id")
        if unique_id != self._node.unique_id:
            self._node = NodeWork(unique_id)
        return self._node

    def start_node(
        self,
        overrides: Mapping[str, Any],
        refresh: Refresh,
        compiled: str = "",
        dialect: str = "duckdb",
        fixtures: tuple[str, ...] = (),
    ) -> None:
        """Begins a node, or the next batch of one."""
        self._node = NodeWork(get_node_info().get("unique_id"), overrides, refresh, compiled, dialect, fixtures)

    def in_duckdb(self, sql: str) -> str:
        """A statement of the running node as DuckDB's SQL."""
        return self.node.in_duckdb(sql, self._session)

    def response(self) -> QuailAdapterResponse:
        """The last statement's rows and its node's counts, which grow with the node's later statements.

        The statement that dbt calls an external model's `main` creates a view on the file: the rows are those of the table
        that was answered and then written to the file.
        """
        node, rows = self.node, self.rowcount
        if rows < 0 and node.report is not None and get_node_info().get("materialized") == "external":
            rows = node.report.rows
        return node.response(rows)

    def execute(self, sql: str, bindings: Any = None) -> Any:
        """Runs a statement as DuckDB's own `execute` does, AI calls answered. Raises QuailError and DuckDB's errors."""
        with self._busy:
            if self._stopped.is_set():
                raise QuailError("The run was interrupted, so this statement was not started. Run again to go on.")
            return self._execute(sql, bindings)

    def _execute(self, sql: str, bindings: Any) -> Any:
        self._rows = -1
        node = self.node
        sql = node.in_duckdb(sql, self._session)
        if not quail_engine.mentions_ai(sql):
            return super().execute(sql, bindings)
        texts = (self._query, node.own(self._session), _without_query_comment(sql))
        try:
            if not self._session.contains_ai(sql):
                with quail_engine.naming_ai_functions():
                    return super().execute(sql, bindings)
            if bindings is not None:
                raise QuailError(
                    "A statement with an AI call cannot take bound parameters: its text is what is planned and remembered. "
                    "Write the values into the statement, or put them in a table and join it."
                )
            report = self._session.execute(
                self.connection,
                node.emptied(sql),
                node=node.unique_id,
                dialect="duckdb",
                overrides={**node.overrides, "sample": self.share},
                refresh=self.refresh if node.refresh is None else node.refresh,
                cancelled=self._stopped,
                parts=texts,
            )
        except SqlError as error:
            raise node.told(error.within(texts), self._session) from None
        self._rows = report.rows
        node.add(report)
        if self.run_log is not None:
            self.run_log.append(node.unique_id, sql, report)
        return self._cursor

    def sql(self, query: str, *args: Any, **kwargs: Any) -> Any:
        """`con.sql` of a Python model. A query with AI calls runs now, into a temporary table that the relation reads."""
        if not (quail_engine.mentions_ai(query) and self._session.contains_ai(query)):
            return self._cursor.sql(query, *args, **kwargs)
        name, text = f"quail_relation_{uuid.uuid4().hex}", query.rstrip().rstrip(";")
        self._query = text
        try:
            self.execute(f"create temporary table {name} as (\n{text}\n)").fetchall()
        finally:
            self._query = ""
        return self._cursor.table(name)

    query = sql

    def interrupt(self) -> None:
        """Stops what runs on this cursor: questions not yet asked, then DuckDB."""
        self._stopped.set()
        with suppress(duckdb.ConnectionException):  # closed
            self.connection.interrupt()

    def stop(self, seconds: float) -> bool:
        """Interrupts, and waits until nothing runs; whether that was so before the time was over."""
        deadline = time.monotonic() + seconds
        while True:
            self.interrupt()  # again, for a statement that DuckDB began just after the last one
            if self._busy.acquire(timeout=0.05):
                self._busy.release()
                return True
            if time.monotonic() >= deadline:
                return False

    def close(self) -> None:
        """Closes the cursor once nothing runs on it. A second Ctrl-C makes dbt close cursors that its threads still use."""
        if self.stop(_STOP_SECONDS):
            self._cursor.close()


class QuailEnvironment(LocalEnvironment):
    """A DuckDB file or memory, the session that answers AI calls in it, and the cursors that use both."""

    def __init__(self, credentials: QuailCredentials) -> None:
        super().__init__(credentials)
        self.session = Session(credentials.engine_settings(), ProgressLog())
        self._cursors: weakref.WeakSet[QuailCursor] = weakref.WeakSet()

    def handle(self) -> DuckDBConnectionWrapper:
        with self.lock:
            if self.conn is None:
                self.conn = self.initialize_db(self.creds, self._plugins)
                # Once an instance, and before any transaction: functions are created transactionally.
                self.session.register(self.conn)  # type: ignore[arg-type]  # declared as None
        handle = super().handle()
        handle._cursor = QuailCursor(handle._cursor._cursor, self.session)
        with self.lock:
            self._cursors.add(handle._cursor)
        return handle

    def submit_python_job(self, handle: DuckDBConnectionWrapper, parsed_model: dict, compiled_code: str) -> AdapterResponse:
        # A query may name a variable of the model's function. DuckDB looks for it in the frame that calls, which is now ours.
        cursor = handle.cursor()
        cursor.execute("set session python_scan_all_frames = true")
        response = super().submit_python_job(handle, parsed_model, compiled_code)
        cursor.execute("reset session python_scan_all_frames")
        return response if cursor.node.report is None else cursor.node.response(-1)

    def shut_down(self) -> None:
        """Stops what runs, then frees the model and the instance. `close` alone frees the instance: with `keep_open: false`
        dbt-duckdb calls it between nodes."""
        with self.lock:
            cursors = list(self._cursors)
        for cursor in cursors:
            cursor.interrupt()
        # A thread that is inside DuckDB when the interpreter goes takes the process down with an abort.
        stopped = [cursor.stop(_STOP_SECONDS) for cursor in cursors]
        if all(stopped):
            self.close()
            self.session.close()


class QuailMotherDuckEnvironment(QuailEnvironment, MotherDuckEnvironment):
    """A MotherDuck database: AI calls are answered here, tables are stored there."""


def create(credentials: QuailCredentials) -> QuailEnvironment:
    return QuailMotherDuckEnvironment(credentials) if credentials.is_motherduck else QuailEnvironment(credentials)


def _without_query_comment(sql: str) -> str:
    """A statement without the comment that dbt writes before it."""
    return re.sub(r"\A\s*/\*.*?\*/\s*", "", sql, count=1, flags=re.DOTALL)
