"""The loop: a query runs, notes what its AI calls are missing, is answered, and runs again until nothing is missing.

Rows are DuckDB's. Every wait for a model lies between two DuckDB statements, because an error inside one would abort the
user's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quail_engine.arrow import of_flags
from quail_engine.errors import QuailError
from quail_engine.first_rows import ask_first_rows
from quail_engine.inquiries import Inquiries
from quail_engine.listed_conditions import ListedConditions
from quail_engine.lookups import Inquiry
from quail_engine.plan import AskStep, PhysicalPlan
from quail_engine.sql import (
    Query,
    RowLimit,
    aside_columns,
    lookups_query,
    ordered,
    pinned,
    quoted,
    render,
    result_query,
)
from quail_engine.tallies import Tally
from quail_engine.wording import Recorder

_TURNS, _TURNS_A_CALL = 40, 8  # runs that a statement may take: conditions in a row, and groups that double each time

RESULT = "__quail_result"
"""The last run's rows, a temporary table of the cursor; replaced by its next statement with AI calls."""

ROW = "__quail_row"
"""The last column of RESULT where its rows are numbered."""


@dataclass(frozen=True)
class QuestionCount:
    """What one call of a statement met and cost."""

    inquiry: Inquiry
    rows: int
    inputs: int  # different ones
    true: int | None  # of them; None of a call that is no condition
    tally: Tally
    same_as: int | None  # an earlier call with the same inputs and the same tally
    stops: bool  # answers end its asking: those of a LIMIT or EXISTS


class Resolver:
    """The AI calls of one statement, answered step by step as its plan says."""

    def __init__(self, cursor: Recorder, query: Query, listed: ListedConditions, inquiries: Inquiries) -> None:
        self._cursor = cursor
        self._listed = listed
        plan = listed.plan
        # Each call with what it waits for.
        together = [step.conditions for step in plan.rounds.together]
        self.query = replace(query, calls=ordered(query.calls, plan.rounds.orders, together, plan.rounds.sampled))
        self._beside = [i for conditions in together for conjunct in conditions for i in conjunct.calls]
        self._limit = plan.first.limit if plan.first else None
        self._inquiries = inquiries
        self._look_ups = inquiries.look_ups
        self._joined: dict[int, int] = {}  # inputs answered through answer tables, by call
        self._looked_up: dict[str, int] = {}  # rows looked up in the run that made the result, by tag
        self._candidates = 0  # rows at which a LIMIT's rounds looked last
        self._rows_met: dict[str, int] = {}  # on which a look-up stands, by tag
        self._shown_levels: set[int] = set()  # levels at which the result's rows were asked about
        self._known_first = False

    @property
    def plan(self) -> PhysicalPlan:
        """By what is known so far."""
        return self._listed.plan

    @property
    def rows(self) -> int:
        """Rows that were answered: looked up in the last run, or joined."""
        return sum(self._looked_up.values()) + sum(self._joined.values()) + self._candidates

    def counted(self) -> list[QuestionCount]:
        """What each call met and cost so far, in text order."""
        counted: list[QuestionCount] = []
        first: dict[Inquiry, int] = {}
        for i in range(len(self._inquiries.tags)):
            inquiry = self._look_ups.inquiry(i)
            rows = self._joined.get(i, self._rows_met.get(self._inquiries.tags[i], 0))
            tally, same_as = self._inquiries.tally_of(inquiry), first.setdefault(inquiry, i)
            inputs, true = self._look_ups.inputs(i), self._look_ups.true(i)
            stops = self.query.calls[i].group is not None or bool(self._limit and i in self._limit.deciding)
            counted.append(QuestionCount(inquiry, rows, inputs, true, tally, None if same_as == i else same_as, stops))
        return counted

    def resolve(self, names: list[str], numbered: bool) -> None:
        """Leaves the query's rows in the table RESULT, every one of their calls answered.

        `names` are those of the query's unnamed items; `numbered` adds the column ROW, which holds the rows' order.
        """
        with self._answer_tables():
            self._pin_folded(names)
            if self.plan.first and self.plan.first.limit.conjuncts:
                self._candidates = ask_first_rows(self.plan.first, self.query, self._cursor, self._inquiries, names)
            self._rounds(names, numbered)

    def _pin_folded(self, names: list[str]) -> None:
        """Has calls met on rows that DuckDB would look up while it plans: it takes a column of one value for a constant."""
        tags, pinnable = self._inquiries.tags, self.query.pinnable
        self._look_ups.start_only([])
        self._cursor.execute(f"EXPLAIN {render(self.query, tags, self.plan.tables, names)}").fetchall()
        self.query = pinned(self.query, [i for i in pinnable if self._look_ups.rows[tags[i]]])

    @contextmanager
    def replaying(self) -> Iterator[None]:
        """While a statement runs over answers that `resolve` gathered. It must not meet an input that it did not."""
        self._look_ups.start(self.plan.rounds.levels)
        try:
            yield
        finally:
            self._look_ups.stop()
        assert not self._look_ups.missing(), "the statement met an input that its SELECT did not"

    def _rounds(self, names: list[str], numbered: bool) -> None:
        """Runs the query level by level until a run that made the result table noted nothing.

        DuckDB may look at a higher call first, so that the rows of a lower one come only with its answers. A run in which
        calls of several levels miss something therefore asks nothing: the lowest of these levels comes again, alone.
        """
        sql = render(self.query, self._inquiries.tags, self.plan.tables, names)
        levels = self.plan.rounds.levels
        last = max(0, levels - 1)
        # What is known already needs no run a level.
        level, settled = (last, True) if self._inquiries.ahead else (0, levels == 0)
        turns = 0  # that found new inputs, though there was room for all
        while True:
            keep = level == last and settled
            self._look_ups.start(level)
            try:
                if keep:
                    self._keep(names, numbered)
                else:
                    self._drain(sql)
            finally:
                self._look_ups.stop()
            self._note_rows()
            missing = self._look_ups.missing()
            if keep and not missing and self._limit:
                missing = self._missing_of_shown(self._limit)
            if missing:
                turns += all(len(inquiry.missing) < inquiry.room for inquiry in missing)
                self._refuse_without_end(turns)
                lowest, *higher = self._look_ups.waiting_levels() or [level]
                if higher:
                    self._look_ups.forget()
                    level = lowest
                elif not self._inquiries.recall(self._beside):
                    self._inquiries.answer(missing, self.plan.rounds.links)
                settled = True
            elif keep:
                return self._drop_asides()
            elif level < last:
                level, settled = level + 1, False
            else:
                settled = True

    def _note_rows(self) -> None:
        """Keeps how many rows each look-up met: the most of all runs, since DuckDB stops where one condition refuses.

        Of conditions in an order the first run counts that met any: later ones meet them in the guards of others, too.
        """
        in_order = {
            self._inquiries.tags[i] for order in self.plan.rounds.orders for condition in order for i in condition.calls
        }
        for tag, rows in self._look_ups.rows.items():
            met = self._rows_met.get(tag, 0)
            self._rows_met[tag] = met if met and tag in in_order else max(rows, met)

    def _keep(self, names: list[str], numbered: bool) -> None:
        """Makes the result table of what is known so far."""
        sql = result_query(self.query, self._limit, self._inquiries.tags, self.plan.tables, names, self._known_first)
        kept = f"SELECT *, row_number() OVER () AS {ROW} FROM ({sql})" if numbered else sql
        self._cursor.execute(f"CREATE OR REPLACE TEMP TABLE {RESULT} AS {kept}").fetchall()
        self._looked_up = self._look_ups.rows

    def _drain(self, sql: str) -> None:
        for _ in self._cursor.sql(sql).to_arrow_reader():
            pass

    def _missing_of_shown(self, limit: RowLimit) -> list[Inquiry]:
        """What the result's rows lack in calls that only show something, at the first level that lacks anything.

        A level that comes again means that the query came out with other rows, as it may where ORDER BY leaves ties: from then
        on rows whose answers are known come first among equals.
        """
        levels = {self.query.calls[shown.call].level for shown in limit.shown}
        for level in sorted(levels):
            numbers = [n for n, shown in enumerate(limit.shown) if self.query.calls[shown.call].level == level]
            sql = lookups_query(self.query, limit, numbers, self._inquiries.tags, RESULT)
            self._inquiries.note([limit.shown[n].call for n in numbers], partial(self._drain, sql))
            if missing := self._look_ups.missing():
                self._known_first |= level in self._shown_levels
                self._shown_levels.add(level)
                return missing
        return []

    def _drop_asides(self) -> None:
        for column in aside_columns(self.query, self._limit) if self._limit else ():
            self._cursor.execute(f"ALTER TABLE temp.main.{RESULT} DROP COLUMN {quoted(column)}")

    def _refuse_without_end(self, turns: int) -> None:
        """Raises when rounds keep finding new inputs, as they do where a view or macro hides a volatile value."""
        if turns > _TURNS + _TURNS_A_CALL * len(self.query.calls):
            raise QuailError(
                f"After {turns} runs this statement still finds texts that it did not have before, as it does when random() or "
                "another volatile value stands in a view or macro that it reads. Store that part in a table first."
            )

    @contextmanager
    def _answer_tables(self) -> Iterator[None]:
        """Asks each planned condition and registers its answers as a relation while the statement runs."""
        registered: list[str] = []
        try:
            for step in self._listed.steps():
                table = self._ask(step)
                self._cursor.register(step.table.name, table)
                registered.append(step.table.name)
            yield
        finally:
            for name in registered:
                self._unregister(name)

    def _ask(self, step: AskStep) -> pa.Table:
        """Lists the inputs, has them answered, and returns those that are TRUE."""
        inputs = self._cursor.sql(step.source.sql).to_arrow_table()
        self._joined[step.ask.call] = len(inputs)
        behind = partial(self._ask_behind, step) if step.behind else None
        true = inputs.filter(of_flags(self._inquiries.true(step.ask.call, inputs, step.links, behind)))
        self._listed.answered(step.ask.call, len(inputs), len(true))
        return true

    def _ask_behind(self, step: AskStep, true: pa.Table, asked: Callable[[int, pa.Table], NDArray[np.bool_]]) -> None:
        """Asks the steps behind one about some of its texts, of which these inputs are all that is TRUE. When it is its turn,
        each step lists the same inputs among its own, and finds them answered."""
        with ExitStack() as unregistered:
            for before, after in pairwise([step, *step.behind]):
                if not len(true):
                    return
                self._cursor.register(before.table.name, true)
                unregistered.callback(self._unregister, before.table.name)
                inputs = self._cursor.sql(after.source.sql).to_arrow_table()
                true = inputs.filter(of_flags(asked(after.ask.call, inputs)))

    def _unregister(self, name: str) -> None:
        # In a transaction that an error has aborted nothing works but ROLLBACK, which takes the tables with it.
        with suppress(duckdb.TransactionException):
            self._cursor.unregister(name)
