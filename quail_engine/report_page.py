"""A run as a page: what each node cost, beside how right its answers are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quail_engine import page
from quail_engine.errors import QuailError
from quail_engine.evaluation import NO_ANSWER, Evaluation, Judged
from quail_engine.progress import duration
from quail_engine.reliability import curve

_COUNTS = ("asked", "recalled", "sampled", "failed", "overlong", "tokens_fresh", "tokens_reused", "seconds_engine", "seconds")
_LABELS, _MISTAKES, _LETTERS = 15, 20, 300


@dataclass(frozen=True)
class NodeCost:
    """What the statements of one node cost together."""

    node: str
    model: str
    statements: int
    counts: Mapping[str, float]


def run_lines(path: Path, invocation: str | None = None) -> list[dict[str, Any]]:
    """The lines of one invocation of a run log, the last one's by default. Raises QuailError where there is none."""
    if not path.is_file():
        raise QuailError(f"There is no run log at {path}: dbt writes it into the target folder. --run-log names another.")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    wanted = invocation or next((line["invocation_id"] for line in reversed(lines)), None)
    found = [line for line in lines if line["invocation_id"] == wanted]
    if not found:
        raise QuailError(f"{path} has no line of the invocation {wanted}." if wanted else f"{path} is empty.")
    return found


def run_costs(lines: Sequence[Mapping[str, Any]]) -> list[NodeCost]:
    """What each node cost, in the order of the run."""
    by_node: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        by_node.setdefault(line["node"] or "(no node)", []).append(line)
    return [
        NodeCost(
            node,
            ", ".join(dict.fromkeys(line["model"] for line in own if line["model"])),
            len(own),
            {name: sum(line.get(name, 0) for line in own) for name in _COUNTS},
        )
        for node, own in by_node.items()
    ]


def run_page(lines: Sequence[Mapping[str, Any]], evaluations: Sequence[Evaluation], title: str = "AI calls of a run") -> str:
    """The report of one run: `lines` are those of `run_lines`."""
    costs = run_costs(lines)
    parts = [page.heading("Cost and accuracy")]
    if lines:
        parts.append(page.paragraph(f"Invocation {lines[0]['invocation_id']}, {lines[0]['timestamp'][:19]} UTC.", "dim"))
    parts.append(page.table(_COLUMNS, _cost_rows(costs, evaluations), texts=2))
    if evaluations:
        parts += [page.heading("Accuracy"), page.table(_ACCURACY_COLUMNS, map(_accuracy_row, evaluations))]
        parts.append(
            page.paragraph(
                "95 %: Wilson's interval. Majority: what always giving the most frequent gold label would get. Calibration "
                "error: the mean distance of stated confidence and accuracy.",
                "dim",
            )
        )
    else:
        parts.append(page.paragraph("No gold: an ai_accuracy test or --gold adds how right the answers are.", "dim"))
    for each in evaluations:
        parts += _evaluated(each)
    return page.document(title, parts)


_COLUMNS = (
    "node", "model", "asked", "recalled", "failed", "too long", "tokens fresh", "reused", "in the model", "in all", "accuracy",
)  # fmt: skip
_ACCURACY_COLUMNS = ("question", "rows", "right", "accuracy", "95 %", "majority", "calibration error")


def _cost_rows(costs: Sequence[NodeCost], evaluations: Sequence[Evaluation]) -> Iterator[list[str]]:
    whole = {name: sum(cost.counts[name] for cost in costs) for name in _COUNTS}
    total = NodeCost("all", "", sum(cost.statements for cost in costs), whole)
    for cost in (*costs, total):
        own = [each for each in evaluations if each.node == cost.node]
        accuracy = ", ".join(f"{each.accuracy.share:.3f}" for each in own if each.rows)
        whole_numbers = ("asked", "recalled", "failed", "overlong", "tokens_fresh", "tokens_reused")
        counts = [f"{cost.counts[name]:,.0f}" for name in whole_numbers]
        seconds = [duration(cost.counts[name]) for name in ("seconds_engine", "seconds")]
        yield [cost.node, cost.model, *counts, *seconds, accuracy]


def _accuracy_row(each: Evaluation) -> list[str]:
    accuracy, error = each.accuracy, each.calibration_error
    low, high = accuracy.interval
    return [
        each.name,
        f"{accuracy.n:,}",
        f"{accuracy.correct:,}",
        f"{accuracy.share:.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{accuracy.baseline:.3f}",
        "–" if error is None else f"{error:.3f}",
    ]


def _evaluated(each: Evaluation) -> Iterator[str]:
    yield page.heading(each.name)
    if not each.rows:
        yield page.paragraph("No row has gold.")
        return
    yield '<div class="side">'
    yield f"<div>{page.heading('Confusion: gold down, answers across', 3)}{_confusion(each)}</div>"
    if each.bins:
        yield f"<div>{page.heading('Reliability: confidence across, accuracy up', 3)}{curve(each.bins)}</div>"
    yield "</div>"
    mistakes = each.mistakes(_MISTAKES)
    if mistakes:
        yield page.heading("The most confident mistakes" if each.bins else "Mistakes", 3)
        yield page.table(("text", "answer", "gold", "confidence"), map(_mistake, mistakes), texts=3)


def _mistake(row: Judged) -> list[str]:
    confidence = "–" if row.confidence is None else f"{row.confidence:.3f}"
    return [_cut(row.text), NO_ANSWER if row.answer is None else row.answer, row.gold, confidence]


def _confusion(each: Evaluation) -> str:
    """Counts by gold and answer; the labels beyond the most frequent ones are taken together."""
    shown = each.labels[:_LABELS]
    names = [*shown, "(others)"] if len(each.labels) > _LABELS else shown
    counts = dict.fromkeys(((gold, answer) for gold in names for answer in names), 0)
    for (gold, answer), n in each.confusion.items():
        counts[tuple(label if label in shown else "(others)" for label in (gold, answer))] += n  # type: ignore[index]
    golds = [name for name in names if any(counts[name, answer] for answer in names)]
    return page.table(("", *names), ([gold, *(f"{counts[gold, answer]:,}" for answer in names)] for gold in golds))


def _cut(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
