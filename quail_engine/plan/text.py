"""A plan's tree as text. Identical trees print identically."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import singledispatch

from quail_engine.plan.statistics import Estimate, Source
from quail_engine.plan.tree import (
    Alternative,
    AskNode,
    CallNode,
    Choice,
    Figures,
    FirstRowsNode,
    Layout,
    PlanTree,
    RoundsNode,
    ShownRowsNode,
)

_WIDTH = 100


def as_text(tree: PlanTree) -> str:
    """The plan in lines: what is asked in which order, of which rows, what it is expected to cost, and what it did cost."""
    lines = [f"Model {layout.model}, {_layout(layout)}" for layout in tree.layouts] or [f"Model {tree.model}"]
    for node in tree.nodes:
        lines += _lines(node)
    for choice in tree.choices:
        lines += _choice(choice)
    lines += ["Statement: DuckDB runs it as written, with the answers in place of the AI calls"]
    if tree.estimated and len(list(tree.calls)) > 1:
        lines += [f"Total: {cost(tree.estimate)}"]
    if len(list(tree.calls)) > 1 and (happened := tree.happened):
        lines += [f"  happened: {cost(happened)}{_error(tree.estimate, happened)}"]
    return "\n".join([*lines, *(f"Note: {note}" for note in tree.notes)])


def _layout(layout: Layout) -> str:
    shared = "a text's KV serves all questions about it" if layout.shares_texts else "a question's KV serves all texts"
    return f"layout {layout.name}: {shared}"


@singledispatch
def _lines(node: object) -> Iterator[str]:
    raise NotImplementedError(type(node).__name__)


@_lines.register
def _(node: AskNode) -> Iterator[str]:
    call = node.call
    yield f"{node.operator} {_question(call)}"
    if call.anchor is None:
        what, order = "inputs", ""
    else:
        yield f"  anchor {{{call.anchor}}}: {call.arguments[call.anchor]}, its KV shared by all its partners"
        what, order = "pairs", " anchor by anchor"
    if node.on_kv:
        yield "  asked where the one before is TRUE, on its KV"
    yield f"  {what}: {shortened(node.source)}"
    yield f"  answers: recalled, else asked{order}; the TRUE ones go into {node.table}, which the statement joins"
    yield from _figures(call, "  ")


@_lines.register
def _(node: FirstRowsNode) -> Iterator[str]:
    offset = f" after {node.offset}" if node.offset else ""
    order = ", in ORDER BY's order" if node.ordered else ""
    yield f"FirstRows {node.rows}{offset}: ask about the first rows that are not refused{order}, until as many are certain"
    for call in node.calls:
        yield f"  {_question(call)}"
        yield from _details(call)


@_lines.register
def _(node: ShownRowsNode) -> Iterator[str]:
    yield "ShownRows: ask about the rows that come out only"
    for call in node.calls:
        yield f"  {_question(call)}"
        yield from _details(call)


@_lines.register
def _(node: RoundsNode) -> Iterator[str]:
    yield f"Rounds, {node.levels} level{'s' if node.levels > 1 else ''}: run, ask what is missing, run again"
    for call in node.calls:
        yield f"  level {call.level}: {_question(call)}"
        yield from _details(call)
    questions = {call.call: _question(call) for call in node.calls}
    for order, passes in zip(node.orders, node.passes, strict=True):
        yield f"  one after the other, each where those before it are {_words(passes)}: {_conditions(order, questions)}"
    for step in node.together:
        on_kv = f"asked where the one before is {_words(step.passes)}, on its KV"
        way = on_kv if step.cascades else "asked together, as they share the text's KV"
        yield f"  of these {way}: {_conditions(step.conditions, questions)}"
        yield f"    {_price(step.chosen)}"
        for other in step.rejected:
            yield f"    instead: {other.what}, {_price(other)}"


def _words(passes: str) -> str:
    """`not TRUE`."""
    return passes.removeprefix("IS ").replace("NOT", "not")


def _conditions(conditions: Sequence[Sequence[int]], questions: Mapping[int, str]) -> str:
    return ", ".join(" and ".join(questions[i] for i in condition) for condition in conditions)


def _details(call: CallNode) -> Iterator[str]:
    if call.arguments:
        yield f"    of {', '.join(map(shortened, call.arguments))}, each distinct input once"
    else:
        yield "    constant: asked once"
    if call.chosen:
        yield f"    rewritten from yes or no for each pair: TRUE where {call.chosen} is chosen"
    if call.guard:
        yield f"    only where {shortened(call.guard)}"
    if call.group is not None:
        yield f"    until one is TRUE for each ({', '.join(call.group)})"
    if call.depends:
        yield f"    above the join with {', '.join(call.depends)}"
    yield from _figures(call, "    ")


def _figures(call: CallNode, indent: str) -> Iterator[str]:
    if call.decision:
        yield f"{indent}decided by: {call.decision}"
    if call.same_as is not None:
        yield f"{indent}asks the same as call {call.same_as + 1}, and is counted there"
        return
    if call.estimate != Figures():
        yield f"{indent}estimate: {_reach(call.estimate, call.selectivity)}"
        yield f"{indent}  {cost(call.estimate)}"
    if call.happened:
        yield f"{indent}happened: {_reach(call.happened, None)}"
        yield f"{indent}  {cost(call.happened)}{_error(call.estimate, call.happened)}"
    for other in call.alternatives:
        yield f"{indent}instead: {other.what}, {_price(other)}"


def _choice(choice: Choice) -> Iterator[str]:
    """The order that was chosen, the next best one, and the one as written."""
    yield f"Order: {choice.chosen.named}, {_price(choice.chosen)}: {choice.why}"
    for place, way in enumerate(choice.rejected):
        if place == 0 or way.named != way.what:
            times = f": {factor:.2f}x the tokens" if (factor := tokens_factor(way, choice.chosen)) else ""
            yield f"  instead: {way.named}, {_price(way)}{times}"


def tokens_factor(way: Alternative, chosen: Alternative) -> float | None:
    """How many times the tokens of the chosen way another one prefills; None where either is unknown or nothing."""
    if not way.tokens_fresh or not chosen.tokens_fresh or not chosen.tokens_fresh.value:
        return None
    return way.tokens_fresh.value / chosen.tokens_fresh.value


def _price(way: Alternative) -> str:
    if way.requests is None and way.seconds is None:  # of what was planned, and not counted
        return _amounts((way.tokens_fresh, "tokens"))
    return _amounts((way.requests, "requests"), (way.tokens_fresh, "tokens"), (way.seconds, "s"))


def _reach(figures: Figures, share: Estimate | None) -> str:
    """`6 rows, 5 inputs, ≈ 2 TRUE (selectivity 0.5 assumed)`."""
    met = _amounts((figures.rows, "rows"), (figures.inputs, "inputs"))
    if figures.true is None:
        return met
    mark, source = ("", "") if _is_certain(figures.true) else ("≈ ", f" ({figures.true.source.value})")
    if source and share:
        source = f" (selectivity {share.value:.2g} {share.source.value})"
    return f"{met}, {mark}{number(figures.true.value, 'TRUE')}{source}"


def cost(figures: Figures) -> str:
    """`5 requests, 0 recalled, 210 tokens + 90 reused, 0.1 s`, with where the numbers come from."""
    amounts = [(figures.requests, "requests"), (figures.recalled, "recalled")]
    amounts += [(figures.overlong, "too long")] if figures.overlong and figures.overlong.value else []
    amounts += [(figures.tokens_fresh, "tokens fresh"), (figures.tokens_reused, "reused")]
    amounts += [(figures.kv_bytes, "KV")] if figures.kv_bytes else []
    return _amounts(*amounts, (figures.seconds, "s"))


def _amounts(*amounts: tuple[Estimate | None, str]) -> str:
    """Numbers with their units; `≈` and the source stand at those that were not counted, the source once where it is common."""
    sources = {estimate.source for estimate, _ in amounts if estimate and not _is_certain(estimate)}
    common = sources.pop() if len(sources) == 1 else None
    told = ", ".join(_amount(estimate, unit, common) for estimate, unit in amounts)
    return f"{told} ({common.value})" if common else told


def _is_certain(estimate: Estimate) -> bool:
    return estimate.source is Source.MEASURED or not estimate.value


def _amount(estimate: Estimate | None, unit: str, common: Source | None) -> str:
    if estimate is None:
        return "seconds unknown" if unit == "s" else f"{unit} unknown"
    if _is_certain(estimate):
        return number(estimate.value, unit)
    source = "" if estimate.source is common else f" ({estimate.source.value})"
    return f"≈ {number(estimate.value, unit)}{source}"


def number(value: float, unit: str) -> str:
    """A number with its unit.

    >>> number(1204, "rows"), number(1, "requests"), number(0.118, "s"), number(3_100_000, "KV")
    ('1,204 rows', '1 request', '0.12 s', '3.1 MB KV')
    """
    if unit == "s":
        return f"{value:.2f} s" if value < 10 else f"{value:,.0f} s"
    if unit == "KV":
        return f"{value / 1e6:,.1f} MB KV"
    singular = unit[:-1] if round(value) == 1 and unit in ("rows", "inputs", "requests", "tokens") else unit
    return f"{value:,.0f} {singular}"


def error_factor(estimate: Estimate | None, happened: Estimate | None) -> float | None:
    """By which factor, one or more, an estimate was wrong; None where either is unknown or nothing."""
    if not estimate or not happened or estimate.value <= 0 or happened.value <= 0:
        return None
    return max(estimate.value / happened.value, happened.value / estimate.value)


def _error(estimate: Figures, happened: Figures) -> str:
    factors = [
        f"{what} {factor:.2f}x"
        for what in ("requests", "tokens_fresh", "seconds")
        if (factor := error_factor(getattr(estimate, what), getattr(happened, what)))
    ]
    return f"; estimate off by: {', '.join(factors)}".replace("tokens_fresh", "tokens") if factors else ""


def _question(call: CallNode) -> str:
    """The call in one line."""
    labels = f" into labels of {call.labels}" if call.labels else ""
    return shortened(f"{call.function} '{call.question}'{labels}")


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
