"""What a whole run would ask: the plans of its nodes, in the order in which they run, as data, as a table and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quail_engine.plan import Figures, PlanTree, as_data, total
from quail_engine.plan_page import plan_page
from quail_engine.progress import duration

VERSION = 1

COLUMNS = ("node", "kind", "rows from", "inputs", "requests", "recalled", "tokens", "seconds", "note")


NOTHING_ASKED = "No selected node has an AI call: nothing would be asked."


@dataclass(frozen=True)
class NodePlan:
    """The AI calls of one node before it runs."""

    node: str  # unique id
    kind: str  # materialization, or the kind of resource
    trees: tuple[PlanTree, ...]
    before: tuple[str, ...]  # nodes of the same run that it reads, whose rows may be others by then
    problem: str = ""  # why it could not be planned

    @property
    def estimate(self) -> Figures | None:
        """The node's figures; None where its inputs could not be counted."""
        known = bool(self.trees) and all(tree.estimated for tree in self.trees)
        return total(tree.estimate for tree in self.trees) if known else None

    @property
    def rows_from(self) -> str:
        """Which rows were counted: those that the run will read, or those that its last run left."""
        if self.estimate is None:
            return "unknown"
        return "the last run" if self.before else "now"

    @property
    def notes(self) -> tuple[str, ...]:
        notes = [self.problem] if self.problem else []
        return tuple(dict.fromkeys([*notes, *(note for tree in self.trees for note in tree.notes)]))


def run_plan_data(nodes: Sequence[NodePlan]) -> dict[str, Any]:
    """Plain values. `total` is that of the nodes that could be counted; `unknown` names the others."""
    known = [figures for node in nodes if (figures := node.estimate)]
    return {
        "version": VERSION,
        "nodes": [
            {
                "node": node.node,
                "kind": node.kind,
                "rows_from": node.rows_from,
                "before": list(node.before),
                "estimate": as_data(node.estimate),
                "notes": list(node.notes),
                "plans": [as_data(tree) for tree in node.trees],
            }
            for node in nodes
        ],
        "total": as_data(total(known)),
        "unknown": [node.node for node in nodes if node.estimate is None],
    }


def run_plan_rows(data: Mapping[str, Any]) -> Iterator[list[str]]:
    """Rows of a table with `COLUMNS`, a node each and the total."""
    for node in data["nodes"]:
        figures = node["estimate"] or {}
        yield [node["node"], node["kind"], node["rows_from"], *_amounts(figures), "; ".join(node["notes"])]
    unknown = len(data["unknown"])
    yield ["total", "", "", *_amounts(data["total"]), f"without {unknown} that are unknown" if unknown else ""]


def run_plan_text(data: Mapping[str, Any]) -> str:
    """The table in plain lines, for a log."""
    if not data["nodes"]:
        return NOTHING_ASKED
    rows = [list(COLUMNS), *run_plan_rows(data)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS) - 1)]
    return "\n".join("  ".join([*map(str.ljust, row, widths), row[-1]]).rstrip() for row in rows)


def run_plan_page(nodes: Sequence[NodePlan], title: str) -> str:
    """A page with the table of the run, and the picture of every node's plan."""
    data = run_plan_data(nodes)
    return plan_page(
        [tree for node in nodes for tree in node.trees],
        title,
        names=[node.node for node in nodes for _ in node.trees],
        summary=(COLUMNS, list(run_plan_rows(data))),
    )


def _amounts(figures: Mapping[str, Any]) -> Iterator[str]:
    for name in ("inputs", "requests", "recalled", "tokens_fresh", "seconds"):
        figure = figures.get(name)
        if figure is None:
            yield "unknown"
            continue
        value, certain = figure["value"], figure["source"] == "measured" or not figure["value"]
        yield ("" if certain else "≈ ") + (duration(value) if name == "seconds" else f"{value:,.0f}")
