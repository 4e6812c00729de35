"""A plan's tree as plain data, for JSON. The schema is documented in docs/explain.md; a change of it raises VERSION."""

from __future__ import annotations

from dataclasses import fields
from functools import singledispatch
from typing import Any

from quail_engine.plan.statistics import Estimate
from quail_engine.plan.text import error_factor
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
    TogetherNode,
)

VERSION = 2


@singledispatch
def as_data(value: Any) -> Any:
    """Plain values of a tree or a part of it; what is not known is None."""
    return value


@as_data.register
def _(tree: PlanTree) -> dict[str, Any]:
    return {
        "version": VERSION,
        "model": tree.model,
        "layouts": [as_data(layout) for layout in tree.layouts],
        "steps": [as_data(node) for node in tree.nodes],
        "estimate": as_data(tree.estimate) if tree.estimated else None,
        "happened": as_data(tree.happened),
        "choices": [as_data(choice) for choice in tree.choices],
        "notes": list(tree.notes),
    }


@as_data.register
def _(layout: Layout) -> dict[str, Any]:
    return {"model": layout.model, "name": layout.name, "shares": "texts" if layout.shares_texts else "questions"}


@as_data.register
def _(node: AskNode) -> dict[str, Any]:
    source = {"source": node.source, "table": node.table, "on_kv": node.on_kv}
    return {"operator": node.operator, **source, "calls": [as_data(node.call)]}


@as_data.register
def _(node: FirstRowsNode) -> dict[str, Any]:
    limit = {"rows": node.rows, "offset": node.offset, "ordered": node.ordered}
    return {"operator": "FirstRows", **limit, "calls": [as_data(call) for call in node.calls]}


@as_data.register
def _(node: RoundsNode) -> dict[str, Any]:
    orders = [[list(condition) for condition in order] for order in node.orders]
    together, calls = [as_data(step) for step in node.together], [as_data(call) for call in node.calls]
    lists = {"orders": orders, "passes": list(node.passes), "together": together, "calls": calls}
    return {"operator": "Rounds", "levels": node.levels, **lists}


@as_data.register
def _(step: TogetherNode) -> dict[str, Any]:
    conditions = [list(condition) for condition in step.conditions]
    tokens, apart = as_data(step.chosen.tokens_fresh), as_data(step.apart.tokens_fresh)
    ways = {"chosen": as_data(step.chosen), "rejected": [as_data(way) for way in step.rejected]}
    return {"conditions": conditions, "cascades": step.cascades, "tokens_fresh": tokens, "tokens_apart": apart, **ways}


@as_data.register
def _(node: ShownRowsNode) -> dict[str, Any]:
    return {"operator": "ShownRows", "calls": [as_data(call) for call in node.calls]}


@as_data.register
def _(call: CallNode) -> dict[str, Any]:
    return {
        "call": call.call,
        "function": call.function,
        "question": call.question,
        "labels": call.labels or None,
        "chosen": call.chosen or None,
        "model": call.model,
        "arguments": list(call.arguments),
        "anchor": call.anchor,
        "guard": call.guard or None,
        "group": None if call.group is None else list(call.group),
        "depends": list(call.depends),
        "level": call.level,
        "same_as": call.same_as,
        "selectivity": as_data(call.selectivity),
        "decision": call.decision or None,
        "estimate": as_data(call.estimate),
        "happened": as_data(call.happened),
        "error_factor": None if call.happened is None else _factors(call.estimate, call.happened),
        "alternatives": [as_data(alternative) for alternative in call.alternatives],
    }


@as_data.register
def _(figures: Figures) -> dict[str, Any]:
    return {f.name: as_data(getattr(figures, f.name)) for f in fields(figures)}


@as_data.register
def _(estimate: Estimate) -> dict[str, Any]:
    whole = float(estimate.value).is_integer()
    return {"value": int(estimate.value) if whole else estimate.value, "source": estimate.source.value}


@as_data.register
def _(alternative: Alternative) -> dict[str, Any]:
    requests, tokens, seconds = map(as_data, (alternative.requests, alternative.tokens_fresh, alternative.seconds))
    return {"what": alternative.what, "requests": requests, "tokens_fresh": tokens, "seconds": seconds}


@as_data.register
def _(choice: Choice) -> dict[str, Any]:
    return {"chosen": _order(choice.chosen), "rejected": [_order(way) for way in choice.rejected], "why": choice.why}


def _order(way: Alternative) -> dict[str, Any]:
    return {"order": [list(condition) for condition in way.order], **as_data(way)}


def _factors(estimate: Figures, happened: Figures) -> dict[str, float | None]:
    return {f.name: error_factor(getattr(estimate, f.name), getattr(happened, f.name)) for f in fields(Figures)}
