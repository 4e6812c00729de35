"""A plan as data: what is asked, of what, where, and what it costs. Printers read it; nothing here is formatted.

A number that nobody knows is None. Every other one is an `Estimate`, which says where it comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

from quail_engine.plan.statistics import Estimate, Source

TRUST = (Source.MEASURED, Source.CALCULATED, Source.SAMPLED, Source.HINTED, Source.REMEMBERED, Source.ASSUMED)
"""Where a number that follows from others comes from: the last of theirs in this order. None of them beats a count."""


@dataclass(frozen=True)
class Figures:
    """What a question meets and costs in one statement."""

    rows: Estimate | None = None  # on which SQL looks at the call; of an AI join, pairs
    inputs: Estimate | None = None  # different ones among them
    true: Estimate | None = None  # inputs for which it is TRUE; None also for what is no condition
    requests: Estimate | None = None  # sent to the model
    recalled: Estimate | None = None  # answered by the store
    overlong: Estimate | None = None
    tokens_fresh: Estimate | None = None  # prefilled
    tokens_reused: Estimate | None = None  # whose KV another request had computed
    kv_bytes: Estimate | None = None  # KV that the fresh tokens write
    seconds: Estimate | None = None  # in the engine

    def __add__(self, other: Figures) -> Figures:
        """Sums; of what one side does not know, neither does the sum."""
        return Figures(**{f.name: _sum(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)})


def _sum(one: Estimate | None, other: Estimate | None) -> Estimate | None:
    if one is None or other is None:
        return None
    return Estimate(one.value + other.value, weakest(one.source, other.source))


def weakest(*sources: Source) -> Source:
    """Where a number comes from that follows from others."""
    return max(sources, key=TRUST.index, default=Source.MEASURED)


@dataclass(frozen=True)
class Alternative:
    """What the plan could have done instead."""

    what: str
    requests: Estimate | None
    tokens_fresh: Estimate | None  # that it would prefill
    seconds: Estimate | None
    order: tuple[tuple[int, ...], ...] = ()  # conditions, by the numbers of their calls, where it is an order of them

    @property
    def named(self) -> str:
        """What it is, and whether the text has the conditions in this order."""
        return f"{self.what} (as written)" if self.order and list(self.order) == sorted(self.order) else self.what


@dataclass(frozen=True)
class Choice:
    """An order of conditions, and others that the plan could have taken."""

    chosen: Alternative
    rejected: tuple[Alternative, ...]  # the cheapest first; the order as written is among them, or was chosen
    why: str


@dataclass(frozen=True)
class CallNode:
    """One AI call: what it asks, where SQL looks at it, and what that comes to."""

    call: int  # index of the call in the statement, in the order of its text
    function: str  # AI_FILTER, …
    question: str  # the template, with the labels where they are constant
    labels: str  # SQL of a column that holds each row's labels; empty: there is none
    model: str
    arguments: tuple[str, ...]  # SQL of each; none: the call is constant
    guard: str = ""  # SQL: only where this is TRUE
    group: tuple[str, ...] | None = None  # SQL: until one is TRUE for each of these
    depends: tuple[str, ...] = ()  # SQL: relations that are joined first
    level: int = 0
    anchor: int | None = None  # argument whose KV its partners share; None where one relation is read
    chosen: str = ""  # SQL of a text that the call asks whether it is the chosen label: a pair's question, rewritten
    decision: str = ""  # what decides where the question has labelled rows
    same_as: int | None = None  # an earlier call that asks the same, and is counted there
    selectivity: Estimate | None = None  # share of inputs for which it is TRUE, as estimated; None: it is no condition
    estimate: Figures = field(default_factory=Figures)
    happened: Figures | None = None  # None: the statement was not run
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True)
class AskNode:
    """A condition that is asked before the statement runs: its inputs are listed, and its answers joined."""

    operator: str  # AiFilter: on one relation; AiJoin: on pairs
    call: CallNode
    source: str  # SQL that lists the inputs
    table: str  # name of the answers that are TRUE
    on_kv: bool = False  # asked with the step before, where that is TRUE, on its KV


@dataclass(frozen=True)
class FirstRowsNode:
    """A LIMIT that stops as soon as it has its rows."""

    rows: int
    offset: int
    ordered: bool
    calls: tuple[CallNode, ...]


@dataclass(frozen=True)
class RoundsNode:
    """Calls that are looked up where they stand: the statement runs, what is missing is asked, and it runs again."""

    levels: int
    calls: tuple[CallNode, ...]  # in the order of their levels
    orders: tuple[tuple[tuple[int, ...], ...], ...]  # conditions, by the numbers of their calls, asked one after the other
    together: tuple[TogetherNode, ...] = ()
    passes: tuple[str, ...] = ()  # for each order, what a condition must be for the next to be asked: IS TRUE, IS NOT TRUE, …


@dataclass(frozen=True)
class TogetherNode:
    """Conditions of one of the orders that share the KV of their text."""

    conditions: tuple[tuple[int, ...], ...]  # by the numbers of their calls
    cascades: bool  # each is asked where those before it pass; False: at once
    passes: str  # what that means: `IS TRUE`, or in an OR `IS NOT TRUE`
    chosen: Alternative
    apart: Alternative  # were the text prefilled for each
    otherwise: Alternative | None  # at once where they cascade, else each where those before it pass; None: they cannot

    @property
    def rejected(self) -> tuple[Alternative, ...]:
        return (self.apart, self.otherwise) if self.otherwise else (self.apart,)


@dataclass(frozen=True)
class ShownRowsNode:
    """Calls that are asked about the rows that come out, and no others."""

    calls: tuple[CallNode, ...]


Node = AskNode | FirstRowsNode | RoundsNode | ShownRowsNode


@dataclass(frozen=True)
class Layout:
    """How a model's prompts are laid out, which decides what they can share."""

    model: str
    name: str  # profile and version
    shares_texts: bool  # a text's KV serves all questions about it; else a question's KV serves all texts


@dataclass(frozen=True)
class PlanTree:
    model: str
    nodes: tuple[Node, ...]  # in the order in which they are worked on
    layouts: tuple[Layout, ...] = ()  # of the models that are asked; empty where they are not here
    notes: tuple[str, ...] = ()  # what a reader should know of the numbers
    estimated: bool = False  # whether inputs were counted; else the figures are those of nothing
    choices: tuple[Choice, ...] = ()

    def beside(self, happened: Sequence[Figures]) -> PlanTree:
        """The tree with what happened, by call, beside what was estimated."""

        def with_it(node: Node) -> Node:
            if isinstance(node, AskNode):
                return replace(node, call=replace(node.call, happened=happened[node.call.call]))
            return replace(node, calls=tuple(replace(call, happened=happened[call.call]) for call in node.calls))

        return replace(self, nodes=tuple(map(with_it, self.nodes)))

    @property
    def calls(self) -> Iterator[CallNode]:
        for node in self.nodes:
            yield from (node.call,) if isinstance(node, AskNode) else node.calls

    @property
    def estimate(self) -> Figures:
        """The whole statement's."""
        return total(call.estimate for call in self.calls if call.same_as is None)

    @property
    def happened(self) -> Figures | None:
        found = [call.happened for call in self.calls if call.same_as is None and call.happened]
        return total(found) if found else None


def total(figures: Iterable[Figures]) -> Figures:
    """The sum; zeros of nothing. TRUE inputs of different questions are no sum."""
    zero = Estimate(0, Source.MEASURED)
    summed = Figures(**{f.name: zero for f in fields(Figures)})
    for each in figures:
        summed += each
    return Figures(**{f.name: None if f.name == "true" else getattr(summed, f.name) for f in fields(Figures)})
