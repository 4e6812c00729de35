"""How many texts and pairs the AI conditions of one FROM clause would be asked about, before any of them is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from types import MappingProxyType

from quail_engine.sql import PairSpace, Query


@dataclass(frozen=True)
class Side:
    """The arguments of a condition that read one relation."""

    relation: str
    arguments: tuple[str, ...]  # SQL


@dataclass(frozen=True)
class SideCount:
    distinct: float
    text_bytes: float  # mean


@dataclass(frozen=True)
class JoinCounts:
    """Of the rows of a FROM clause where the conditions that ask nothing are TRUE, and those that ask are taken as TRUE."""

    sides: Mapping[Side, SideCount] = field(default_factory=lambda: MappingProxyType({}))
    pairs: Mapping[tuple[Side, Side], float] = field(default_factory=lambda: MappingProxyType({}))  # different ones

    def of(self, side: Side) -> SideCount:
        return self.sides.get(side, _UNKNOWN)

    def of_pair(self, one: Side, other: Side) -> float:
        """Different pairs of texts: all there could be, where nothing joins them; ten a text, where nobody counted."""
        known = self.pairs.get((one, other), self.pairs.get((other, one)))
        if known is not None:
            return known
        counted = one in self.sides and other in self.sides
        texts = self.of(one).distinct, self.of(other).distinct
        return texts[0] * texts[1] if counted else _PARTNERS * max(texts)


_UNKNOWN = SideCount(1_000, 400)
_PARTNERS = 10


def sides_of(query: Query, space: PairSpace) -> tuple[Side, ...] | None:
    """The sides of a condition, the anchor's first; None for an argument of several relations, or a call of more than two."""
    if space.outer is not None or not all(len(names) == 1 for names in space.relations):
        return None
    call = query.calls[space.call]
    by_relation: dict[str, list[str]] = {}
    arguments = sorted(range(len(call.arguments)), key=lambda i: i != call.question.anchor)
    for i in arguments:
        by_relation.setdefault(space.relations[i][0], []).append(call.arguments[i])
    sides = tuple(Side(relation, tuple(texts)) for relation, texts in by_relation.items())
    return sides if len(sides) <= 2 else None


def ordered_freely(query: Query) -> dict[int, tuple[Side, ...]] | None:
    """The sides of the query's AI conditions, by call, where they are of one FROM clause and their order is the planner's."""
    spaces = query.pair_spaces
    if len(spaces) < 2 or len({(s.source, s.conditions) for s in spaces}) > 1:
        return None
    found = {space.call: sides_of(query, space) for space in spaces}
    if any(query.calls[call].options.order == "as_written" for call in found):
        return None
    known = {call: sides for call, sides in found.items() if sides is not None}
    return known if len(known) == len(found) else None


def pairs_to_count(sides: Mapping[int, tuple[Side, ...]]) -> list[tuple[Side, Side]]:
    """Those of the joins, and one for every two relations besides, which something else may join."""
    found = [(of[0], of[1]) for of in sides.values() if len(of) == 2]
    first: dict[str, Side] = {}
    for of in sides.values():
        for side in of:
            first.setdefault(side.relation, side)
    joined = {frozenset((one.relation, other.relation)) for one, other in found}
    found += [pair for pair in combinations(first.values(), 2) if frozenset(s.relation for s in pair) not in joined]
    return list(dict.fromkeys(found))
