"""A query, and the register of the positions in which an AI call may stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bound import Site
from expressions import Expression
from grammar import JOINS, Scope, Writer


@dataclass(frozen=True)
class Query:
    text: str
    sites: tuple[Site, ...]
    ordered: bool = False  # ORDER BY fixes the order of its rows
    unlimited: str = ""  # the same query without its LIMIT, where that decides which rows come
    reads: str = ""  # for a statement that writes: the query that shows what it wrote


Skeleton = Callable[[Writer], Query]


@dataclass(frozen=True)
class Position:
    skeleton: Skeleton
    asks: int  # how many of its expressions must ask
    joins: tuple[str, ...]  # the joins that its first scope may have


POSITIONS: dict[str, Position] = {}


def position(name: str, asks: int = 1, joins: Sequence[str] = JOINS) -> Callable[[Skeleton], Skeleton]:
    def add(skeleton: Skeleton) -> Skeleton:
        POSITIONS[name] = Position(skeleton, asks, tuple(joins))
        return skeleton

    return add


def sites_of(scope: Scope, name: str, *expressions: Expression | None) -> list[Site]:
    return [scope.site(name, expression) for expression in expressions if expression]
