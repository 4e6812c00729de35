"""LIMIT without ORDER BY: when a query may stop as soon as it has its rows, though some questions are open.

Sound where a row that is kept while open questions count as NULL is kept whatever their answers are: between the calls and
the LIMIT stand only conditions in which NULL never turns into TRUE, and joins that never fill in NULLs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from quail_engine.sql.dialect import AiFunction
from quail_engine.sql.pairs import joins_only_drop
from quail_engine.sql.scopes import Clause, place_of

# NULL in gives NULL out, or, as in Kleene's AND and OR, a value that no answer would change.
_MONOTONE = (exp.And, exp.Or, exp.Not, exp.Paren, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ, exp.Between)
_ALL_ROWS = ("order", "group", "having", "qualify", "distinct", "windows", "sample")


@dataclass(frozen=True)
class RowLimit:
    rows: int  # LIMIT; OFFSET rows have to be certain as well, and DuckDB skips them
    offset: int
    calls: tuple[int, ...]  # indexes of the calls that decide which rows there are; the others are asked of the rows that stay


def find_limit(tree: exp.Expr, nodes: Sequence[AiFunction]) -> RowLimit | None:
    """The limit at which a query may stop early; None where it needs all rows."""
    while isinstance(tree, exp.Subquery) and not any(tree.args.get(key) for key in ("limit", "offset", "order")):
        tree = tree.this
    if not isinstance(tree, exp.Select) or any(tree.args.get(key) for key in _ALL_ROWS) or not joins_only_drop(tree):
        return None
    rows, offset = _number(tree.args.get("limit")), _number(tree.args.get("offset"))
    if not rows or (offset is None and tree.args.get("offset") is not None):
        return None
    if any(a.find_ancestor(exp.Select) is tree for a in tree.find_all(exp.AggFunc, exp.Window)):
        return None
    deciding = [i for i, node in enumerate(nodes) if not _in_select_list(node, tree)]
    if not deciding or not all(_decides_alone(nodes[i], tree) for i in deciding):
        return None
    return RowLimit(rows, offset or 0, tuple(deciding))


def _number(clause: exp.Expr | None) -> int | None:
    value = clause.expression if clause is not None else None
    return int(value.this) if isinstance(value, exp.Literal) and value.is_int else None


def _in_select_list(node: AiFunction, select: exp.Select) -> bool:
    place = place_of(node)
    return place.scope is select and place.clause is Clause.SELECT


def _decides_alone(node: AiFunction, select: exp.Select) -> bool:
    """Whether a call stands in WHERE or an inner join's ON, under nothing that turns NULL into TRUE."""
    place = place_of(node)
    if place.scope is not select or place.clause not in (Clause.WHERE, Clause.ON):
        return False
    if place.join is not None and (place.join.args.get("side") or str(place.join.args.get("kind") or "INNER") != "INNER"):
        return False
    around = node.parent
    while isinstance(around, _MONOTONE):
        around = around.parent
    return isinstance(around, (exp.Where, exp.Join))
