"""Conditions whose inputs are listed before they are asked, in an order that follows what was answered.

What is planned rests on assumptions about pairs, because which there are is not known before the conditions on their relations
are answered. So once the next condition is a join, and others are left, a sample of the pairs that are left is asked each join
of which nothing better is known: it is uniform, and the same whenever the pairs are. Then, and after every answer, the
conditions that are left are put in the cheapest order by what is known by now.

Conditions that read the KV of the one before them are asked with it, some texts at a time, so nothing comes between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from quail_engine.inquiries import Inquiries
from quail_engine.plan import AiJoin, AskStep, Estimate, LogicalPlan, PhysicalPlan, Source, order_joins, ordered_freely
from quail_engine.sql import pairs_query, pairs_sample_query
from quail_engine.survey import sample_rows
from quail_engine.wording import Recorder

_MOST_PAIRS = 1_000_000  # that are listed to take a sample of them


class ListedConditions:
    """The conditions of one statement, step by step. `plan` is the statement's plan by what is known so far."""

    def __init__(
        self,
        plan: LogicalPlan,
        lowered: Callable[[LogicalPlan], PhysicalPlan],
        cursor: Recorder,
        inquiries: Inquiries,
        supposed: bool,
    ) -> None:
        """`supposed`: answers are no real ones, and say nothing of an order."""
        self.plan = lowered(plan)
        self._logical = plan
        self._lowered = lowered
        self._cursor = cursor
        self._inquiries = inquiries
        self._asked = 0
        self._same_text = {condition.call: condition.same_text for condition in plan.conditions}
        calls = [condition.call for condition in plan.conditions]
        open_ = "order_joins" not in inquiries.services.settings.disable_rules and ordered_freely(plan.query) is not None
        self._is_free = open_ and not supposed and not plan.statistics.were_asked(calls)

    def steps(self) -> Iterator[AskStep]:
        """What to ask next; the caller says what came of it before it goes on."""
        while self._asked < len(self.plan.asks):
            left = self._logical.conditions[self._asked :]
            if self._is_free and len(left) > 1 and not self.plan.asks[self._asked].on_kv:
                if isinstance(left[0], AiJoin):
                    self._sample([condition for condition in left if isinstance(condition, AiJoin)])
                self._logical = self._begun_anew(order_joins(self._logical, self._asked))
                self.plan = self._lowered(self._logical)
            self._asked += 1
            yield self.plan.asks[self._asked - 1]

    def _begun_anew(self, plan: LogicalPlan) -> LogicalPlan:
        """The plan with what is asked next on no KV: that of what was asked before is dropped."""
        first = plan.conditions[self._asked].call
        kept = [replace(c, same_text=() if c.call == first else self._same_text[c.call]) for c in plan.conditions]
        return replace(plan, conditions=tuple(kept))

    def answered(self, call: int, inputs: int, true: int) -> None:
        """Of a condition's inputs so many are TRUE."""
        if inputs:
            self._measure(call, true / inputs)

    def _measure(self, call: int, share: float) -> None:
        known = self._logical.statistics
        calls = list(known.calls)
        calls[call] = replace(calls[call], selectivity=Estimate(share, Source.MEASURED))
        self._logical = replace(self._logical, statistics=replace(known, calls=tuple(calls)))

    def _sample(self, joins: list[AiJoin]) -> None:
        query, known = self._logical.query, self._logical.statistics
        tables = {step.table.call: step.table.name for step in self.plan.asks[: self._asked]}
        for join in joins:
            sides = (ordered_freely(query) or {})[join.call]
            unknown = known.calls[join.call].selectivity.source is Source.ASSUMED
            if unknown and known.joins.of_pair(*sides) <= _MOST_PAIRS:
                listing = pairs_query(query, join.space, tables)
                pairs = self._cursor.execute(f"SELECT count(*) FROM ({listing})").fetchall()[0][0]
                if rows := sample_rows(pairs, pairs, self._inquiries.services.settings):
                    sample = self._cursor.sql(pairs_sample_query(query, join.space, rows, tables)).to_arrow_table()
                    self._measure(join.call, float(self._inquiries.sample_inputs(join.call, sample).mean()))
