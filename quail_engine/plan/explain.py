"""From the physical plan to the tree that people read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch

from quail_engine.calls import AiCall, Kind
from quail_engine.plan.physical import AskStep, FirstRows, PhysicalPlan, Rounds
from quail_engine.plan.statistics import Estimate, Source
from quail_engine.plan.together import Together
from quail_engine.plan.tree import (
    Alternative,
    AskNode,
    CallNode,
    Choice,
    Figures,
    FirstRowsNode,
    Layout,
    Node,
    PlanTree,
    RoundsNode,
    ShownRowsNode,
    TogetherNode,
    total,
    weakest,
)
from quail_engine.sql import PIN

_FUNCTIONS = {
    Kind.FILTER: "AI_FILTER",
    Kind.SCORE: "AI_SCORE",
    Kind.CLASSIFY: "AI_CLASSIFY",
    Kind.CLASSIFY_SCORES: "AI_CLASSIFY_SCORES",
}


@dataclass(frozen=True)
class Counted:
    """What was found out about one call of a plan."""

    estimate: Figures = field(default_factory=Figures)
    selectivity: Estimate | None = None
    decision: str = ""
    same_as: int | None = None
    alternatives: tuple[Alternative, ...] = ()
    happened: Figures | None = None


@dataclass(frozen=True)
class Found:
    """What was found out about a plan; of nothing, it prints as the plan alone."""

    calls: Mapping[int, Counted] = field(default_factory=dict)  # by the call's index
    layouts: tuple[Layout, ...] = ()
    notes: tuple[str, ...] = ()
    estimated: bool = False
    choices: tuple[Choice, ...] = ()


def explain(plan: PhysicalPlan, calls: Sequence[AiCall], model: str, found: Found | None = None) -> PlanTree:
    """What is asked of which model, in which order, and what is left to DuckDB. `model` answers where a call names none."""
    found = found or Found()
    nodes = [_call_node(i, call, model, found.calls.get(i, Counted())) for i, call in enumerate(calls)]
    steps = [*plan.asks, *([plan.first] if plan.first else []), plan.rounds]
    ordered = [*(node for step in steps for node in _nodes(step, nodes)), *_shown(plan.first, nodes)]
    return PlanTree(model, tuple(ordered), found.layouts, found.notes, found.estimated, found.choices)


def _call_node(index: int, call: AiCall, model: str, counted: Counted) -> CallNode:
    return CallNode(
        call=index,
        function=_FUNCTIONS[call.kind],
        question=call.question.title,
        labels=call.labels_argument,
        chosen=call.chosen,
        model=call.options.model or model,
        arguments=call.arguments,
        guard=call.guard,
        group=call.group,
        depends=tuple(column for column in call.depends if column != PIN),
        level=call.level,
        decision=counted.decision,
        same_as=counted.same_as,
        selectivity=counted.selectivity,
        estimate=counted.estimate,
        happened=counted.happened,
        alternatives=counted.alternatives,
    )


@singledispatch
def _nodes(step: object, calls: Sequence[CallNode]) -> Iterator[Node]:
    raise NotImplementedError(type(step).__name__)


@_nodes.register
def _(step: AskStep, calls: Sequence[CallNode]) -> Iterator[Node]:
    operator = "AiFilter" if step.ask.anchor is None else "AiJoin"
    # Listing the inputs takes the place of the guard.
    call = replace(calls[step.ask.call], anchor=step.ask.anchor, guard="", depends=())
    yield AskNode(operator, call, step.source.sql, step.table.name, step.on_kv)


@_nodes.register
def _(step: FirstRows, calls: Sequence[CallNode]) -> Iterator[Node]:
    limit = step.limit
    if limit.conjuncts:
        yield FirstRowsNode(limit.rows, limit.offset, limit.ordered, tuple(calls[i] for i in limit.deciding))


@_nodes.register
def _(rounds: Rounds, calls: Sequence[CallNode]) -> Iterator[Node]:
    if rounds.levels:
        by_level = tuple(sorted((calls[i] for i in rounds.calls), key=lambda call: call.level))
        orders = tuple(tuple(conjunct.calls for conjunct in order) for order in rounds.orders)
        passes = tuple(order[0].passes.value for order in rounds.orders)
        yield RoundsNode(rounds.levels, by_level, orders, tuple(_together(step, calls) for step in rounds.together), passes)


def _together(step: Together, calls: Sequence[CallNode]) -> TogetherNode:
    """Its ways are priced as planned, and where the plan is forecast, by what the chosen one comes to there."""
    asked, at_once = sum(step.shares), float(len(step.shares))
    # Apart, too, each is asked where those before it pass; at once all are asked of the first one's texts.
    requests = asked if step.cascades else at_once
    priced = _priced(step, [calls[i].estimate for conjunct in step.conditions for i in conjunct.calls], requests)
    names = {True: "each where the one before passes, on its KV", False: "all at once, on one KV"}
    other = (
        priced(names[not step.cascades], step.tokens_else, at_once if step.cascades else asked) if step.tokens_else else None
    )
    return TogetherNode(
        tuple(conjunct.calls for conjunct in step.conditions),
        step.cascades,
        step.conditions[0].passes.value,
        priced(names[step.cascades], step.tokens, requests),
        priced("the text anew for each", step.tokens_apart, asked),
        other,
    )


def _priced(step: Together, figures: Sequence[Figures], planned: float) -> Callable[[str, float, float], Alternative]:
    """Prices a way by its planned tokens and requests, those of the chosen one being `step.tokens` and `planned`."""
    forecast = total(figures)

    def priced(what: str, tokens: float, requests: float) -> Alternative:
        if not forecast.tokens_fresh or not forecast.tokens_fresh.value:
            return Alternative(what, None, Estimate(round(tokens), Source.ASSUMED), None)
        times = tokens / step.tokens
        return Alternative(
            what,
            _times(forecast.requests, requests / planned, whole=True),
            _times(forecast.tokens_fresh, times, whole=True),
            _times(forecast.seconds, times, whole=False),
        )

    return priced


def _times(figure: Estimate | None, factor: float, whole: bool) -> Estimate | None:
    if figure is None or factor == 1:
        return figure
    value = figure.value * factor
    return Estimate(round(value) if whole else value, weakest(figure.source, Source.CALCULATED))


def _shown(step: FirstRows | None, calls: Sequence[CallNode]) -> Iterator[Node]:
    """What is asked last, since it changes no row."""
    if step and step.limit.shown:
        yield ShownRowsNode(tuple(replace(calls[s.call], guard=s.guard, depends=()) for s in step.limit.shown))
