"""A plan as a page: a picture of its steps from top to bottom, and a table of all numbers with their sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from quail_engine import page
from quail_engine.plan import (
    AskNode,
    CallNode,
    Choice,
    Estimate,
    Figures,
    FirstRowsNode,
    PlanTree,
    RoundsNode,
    Source,
    as_text,
    number,
    tokens_factor,
)

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _ACROSS = 350, 136, 20, 46, 3
_HAPPENED = 22  # what a box is taller where it tells what happened
_LETTERS = 52  # of a line in a box
_UNITS = {"seconds": "s", "kv_bytes": "KV"}


@dataclass(frozen=True)
class _Box:
    title: str
    call: CallNode


def plan_page(
    trees: Sequence[PlanTree],
    title: str = "Plan",
    names: Sequence[str] = (),
    summary: tuple[Sequence[str], Sequence[Sequence[str]]] | None = None,
) -> str:
    """One page for the plans of some statements, each under its name; `summary` is a table before them."""
    if len(trees) > 1 and not names:
        names = [f"Statement {number_}" for number_ in range(1, len(trees) + 1)]
    parts = [page.table(*summary, texts=3)] if summary else []
    for number_, tree in enumerate(trees):
        parts += [page.heading(names[number_])] if names else []
        parts += _statement(tree)
    return page.document(title, parts or [page.paragraph("No AI calls: DuckDB runs this as it is.")])


def _statement(tree: PlanTree) -> Iterator[str]:
    for note in tree.notes:
        yield page.paragraph(note, "bad")
    yield _picture(tree)
    if tree.estimated:
        yield page.heading("Numbers", 3)
        yield page.table(_columns(tree), _rows(tree), texts=2)
        yield page.paragraph(
            "≈ marks what was not counted, with its source. Reused tokens stand in a prefix that another request has computed.",
            "dim",
        )
    if tree.choices:
        yield page.heading("Orders that were weighed", 3)
        yield page.table(("order of the conditions", "requests", "tokens", "seconds", ""), _weighed(tree.choices), texts=1)
    yield page.heading("As text", 3)
    yield page.code(as_text(tree))


def _layers(tree: PlanTree) -> Iterator[list[_Box]]:
    """Boxes that stand side by side: nothing in a layer waits for another in it."""
    for node in tree.nodes:
        if isinstance(node, AskNode):
            yield [_Box(node.operator, node.call)]
        elif isinstance(node, RoundsNode):
            after = {call: turn for order in node.orders for turn, condition in enumerate(order) for call in condition}
            for level in range(node.levels):
                own = [call for call in node.calls if call.level == level]
                for turn in sorted({after.get(call.call, 0) for call in own}):
                    yield [_Box(f"Round, level {level}", call) for call in own if after.get(call.call, 0) == turn]
        elif isinstance(node, FirstRowsNode):
            yield [_Box(f"First {node.rows} rows", call) for call in node.calls]
        else:
            yield [_Box("Rows that come out", call) for call in node.calls]


def _picture(tree: PlanTree) -> str:
    rows = [layer[i : i + _ACROSS] for layer in _layers(tree) for i in range(0, len(layer), _ACROSS)]
    across = max((len(row) for row in rows), default=1)
    width = across * (_WIDTH + _GAP_X) + _GAP_X
    tall = _HEIGHT + (_HAPPENED if tree.happened else 0)  # of a box
    height = len(rows) * (tall + _GAP_Y) + 60
    most = max((_tokens(call.estimate) for call in tree.calls), default=0.0)
    parts = [
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>'
    ]
    for number_, row in enumerate(rows):
        y = number_ * (tall + _GAP_Y) + 8
        for x, box in zip(_places(len(row), width), row, strict=True):
            parts += _drawn(box, x, y, tall, most)
            middle = x + _WIDTH / 2
            bend, end = y + tall + _GAP_Y / 2, y + tall + _GAP_Y - 4
            parts.append(
                f'<path class="edge" marker-end="url(#arrow)" d="M{middle:g} {y + tall}V{bend:g}H{width / 2:g}V{end:g}"/>'
            )
    y = len(rows) * (tall + _GAP_Y) + 8
    left = (width - _WIDTH) / 2
    parts.append(f'<rect class="box" x="{left:g}" y="{y}" width="{_WIDTH}" height="40" rx="6"/>')
    parts.append(page.words(width / 2, y + 25, "Statement, run by DuckDB as written", "strong", "middle"))
    return page.drawing(width, height, "The steps of the plan, first to last", parts)


def _places(boxes: int, width: float) -> list[float]:
    left = (width - boxes * _WIDTH - (boxes - 1) * _GAP_X) / 2
    return [left + i * (_WIDTH + _GAP_X) for i in range(boxes)]


def _drawn(box: _Box, x: float, y: float, tall: float, most: float) -> Iterator[str]:
    call, figures = box.call, box.call.estimate
    yield f'<rect class="box" x="{x:g}" y="{y}" width="{_WIDTH}" height="{tall}" rx="6"/>'
    yield page.words(x + 12, y + 22, f"{box.title}: {call.function}", "strong")
    question = f"'{call.question}'" + (f" into labels of {call.labels}" if call.labels else "")
    yield page.words(x + 12, y + 42, _cut(question), "dim", whole=question)
    if call.same_as is not None:
        yield page.words(x + 12, y + 66, f"asks the same as call {call.same_as + 1}")
        return
    reach = [_amount(figures.rows, "rows"), _amount(figures.inputs, "inputs")]
    reach += [_amount(figures.true, "TRUE")] if figures.true else []
    yield page.words(x + 12, y + 66, " → ".join(reach))
    yield page.words(x + 12, y + 86, f"{_amount(figures.requests, 'requests')}, {_amount(figures.recalled, 'recalled')}")
    tokens = f"{_amount(figures.tokens_fresh, 'tokens')} + {_amount(figures.tokens_reused, 'reused')}"
    yield page.words(x + 12, y + 106, f"{tokens}, {_amount(figures.seconds, 's')}")
    if most:
        length = (_WIDTH - 24) * _tokens(figures) / most
        yield f'<rect class="bar" x="{x + 12:g}" y="{y + 118}" width="{length:g}" height="6" rx="3"/>'
    if call.happened:
        spent = (_amount(call.happened.tokens_fresh, "tokens"), _amount(call.happened.seconds, "s"))
        asked = _amount(call.happened.requests, "requests")
        yield page.words(x + 12, y + tall - 12, f"happened: {', '.join((asked, *spent))}", "dim")


def _tokens(figures: Figures) -> float:
    return figures.tokens_fresh.value if figures.tokens_fresh else 0.0


def _amount(estimate: Estimate | None, unit: str) -> str:
    if estimate is None:
        return f"{'seconds' if unit == 's' else unit} unknown"
    mark = "" if estimate.source is Source.MEASURED or not estimate.value else "≈ "
    return mark + number(estimate.value, unit)


def _columns(tree: PlanTree) -> list[str]:
    return ["call", "", *(f.name.replace("_", " ") for f in fields(Figures))]


def _rows(tree: PlanTree) -> Iterator[list[str]]:
    for call in tree.calls:
        if call.same_as is None:
            name = f"{call.function} '{_cut(call.question)}'"
            yield [name, "estimate", *_cells(call.estimate)]
            if call.happened:
                yield ["", "happened", *_cells(call.happened)]
    yield ["all", "estimate", *_cells(tree.estimate)]
    if tree.happened:
        yield ["", "happened", *_cells(tree.happened)]


def _cells(figures: Figures) -> Iterator[str]:
    for f in fields(Figures):
        yield _cell(getattr(figures, f.name), _UNITS.get(f.name, ""))


def _cell(estimate: Estimate | None, unit: str) -> str:
    if estimate is None:
        return "–"
    told = number(estimate.value, unit).strip()
    certain = estimate.source is Source.MEASURED or not estimate.value
    return told if certain else f"≈ {told} {estimate.source.value}"


def _weighed(choices: Sequence[Choice]) -> Iterator[list[str]]:
    """The chosen order of each choice, and under it those that were rejected."""
    for choice in choices:
        for way in (choice.chosen, *choice.rejected):
            told = f"chosen: {choice.why}"
            if way is not choice.chosen:
                factor = tokens_factor(way, choice.chosen)
                told = f"{factor:.2f}x the tokens" if factor else ""
            costs = ((way.requests, ""), (way.tokens_fresh, ""), (way.seconds, "s"))
            yield [way.named, *(_cell(estimate, unit) for estimate, unit in costs), told]


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LETTERS else f"{line[: _LETTERS - 1]}…"
