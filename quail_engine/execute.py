"""A statement from its text to its result: planned, resolved, and run by DuckDB in the user's own form."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import duckdb

from quail_engine.answering import Answering
from quail_engine.errors import SqlError, UnreadableError
from quail_engine.forecast import Supposing
from quail_engine.inquiries import Services
from quail_engine.plan import PlanTree
from quail_engine.report import RunReport
from quail_engine.sql import Query, Statement, analyze, misspelt, split
from quail_engine.statement_run import StatementRun, check
from quail_engine.wording import Deliver, Recorder, Written, in_own_words, naming_ai_functions, not_read


def execute(
    services: Services,
    cursor: duckdb.DuckDBPyConnection,
    text: str,
    cancelled: threading.Event,
    deliver: Deliver | None = None,
    parts: Sequence[str] = (),
) -> RunReport:
    """Runs the statements of `text` on `cursor`, and leaves the last one's result there to be fetched.

    `deliver` runs the SQL of a statement that needs no more answers; default: `cursor.execute`. `parts` are texts that an
    author wrote of `text`: an error of DuckDB is told in the first that holds its place.

    A statement without an AI call goes to DuckDB to the byte. Raises QuailError for what a user can mend, duckdb.Error
    for what DuckDB refuses. A transaction that is open is used and left open.
    """
    report = RunReport()
    statements = split(text)
    queries = [_analyzed(cursor, text, s) if s.calls else None for s in statements]  # a mistake in any stops all
    for statement, query in zip(statements, queries, strict=True):
        if query is not None:
            report += _run(services, Recorder(cursor, deliver), query, cancelled, _written(statement, query), parts)
        else:
            with naming_ai_functions():
                (deliver or cursor.execute)(text[statement.start : statement.end])
    return report


def _analyzed(cursor: duckdb.DuckDBPyConnection, text: str, statement: Statement) -> Query:
    try:
        return analyze(text, statement)
    except UnreadableError as error:
        raise not_read(cursor, Written(text, statement.start, statement.end, ())) or error from None


def plans(
    services: Services,
    cursor: duckdb.DuckDBPyConnection,
    text: str,
    analyze_: bool = False,
    asked_before: set[bytes] | None = None,
    unbuilt: bool = False,
) -> list[PlanTree]:
    """The plans of a text's statements with AI calls, with what they are estimated to cost; nothing is asked.

    With `analyze_` all statements are run, and what happened stands beside the estimates. `asked_before`: answer keys that a
    run will have asked before this text; those of the text are added. `unbuilt`: what DuckDB refuses of a statement is a note
    of its plan, since what it reads may be there by then; so it is of those that stand behind another one that is not run.
    """
    asked = set() if asked_before is None else asked_before
    statements = split(text)
    queries = [_analyzed(cursor, text, s) if s.calls else None for s in statements]
    trees: list[PlanTree] = []
    for number, (statement, query) in enumerate(zip(statements, queries, strict=True)):
        if query is not None:
            if not unbuilt and (analyze_ or number == 0):
                _check(Recorder(cursor), query, _written(statement, query), ())
            trees.append(_planned(services, Recorder(cursor), query, _written(statement, query), asked, analyze_))
        elif analyze_:
            with naming_ai_functions():
                cursor.execute(text[statement.start : statement.end])
        else:
            _refuse_misspelt(cursor, text, statement)
    return trees


def _refuse_misspelt(cursor: duckdb.DuckDBPyConnection, text: str, statement: Statement) -> None:
    """Raises SqlError for a function that nobody knows and whose name is all but an AI function's."""
    for name, function, start, end in misspelt(text, statement):
        if not cursor.execute("SELECT 1 FROM duckdb_functions() WHERE function_name = lower(?)", [name]).fetchall():
            raise SqlError(f"There is no function {name}. Did you mean {function}?", text, start, end)


def _planned(
    services: Services, cursor: Recorder, query: Query, written: Written, asked: set[bytes], analyze_: bool
) -> PlanTree:
    run = StatementRun(services, cursor, query, Supposing(services.settings, query, asked))
    with in_own_words(cursor, written, run.tags, ()):
        tree = run.forecast()
    if analyze_:
        run = StatementRun(services, cursor, query, _answering(services, threading.Event()))
        with in_own_words(cursor, written, run.tags, ()):
            run.run()
        tree = tree.beside(run.happened)
    return tree


def _answering(services: Services, cancelled: threading.Event) -> Answering:
    return Answering(services.settings, services.listener, cancelled, services.owner, services.terms)


def _run(
    services: Services, cursor: Recorder, query: Query, cancelled: threading.Event, written: Written, parts: Sequence[str]
) -> RunReport:
    """Runs one statement with AI calls, once DuckDB has been asked whether it can be run."""
    _check(cursor, query, written, parts)
    run = StatementRun(services, cursor, query, _answering(services, cancelled))
    with in_own_words(cursor, written, run.tags, parts):
        return run.run()


def _check(cursor: Recorder, query: Query, written: Written, parts: Sequence[str]) -> None:
    """Raises duckdb.Error where DuckDB refuses the statement."""
    # Tags of no look-up: they answer NULL and note nothing. Calls that ask the same have one, as in GROUP BY and its column.
    asked = [(call.kind, call.question, call.options, call.level) for call in query.calls]
    tags = [f"c{asked.index(same)}" for same in asked]
    with in_own_words(cursor, written, tags, parts):
        check(cursor, query, tags)


def _written(statement: Statement, query: Query) -> Written:
    at = query.source.offset
    starts = query.written_starts or [call.start for call in query.calls]
    calls = [(at + start, at + start + call.end - call.start) for start, call in zip(starts, query.calls, strict=True)]
    return Written(query.source.statement, statement.start, statement.end, calls)
