"""How many inputs are left to a condition, when others have been asked: an abstract statement, and its rows' survival.

Rows of a relation survive the filters on it, and joins where a row of the other side survives for them. Shares are taken as
independent unless a condition says how many rows have a partner. Counts are worked out for many sets of asked conditions at
once, a set being the bits of a number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quail_engine.plan.cost import Length, PromptParts

Counts = NDArray[np.float64]
Masks = NDArray[np.int64]


@dataclass(frozen=True)
class Text:
    """An expression that conditions ask about."""

    relation: int
    distinct: float
    length: Length


@dataclass(frozen=True)
class Link:
    """Two relations that conditions join which ask nothing."""

    one: int
    other: int
    pairs: float  # of rows


@dataclass(frozen=True)
class Condition:
    """A filter on one relation, or a join of two."""

    prompt: PromptParts
    texts: tuple[int, ...]  # one a relation, in the prompt's order: of a join the anchor's and the partner's
    selectivity: float
    pairs: float = 0.0  # of a join: pairs before anything is asked
    leading: object = None  # what its prompts begin with: right behind a condition with an equal one it reads that KV
    matched: tuple[float, float] | None = None  # share of rows of either side with a TRUE pair; None: by chance


@dataclass(frozen=True)
class Instance:
    rows: tuple[float, ...]  # by relation
    texts: tuple[Text, ...]
    conditions: tuple[Condition, ...]
    links: tuple[Link, ...] = ()

    def relations(self, condition: int) -> tuple[int, ...]:
        return tuple(self.texts[text].relation for text in self.conditions[condition].texts)


@dataclass(frozen=True)
class _Edge:
    """Two relations, one < other, that something joins."""

    one: int
    other: int
    pairs: float
    linked: bool  # also before anything is asked
    joins: tuple[int, ...]  # conditions

    def across(self, relation: int) -> int:
        return self.other if relation == self.one else self.one


class Survival:
    """Counts of one instance after each of several sets of asked conditions."""

    def __init__(self, instance: Instance, asked: Masks) -> None:
        self._instance = instance
        self._edges = _edges(instance)
        self._filters: list[list[int]] = [[] for _ in instance.rows]
        self._asked = [(asked >> number & 1).astype(bool) for number in range(len(instance.conditions))]
        self._known: dict[tuple[_Edge, int, _Tree], Counts] = {}
        for number in range(len(instance.conditions)):
            if len(relations := instance.relations(number)) == 1:
                self._filters[relations[0]].append(number)
        self._ones = np.ones(len(asked))

    def inputs(self, condition: int) -> tuple[Counts, ...]:
        """Different first texts, and for a join different pairs, that a condition would be asked about."""
        of, relations = self._instance.conditions[condition], self._instance.relations(condition)
        if len(relations) == 1:
            return (self.texts(of.texts[0]),)
        edge = next(e for e in self._edges if {e.one, e.other} == set(relations))
        sides = [self._left(relation, self._tree(relation, {edge.across(relation)})) for relation in relations]
        pairs = of.pairs * sides[0] * sides[1] * self._share_true(edge)
        first, second = (
            self._distinct(text, mine * self._reached(edge, relation, other))
            for text, relation, mine, other in zip(of.texts, relations, sides, reversed(sides), strict=True)
        )
        return first, np.minimum(pairs, first * second)

    def texts(self, text: int) -> Counts:
        """Different texts of an expression on the rows that are left."""
        relation = self._instance.texts[text].relation
        return self._distinct(text, self._left(relation, self._tree(relation, set())))

    def _tree(self, relation: int, seen: set[int]) -> _Tree:
        """The relations that reach this one and are not `seen`, each by one way, direct neighbours directly; adds to `seen`."""
        seen.add(relation)
        direct = [edge for edge in self._edges if relation in (edge.one, edge.other) and edge.across(relation) not in seen]
        seen.update(edge.across(relation) for edge in direct)
        return tuple((edge, self._tree(edge.across(relation), seen)) for edge in direct)

    def _left(self, relation: int, tree: _Tree) -> Counts:
        """Share of a relation's rows that are left by its filters and by what reaches it."""
        share = self._ones
        for number in self._filters[relation]:
            share = np.where(self._asked[number], share * self._instance.conditions[number].selectivity, share)
        for edge, below in tree:
            key = (edge, relation, below)
            if key not in self._known:
                self._known[key] = self._reached(edge, relation, self._left(edge.across(relation), below))
            share = share * self._known[key]
        return share

    def _reached(self, edge: _Edge, relation: int, other: Counts) -> Counts:
        """Share of a relation's rows that have a row of the other side left, `other` being the share of these."""
        conditions = self._instance.conditions
        exists, share = np.full(len(other), edge.linked), self._ones
        for number in edge.joins:
            exists = exists | self._asked[number]
            if matched := conditions[number].matched:
                side = matched[self._instance.relations(number).index(relation)]
                share = np.where(self._asked[number], share * side, share)
        if not any(conditions[number].matched for number in edge.joins):
            partners = max(1.0, edge.pairs / max(1e-9, self._instance.rows[relation]))
            share = 1 - (1 - np.minimum(1.0, self._share_true(edge) * other)) ** partners
        return np.where(exists, share, 1.0)

    def _share_true(self, edge: _Edge) -> Counts:
        """Share of an edge's pairs for which the joins that were asked are TRUE."""
        share = self._ones
        for number in edge.joins:
            share = np.where(self._asked[number], share * self._instance.conditions[number].selectivity, share)
        return share

    def _distinct(self, text: int, share: Counts) -> Counts:
        """Different texts on a random share of the rows (Cardenas)."""
        of = self._instance.texts[text]
        repeats = max(1.0, self._instance.rows[of.relation] / max(1e-9, of.distinct))
        found: Counts = of.distinct * (1 - (1 - np.minimum(1.0, share)) ** repeats)
        return found


_Tree = tuple[tuple[_Edge, "_Tree"], ...]


def _edges(instance: Instance) -> tuple[_Edge, ...]:
    found: dict[tuple[int, int], _Edge] = {}
    for link in instance.links:
        ends = min(link.one, link.other), max(link.one, link.other)
        found[ends] = _Edge(*ends, link.pairs, linked=True, joins=())
    for number, condition in enumerate(instance.conditions):
        relations = instance.relations(number)
        if len(relations) == 2:
            ends = min(relations), max(relations)
            edge = found.get(ends) or _Edge(*ends, condition.pairs, linked=False, joins=())
            found[ends] = replace(edge, joins=(*edge.joins, number))
    return tuple(found[ends] for ends in sorted(found))
