"""A query, and the register of the positions in which an AI call may stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bound import Site
from expressions import Expression
from grammar import Scope, Writer


@dataclass(frozen=True)
class Query:
    text: str
    sites: tuple[Site, ...]
    ordered: bool = False  # ORDER BY fixes the order of its rows
    unlimited: str = ""  # the same query without its LIMIT, where that decides which rows come


Skeleton = Callable[[Writer], Query]
POSITIONS: dict[str, tuple[Skeleton, int]] = {}
"""By name: the skeleton, and how many of its expressions must ask."""


def position(name: str, asks: int = 1) -> Callable[[Skeleton], Skeleton]:
    def add(skeleton: Skeleton) -> Skeleton:
        POSITIONS[name] = (skeleton, asks)
        return skeleton

    return add


def sites_of(scope: Scope, name: str, *expressions: Expression | None) -> list[Site]:
    return [scope.site(name, expression) for expression in expressions if expression]
