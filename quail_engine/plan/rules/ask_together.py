"""Conditions of one AND that follow each other and read the same text share its KV, where that prefills fewer tokens.

Where a model's prompts put the text first, its KV serves all of them; asked later, the text would be prefilled again. For a
text of d tokens, a question of q, and a share s of rows that the conditions before leave, a condition costs s q a row where it
waits for their answers with the KV at hand, q where it is asked at once with them, and s (d + q) after them. Only a condition
that is a call, or NOT one, is waited for: its answer alone must say whether the row needs the next one.

Of a text that one of them is known to refuse, as by an earlier statement's answers, the others are not asked.

Conditions of one FROM clause that follow each other share a text, or an AI join's anchor, likewise: the next one about it is
asked while its KV is held, and only about the pairs that the answers leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby, pairwise, starmap, takewhile
from operator import eq

from quail_engine.plan.logical import AiFilter, AiJoin, LogicalPlan
from quail_engine.plan.order import distinct
from quail_engine.plan.statistics import ConjunctionStatistics
from quail_engine.plan.together import Together, cheapest_steps
from quail_engine.sql import Conjunction, Order

_UNCOUNTED = 1_000.0  # texts, where their rows cannot be listed before something is asked


def ask_together(plan: LogicalPlan) -> LogicalPlan:
    found = list(zip(plan.query.conjunctions, plan.statistics.conjunctions, strict=True))
    together: list[Together] = []
    for order in plan.rest.orders:
        conjunction, known = next((c, known) for c, known in found if set(c.conjuncts) == set(order))
        together += _groups(plan, order, conjunction, known)
    conditions = tuple(replace(condition, same_text=tuple(_same_text(plan, condition))) for condition in plan.conditions)
    return replace(plan, conditions=conditions, rest=replace(plan.rest, together=tuple(together)))


def _same_text(plan: LogicalPlan, condition: AiFilter | AiJoin) -> Iterator[int]:
    """The calls of other conditions beside joins that read the same text of the same rows."""
    rows, leading = _rows_of(condition), plan.leading(condition)
    for other in plan.conditions if leading is not None else ():
        if other.call != condition.call and _rows_of(other) == rows and plan.leading(other) == leading:
            yield other.call


def _rows_of(condition: AiFilter | AiJoin) -> object:
    return condition.space.source, condition.space.conditions, condition.space.outer


def _groups(plan: LogicalPlan, order: Order, conjunction: Conjunction, known: ConjunctionStatistics) -> Iterator[Together]:
    places = [conjunction.conjuncts.index(conjunct) for conjunct in order]
    first = 0
    for text, run in groupby(order, key=lambda conjunct: _text(plan, conjunct.calls)):
        conditions = tuple(run)
        if text is not None and len(conditions) > 1:
            call = conditions[0].calls[0]
            counted = plan.statistics.calls[call].inputs
            inputs = counted.value if counted else _UNCOUNTED
            rows = known.rows.value if known.rows else inputs
            left = [distinct(inputs, rows, known.share(places[: first + i])) for i in range(len(conditions))]
            behind, waits = partial(_behind, plan, conditions), partial(_waits, plan, conditions)
            for step in cheapest_steps(_text_tokens(plan, call), behind, left, waits):
                if step.end - step.start > 1:
                    of = slice(step.start, step.end)
                    shares = tuple(inputs / max(1.0, left[step.start]) for inputs in left[of])
                    yield Together(conditions[of], step.tokens, step.tokens_apart, step.tokens_else, step.cascades, shares)
        first += len(conditions)


def _waits(plan: LogicalPlan, conditions: Order, start: int, end: int) -> bool:
    """Whether each of some conditions can wait for the one before it. A question that another call asks, too, cannot: that call
    may need an answer that this one does not."""
    decide = all(conjunct.negated is not None for conjunct in conditions[start : end - 1])
    return decide and _asked_once(plan, [i for conjunct in conditions[start:end] for i in conjunct.calls])


def _asked_once(plan: LogicalPlan, calls: Sequence[int]) -> bool:
    """Whether no two calls of the statement ask one of these calls' questions."""
    questions = [call.question for call in plan.query.calls]
    return all(questions.count(plan.call(i).question) == 1 for i in calls)


def _text(plan: LogicalPlan, calls: Sequence[int]) -> object:
    """What a condition shares with others that read the same: its only text, and all that stands before it; None for others."""
    found: set[object] = set()
    for i in calls:
        call, reading = plan.call(i), plan.statistics.calls[i].reading
        if reading is None or call.options.order == "as_written":
            return None
        found.add((call.arguments, reading.before))
    return found.pop() if len(found) == 1 else None


def _text_tokens(plan: LogicalPlan, call: int) -> float:
    reading = plan.statistics.calls[call].reading
    return plan.text_bytes(call) * reading.tokens_a_byte if reading else 0.0


def _behind(plan: LogicalPlan, conditions: Order, start: int, end: int) -> int:
    """Tokens behind the text of all questions of some conditions, a common beginning once."""
    calls = [plan.statistics.calls[i].reading for conjunct in conditions[start:end] for i in conjunct.calls]
    readings = [reading for reading in calls if reading]
    questions = sorted(reading.behind for reading in readings)
    shared = sum(sum(takewhile(bool, starmap(eq, zip(*pair, strict=False)))) for pair in pairwise(questions))
    return sum(len(reading.behind) + reading.suffixes for reading in readings) - shared
