"""The plan as people read it. Identical plans print identically."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import singledispatch

from quail_engine.calls import AiCall, Kind
from quail_engine.plan.physical import AskStep, FirstRows, PhysicalPlan, Rounds

_FUNCTIONS = {
    Kind.FILTER: "AI_FILTER",
    Kind.SCORE: "AI_SCORE",
    Kind.CLASSIFY: "AI_CLASSIFY",
    Kind.CLASSIFY_SCORES: "AI_CLASSIFY_SCORES",
}
_WIDTH = 100


def explain(plan: PhysicalPlan, calls: Sequence[AiCall], model: str) -> str:
    """The plan's text: what is asked of which model, in which order, and what is left to DuckDB."""
    lines = [f"Model {model}"]
    for step in plan.asks:
        lines += _lines(step, calls)
    lines += _lines(plan.first, calls) if plan.first else ()
    lines += _lines(plan.rounds, calls)
    lines += _shown(plan.first, calls) if plan.first else ()
    lines += ["Statement: DuckDB runs it as written, with the answers in place of the AI calls"]
    return "\n".join(lines)


@singledispatch
def _lines(step: object, calls: Sequence[AiCall]) -> Iterator[str]:
    raise NotImplementedError(type(step).__name__)


@_lines.register
def _(step: AskStep, calls: Sequence[AiCall]) -> Iterator[str]:
    call = calls[step.ask.call]
    if step.ask.anchor is None:
        yield f"AiFilter {_question(call)}"
        what, order = "inputs", ""
    else:
        yield f"AiJoin {_question(call)}"
        yield f"  anchor {{{step.ask.anchor}}}: {call.arguments[step.ask.anchor]}, its KV shared by all its partners"
        what, order = "pairs", " anchor by anchor"
    yield f"  {what}: {_short(step.source.sql)}"
    yield f"  answers: recalled, else asked{order}; the TRUE ones go into {step.table.name}, which the statement joins"


@_lines.register
def _(step: FirstRows, calls: Sequence[AiCall]) -> Iterator[str]:
    limit = step.limit
    if limit.conjuncts:
        offset = f" after {limit.offset}" if limit.offset else ""
        order = ", in ORDER BY's order" if limit.ordered else ""
        yield f"FirstRows {limit.rows}{offset}: ask about the first rows that are not refused{order}, until as many are certain"
        for i in limit.deciding:
            yield f"  {_question(calls[i])}"
            yield from _details(calls[i])


def _shown(step: FirstRows, calls: Sequence[AiCall]) -> Iterator[str]:
    """What is asked last, since it changes no row."""
    if step.limit.shown:
        yield "ShownRows: ask about the rows that come out only"
    for shown in step.limit.shown:
        yield f"  {_question(calls[shown.call])}"
        yield from _details(replace(calls[shown.call], guard=shown.guard, depends=()))


@_lines.register
def _(rounds: Rounds, calls: Sequence[AiCall]) -> Iterator[str]:
    if not rounds.levels:
        return
    yield f"Rounds, {rounds.levels} level{'s' if rounds.levels > 1 else ''}: run, ask what is missing, run again"
    for level in range(rounds.levels):
        for i in rounds.calls:
            if calls[i].level == level:
                yield f"  level {level}: {_question(calls[i])}"
                yield from _details(calls[i])
    for order in rounds.orders:
        asked = (" and ".join(_question(calls[i]) for i in conjunct.calls) for conjunct in order)
        yield f"  one after the other, each where those before it are TRUE: {', '.join(asked)}"


def _details(call: AiCall) -> Iterator[str]:
    if call.arguments:
        yield f"    of {', '.join(_short(argument) for argument in call.arguments)}, each distinct input once"
    else:
        yield "    constant: asked once"
    if call.guard:
        yield f"    only where {_short(call.guard)}"
    if call.group is not None:
        yield f"    until one is TRUE for each ({', '.join(call.group)})"
    if call.depends:
        yield f"    above the join with {', '.join(call.depends)}"


def _question(call: AiCall) -> str:
    """The call in one line: function, template, labels."""
    text = f"{_FUNCTIONS[call.kind]} '{call.question.title}'"
    return _short(f"{text} into labels of {call.labels_argument}" if call.labels_argument else text)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
