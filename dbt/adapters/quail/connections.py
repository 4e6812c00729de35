"""Connections: dbt-duckdb's, opened in an environment that answers AI calls."""

from __future__ import annotations

import atexit
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnContext
from pathlib import Path
from types import FrameType
from typing import Any

import duckdb
from dbt.adapters.contracts.connection import AdapterRequiredConfig, Connection, ConnectionState
from dbt.adapters.duckdb.connections import DuckDBConnectionManager
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.exceptions.connection import FailedToConnectError
from dbt_common.exceptions import DbtDatabaseError

from dbt.adapters.quail import node
from dbt.adapters.quail.environment import QuailCursor, QuailEnvironment, create
from dbt.adapters.quail.relation import QuailRelation
from dbt.adapters.quail.reports import QuailAdapterResponse, RunLog
from quail_engine import QuailError, Session

logger = AdapterLogger("Quail")


class QuailConnectionManager(DuckDBConnectionManager):
    """The environment stays where dbt-duckdb keeps it, in `DuckDBConnectionManager._ENV`: it names that class in several
    places, and a value of our own would hide it."""

    TYPE = "quail"
    _RUN_LOG: RunLog | None = None  # of the project this process runs; one at a time, as with the environment
    _REFRESH: node.Refresh = False  # the variable quail_refresh, for statements outside of nodes

    def __init__(self, config: AdapterRequiredConfig, mp_context: SpawnContext) -> None:
        super().__init__(config, mp_context)
        # `dbt debug` builds an adapter from the profile alone: no project, no target folder.
        folder = getattr(config, "project_target_path", None)
        QuailRelation.share = node.share(config)
        QuailConnectionManager._RUN_LOG = RunLog(Path(folder), QuailRelation.share) if folder else None
        node.check_variables(config)
        QuailConnectionManager._REFRESH = node.refresh(node.variable(config, "quail_refresh"))
        if isinstance(DuckDBConnectionManager._ENV, QuailEnvironment):  # of an earlier invocation in this process
            DuckDBConnectionManager._ENV.session.start_run()
        _handle_sigterm(_terminate, instead_of=signal.SIG_DFL)

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Raises FailedToConnectError with DuckDB's reason, which for a locked file names the process that holds it."""
        base, credentials = DuckDBConnectionManager, connection.credentials
        try:
            with base._LOCK:
                if connection.state != ConnectionState.OPEN and (base._ENV is None or base._ENV.creds != credentials):
                    cls.close_all_connections()
                    base._ENV = create(credentials)  # type: ignore[assignment]  # declared as None
            opened = base.open(connection)
        except duckdb.Error as error:
            connection.handle = None
            connection.state = ConnectionState.FAIL
            raise FailedToConnectError(str(error)) from error
        cursor = opened.handle.cursor()
        cursor.run_log, cursor.refresh, cursor.share = cls._RUN_LOG, cls._REFRESH, QuailRelation.share
        return opened

    @classmethod
    def close_all_connections(cls) -> None:
        base = DuckDBConnectionManager
        with base._LOCK:
            if base._ENV is not None:
                base._ENV.shut_down()
            base.close_all_connections()

    def cleanup_all(self) -> None:
        """dbt calls it when a command is done. The line is said here because a hook of its own would count as one of PASS=."""
        super().cleanup_all()
        _handle_sigterm(signal.SIG_DFL, instead_of=_terminate)
        if self._RUN_LOG is not None and (summary := self._RUN_LOG.summary()):
            logger.info(summary)

    @classmethod
    def session(cls) -> Session:
        environment = cls.env()
        assert isinstance(environment, QuailEnvironment), "opened by another adapter's connection manager"
        return environment.session

    def thread_cursor(self) -> QuailCursor:
        return self.get_thread_connection().handle.cursor()

    @contextmanager
    def exception_handler(self, sql: str, connection_name: str = "master") -> Iterator[None]:
        with super().exception_handler(sql, connection_name):
            try:
                yield
            except (duckdb.Error, QuailError) as error:
                self.rollback_if_open()
                raise DbtDatabaseError(str(error)) from error

    @classmethod
    def get_response(cls, cursor: Any) -> QuailAdapterResponse:
        """Affected rows of the last statement, and the AI counts of its node: the statement dbt calls `main` holds no AI call
        in incremental, snapshot and external nodes."""
        return cursor.response()


def _terminate(number: int, frame: FrameType | None) -> None:
    """dbt handles Ctrl-C and no other signal, so it is told of one as of Ctrl-C. It prints the text and ends with code 2."""
    raise KeyboardInterrupt(
        "Terminated (SIGTERM). The answers that came are kept, those of the batch in flight, too: run again."
    )


def _handle_sigterm(handler: Any, instead_of: Any) -> None:
    """Sets the handler, unless whoever runs dbt in their own process has one of theirs."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is instead_of:
        signal.signal(signal.SIGTERM, handler)


atexit.register(QuailConnectionManager.close_all_connections)
