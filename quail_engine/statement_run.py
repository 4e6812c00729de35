"""One statement with AI calls: planned by what is known of it, answered, and run by DuckDB in the user's own form."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import duckdb

from quail_engine.answering import Answering
from quail_engine.calls import AiCall
from quail_engine.errors import EngineError, ModelError, QuailError
from quail_engine.forecast import Supposing, layout_of
from quail_engine.inquiries import Inquiries, Services
from quail_engine.listed_conditions import ListedConditions
from quail_engine.plan import (
    Counted,
    Estimate,
    Figures,
    Found,
    LogicalPlan,
    PhysicalPlan,
    PlanTree,
    Source,
    Statistics,
    as_text,
    build,
    choices,
    explain,
    lower,
    optimize,
)
from quail_engine.progress import Warned
from quail_engine.report import RunReport
from quail_engine.resolve import RESULT, ROW, QuestionCount, Resolver
from quail_engine.sql import Form, Query, quoted, render, render_written, settled
from quail_engine.survey import survey
from quail_engine.wording import Recorder

_numbers = itertools.count(1)


class StatementRun:
    """One statement with AI calls."""

    def __init__(self, services: Services, cursor: Recorder, query: Query, answering: Answering) -> None:
        self._services = services
        self._cursor = cursor
        self._query = query = settled(query, self._columns_of, self._texts_of)
        self._deliver = cursor.deliver
        self._tables = f"__quail_answers_{next(_numbers)}"
        self._logical = self._planned(Statistics.of(query))
        self._plan = self._lowered(self._logical)
        self._answering = answering
        self._inquiries = Inquiries(services, query, self._plan.apart, answering)
        self._counted: list[
            QuestionCount
        ] = []  # what each call met; empty until the statement has run, as for one without rows
        self._rows = 0  # that were answered
        self._bound = 0  # inputs that the naive plan would ask, where they were counted
        self._begun = time.perf_counter()
        self.happened: list[Figures] = []  # what each call met and cost, in text order; empty until the statement has run

    @property
    def tags(self) -> Sequence[str]:
        """The look-ups' names, one a call."""
        return self._inquiries.tags

    @property
    def plan_text(self) -> str:
        return as_text(self._tree(None))

    def _tree(self, found: Found | None) -> PlanTree:
        found = found or Found()
        counted = {i: replace(found.calls.get(i, Counted()), decision=told) for i, told in self._decisions().items()}
        found = replace(found, calls={**found.calls, **counted})
        return explain(self._plan, self._query.calls, self._services.settings.model, found)

    def _decisions(self) -> dict[int, str]:
        """By call, what decides a question with labelled rows."""
        return {i: self._decision(call) for i, call in enumerate(self._query.calls) if call.question.labelled}

    def _decision(self, call: AiCall) -> str:
        rule = self._answering.rules.get(call.question)
        if rule is None:
            with suppress(ModelError, EngineError):  # a plan is shown where the weights are not
                rule = self._services.model(call.options.model or self._services.settings.model).rule(call.question)
        unfitted = f"what will be fitted to {len(call.question.labelled):,} labelled rows, which are asked first"
        return str(rule) if rule else unfitted

    def forecast(self) -> PlanTree:
        """The plan with what it is estimated to cost: it is run, and closed, with answers that are supposed.

        What DuckDB refuses is a note of the plan, unless it ends a transaction of the user's: then duckdb.Error is raised.
        """
        supposing = self._answering
        assert isinstance(supposing, Supposing), "a forecast must not ask"
        try:
            return self._tree(self._supposed(supposing))
        except (QuailError, duckdb.Error) as error:
            if _is_aborted(self._cursor.cursor):
                raise
            return self._tree(Found(notes=(f"Nothing is estimated. {str(error).splitlines()[0]}",)))
        finally:
            self.close()

    def _supposed(self, supposing: Supposing) -> Found:
        check(self._cursor, self._query, self.tags)
        names = dict.fromkeys(call.options.model or self._services.settings.model for call in self._query.calls)
        counted: list[QuestionCount] = []
        models = [self._services.model(name) for name in names]
        layouts, notes = tuple(map(layout_of, models)), tuple(model.note for model in models if model.note)
        if not self._query.empty and self._query.form is not Form.DESCRIBE:
            with _transaction(self._cursor.cursor):
                resolver = self._resolver(samples=False)
                resolver.resolve(_names(self._cursor, self._query), False)
                self._cursor.execute(f"DROP TABLE IF EXISTS temp.main.{RESULT}")
                counted = resolver.counted()
        calls = {i: supposing.counted(count) for i, count in enumerate(counted)}
        figures = {i: calls[found.same_as].estimate if found.same_as in calls else found.estimate for i, found in calls.items()}
        return Found(calls, layouts, notes, estimated=True, choices=choices(self._logical, figures))

    def close(self) -> None:
        self._inquiries.close()

    def _planned(self, statistics: Statistics) -> LogicalPlan:
        return optimize(build(self._query, statistics), self._services.settings.disable_rules)

    def _lowered(self, plan: LogicalPlan) -> PhysicalPlan:
        return lower(plan, self._tables)

    def _resolver(self, samples: bool = True) -> Resolver:
        """What runs the plan that is made of the statement's own rows. For use inside of its transaction."""
        statistics = survey(self._query, self._cursor, self._inquiries, samples)
        inputs = [call.inputs.value for call in statistics.calls if call.inputs is not None]
        if len(inputs) == len(set(self.tags)):  # all were counted, and no two calls ask the same
            self._bound = int(sum(inputs))
        self._logical = self._planned(statistics)
        listed = ListedConditions(self._logical, self._lowered, self._cursor, self._inquiries, supposed=not samples)
        self._plan = listed.plan
        return Resolver(self._cursor, self._query, listed, self._inquiries)

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
        names = _names(self._cursor, self._query)
        if query.form is Form.DESCRIBE or query.empty:
            self._deliver(query.head + render(query, self.tags, {}, names) + query.tail)
            return -1
        if query.form is Form.CREATE_VIEW:
            self._refuse_or_warn_view()
        with _transaction(self._cursor.cursor):
            resolver = self._resolver()
            resolver.resolve(names, self._numbered)
            self._plan = resolver.plan
            self._counted, self._rows = resolver.counted(), resolver.rows
            rows = -1 if query.form in (Form.QUERY, Form.SUMMARIZE) else self._write(resolver)
        if query.form in (Form.QUERY, Form.SUMMARIZE):
            order = f" ORDER BY {ROW}" if self._numbered else ""
            self._deliver(f"{query.head}SELECT {self._columns(names)} FROM {RESULT}{order}")
        elif query.returns:
            self._deliver(f"FROM {RESULT}")
        else:
            # What DuckDB itself answers, and as it does: EXECUTE leaves nothing unread, so the cursor is free for other work.
            self._cursor.execute('PREPARE __quail_count AS SELECT CAST($1 AS BIGINT) AS "Count"')
            self._deliver(f"EXECUTE __quail_count({rows})")
        return rows

    def _columns_of(self, sql: str) -> list[str]:
        """The columns of a part of the query; none when it cannot stand alone."""
        try:
            return self._cursor.sql(sql).columns
        except duckdb.Error:
            return []

    def _texts_of(self, sql: str) -> list[str]:
        """The rows of a part of the query that has one column; none when it cannot stand alone."""
        try:
            return [text for (text,) in self._cursor.execute(sql).fetchall()]
        except duckdb.Error:
            return []

    def _explain(self) -> None:
        if "analyze" in self._query.head.lower():
            head = self._query.head
            raise self._query.source.error(
                "EXPLAIN ANALYZE of a statement with AI calls asks its questions.",
                -len(head),
                len(head.rstrip()) - len(head),
                "EXPLAIN for the plan alone, or con.explain(sql, analyze=True) from Python",
            )
        if self._query.written:
            sql = render_written(self._query, self.tags)
        else:
            sql = render(self._query, self.tags, {}, _names(self._cursor, self._query)) + self._query.tail
        theirs = self._cursor.execute(self._query.head + sql).fetchall()
        supposing = Supposing(self._services.settings, self._query, set())
        plan = StatementRun(self._services, self._cursor, self._query, supposing).forecast()
        rows = [("quail_plan", as_text(plan)), *theirs]
        values = ", ".join(f"({_literal(key)}, {_literal(value)})" for key, value in rows)
        self._deliver(f"SELECT * FROM (VALUES {values}) AS plan(explain_key, explain_value)")

    def _refuse_or_warn_view(self) -> None:
        if self._services.settings.ai_views == "error":
            call = self._query.calls[0]
            raise self._query.source.error(
                "A view cannot hold an AI call: DuckDB could not evaluate it when the view is read.",
                call.start,
                call.end,
                "create table … as select …, or set ai_views: table to have that done for you",
            )
        self._services.listener(Warned("A view cannot hold an AI call, so a table was stored in its place."))

    def _write(self, resolver: Resolver) -> int:
        """Runs the user's own statement over the result table; returns the number of rows it wrote."""
        if self._query.written:
            return self._write_once(resolver)
        if self._query.replaced:
            self._drop_view(self._query.replaced)
        return self._written(f"{self._query.head}SELECT * FROM {RESULT}{self._query.tail}")

    def _drop_view(self, name: Sequence[str]) -> None:
        """Drops the view that CREATE OR REPLACE VIEW names, if there is one: DuckDB puts no table in a view's place."""
        *around, last = (part.lower() for part in name)
        here = around or [_one(self._cursor, "SELECT current_schema()").lower()]
        views = self._cursor.execute("SELECT lower(database_name), lower(schema_name), lower(view_name) FROM duckdb_views()")
        if any(view == last and set(here) <= set(places) for *places, view in views.fetchall()):
            self._cursor.execute(f"DROP VIEW {'.'.join(map(quoted, name))}")

    def _write_once(self, resolver: Resolver) -> int:
        """Runs a statement that writes in place over the answers that its SELECT gathered."""
        with resolver.replaying():
            return self._written(render_written(resolver.query, self.tags))

    def _written(self, sql: str) -> int:
        """Runs what writes, once; what it returns takes the place of the result table."""
        if self._query.returns:
            returned = self._cursor.sql(sql)  # has run, and keeps its rows in DuckDB's own types
            returned.query("__quail_returned", f"CREATE OR REPLACE TEMP TABLE {RESULT} AS FROM __quail_returned")
            return int(_one(self._cursor, f"SELECT count(*) FROM {RESULT}"))
        count = self._cursor.execute(sql).fetchall()
        self._cursor.execute(f"DROP TABLE {RESULT}")
        return _count(count)

    @cached_property
    def _numbered(self) -> bool:
        """Whether a query's rows are numbered, because a table would not keep their order."""
        keeps = _one(self._cursor, "SELECT current_setting('preserve_insertion_order')") == "True"
        return self._query.form is Form.QUERY and not keeps

    def _columns(self, names: list[str]) -> str:
        """The result's columns under the names that the query gives them: a table cannot have one name twice."""
        wanted = self._cursor.sql(render(self._query, self.tags, {}, names)).columns
        have = [column for column in self._cursor.sql(f"FROM {RESULT}").columns if column != ROW]
        return ", ".join(f"{quoted(h)} AS {quoted(w)}" if h != w else quoted(h) for h, w in zip(have, wanted, strict=True))

    def _report(self, rows: int) -> RunReport:
        tally = self._inquiries.tally
        self.happened = list(map(_happened, self._counted))
        models = dict.fromkeys(call.options.model or self._services.settings.model for call in self._query.calls)
        return RunReport(
            calls=self._rows,
            asked=tally.asked,
            recalled=tally.recalled,
            sampled=tally.sampled,
            pruned=max(0, self._bound - tally.asked - tally.recalled - tally.overlong),
            failed=tally.failed,
            overlong=tally.overlong,
            tokens_fresh=tally.tokens_fresh,
            tokens_reused=tally.tokens_logical - tally.tokens_fresh,
            seconds=time.perf_counter() - self._begun,
            seconds_engine=tally.seconds_engine,
            rows=rows,
            model=", ".join(models),
            plan=self.plan_text,
            decided=tuple(
                dict.fromkeys(f"'{self._query.calls[i].question.title}': {told}" for i, told in self._decisions().items())
            ),
            warnings=tuple(dict.fromkeys(w for call in self._query.calls for w in call.warnings)),
        )


def _happened(count: QuestionCount) -> Figures:
    tally = count.tally

    def of(value: float) -> Estimate:
        return Estimate(value, Source.MEASURED)

    return Figures(
        rows=of(count.rows),
        inputs=of(count.inputs),
        true=None if count.true is None else of(count.true),
        requests=of(tally.asked),
        recalled=of(tally.recalled),
        overlong=of(tally.overlong),
        tokens_fresh=of(tally.tokens_fresh),
        tokens_reused=of(tally.tokens_logical - tally.tokens_fresh),
        seconds=of(tally.seconds_engine),
    )


def _names(cursor: Recorder, query: Query) -> list[str]:
    """The names that DuckDB gives to select items without an alias, by DuckDB's own parser."""
    names = []
    for start, end in query.unnamed:
        item = query.text[start:end]
        tree = _one(cursor, "SELECT json_serialize_sql(?)", f"SELECT {item}")
        if json.loads(tree)["error"]:
            names.append(item)
        else:
            names.append(_one(cursor, "SELECT json_deserialize_sql(?::JSON)", tree).removeprefix("SELECT "))
    return names


def _one(cursor: Recorder, sql: str, *values: str) -> str:
    row = cursor.execute(sql, list(values)).fetchall()[0]
    return str(row[0])


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


def _is_aborted(cursor: duckdb.DuckDBPyConnection) -> bool:
    """Whether a transaction is open in which nothing can run any more."""
    try:
        cursor.execute("SELECT 1").fetchall()
    except duckdb.TransactionException:
        return True
    return False


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _count(rows: list[tuple[Any, ...]]) -> int:
    """Rows that a statement says it wrote; none when it says nothing, as CREATE TABLE IF NOT EXISTS of one that does."""
    return int(rows[0][0]) if rows else 0


def check(cursor: Recorder, query: Query, tags: Sequence[str]) -> None:
    """Has DuckDB plan the statement, which raises what is wrong with it before anything is asked."""
    if query.written:
        sql = render_written(query, tags)
    else:
        sql = render(query, tags, {}, _names(cursor, query))
        if query.form not in (Form.DESCRIBE, Form.SUMMARIZE, Form.EXPLAIN) and not query.replaced:
            sql = f"{query.head}{sql}{query.tail}"
    cursor.execute(f"EXPLAIN {sql}").fetchall()
