"""LIMIT: when a query may stop as soon as it has its rows, though some questions are open.

Sound where a row that is kept while open questions count as NULL is kept whatever their answers are: between the calls and
the LIMIT stand only conditions in which NULL never turns into TRUE, and joins that never fill in NULLs. ORDER BY may stand
there when it holds no AI call: then the first rows in that order that are not yet refused are the only ones to ask about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from quail_engine.sql.aliases import item_of
from quail_engine.sql.dialect import AiFunction, has_span, span
from quail_engine.sql.pairs import joins_only_drop
from quail_engine.sql.scopes import Clause, holds_ai, is_inner, operands, place_of

# NULL in gives NULL out, or, as in Kleene's AND and OR, a value that no answer would change.
_MONOTONE = (exp.And, exp.Or, exp.Not, exp.Paren, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ, exp.Between)
_ALL_ROWS = ("group", "having", "qualify", "distinct", "windows", "sample")


@dataclass(frozen=True)
class Conjunct:
    """A condition of WHERE or of an inner join's ON that holds AI calls."""

    start: int
    end: int
    calls: tuple[int, ...]  # indexes of its calls, in text order


@dataclass(frozen=True)
class RowLimit:
    """A query that needs `rows` rows after `offset`. Positions are offsets into the query's text."""

    rows: int
    offset: int
    conjuncts: tuple[Conjunct, ...]
    items_end: int  # where the select list ends
    tail: int  # where LIMIT (or an OFFSET before it) begins
    ordered: bool

    @property
    def calls(self) -> tuple[int, ...]:
        """The calls that decide which rows there are; the others are asked of the rows that stay."""
        return tuple(i for conjunct in self.conjuncts for i in conjunct.calls)


def find_limit(tree: exp.Expr, nodes: Sequence[AiFunction]) -> RowLimit | None:
    """The limit at which a query may stop early; None where it needs all rows."""
    if not isinstance(tree, exp.Select) or any(tree.args.get(key) for key in _ALL_ROWS) or not joins_only_drop(tree):
        return None
    rows, offset = _number(tree.args.get("limit")), _number(tree.args.get("offset"))
    if not rows or (offset is None and tree.args.get("offset") is not None):
        return None
    if _may_aggregate(tree) or not _order_is_known(tree):
        return None
    deciding = [node for node in nodes if not _in_select_list(node, tree)]
    conjuncts = _conjuncts(tree, nodes)
    items = tree.expressions
    if not deciding or conjuncts is None or not items or not has_span(items[-1]):
        return None
    if sum(len(c.calls) for c in conjuncts) != len(deciding):
        return None
    tail = min(span(tree.args[key])[0] for key in ("limit", "offset") if tree.args.get(key) is not None)
    return RowLimit(rows, offset or 0, conjuncts, span(items[-1])[1], tail, tree.args.get("order") is not None)


def _number(clause: exp.Expr | None) -> int | None:
    value = clause.expression if clause is not None else None
    plain = isinstance(value, exp.Literal) and value.is_int and not (clause and clause.args.get("limit_options"))
    return int(value.this) if plain and value is not None else None


def _order_is_known(select: exp.Select) -> bool:
    """Whether ORDER BY, if there is one, neither holds nor names an AI call, by alias, number or ALL."""
    order = select.args.get("order")
    if order is None:
        return True
    numbered = any(isinstance(key.this, (exp.Literal, exp.Var)) for key in order.expressions)
    return not holds_ai(order) and not (numbered and any(map(holds_ai, select.expressions)))


def _may_aggregate(select: exp.Select) -> bool:
    """Whether an item may need all rows: an aggregate, a window, or a function that sqlglot does not know."""
    found = (a for item in select.expressions for a in item.find_all(exp.AggFunc, exp.Window, exp.Anonymous))
    return any(a.find_ancestor(exp.Select) is select and a.find_ancestor(AiFunction) is None for a in found)


def _in_select_list(node: AiFunction, select: exp.Select) -> bool:
    place = place_of(node)
    return place.scope is select and place.clause is Clause.SELECT


def _conjuncts(select: exp.Select, nodes: Sequence[AiFunction]) -> tuple[Conjunct, ...] | None:
    """The conditions that ask; None when one of them could turn an open question into TRUE."""
    conditions = [select.args["where"].this] if select.args.get("where") is not None else []
    for join in select.args.get("joins") or ():
        on = join.args.get("on")
        if holds_ai(on) and not is_inner(join):
            return None
        conditions += [on] if on is not None else []
    found = []
    for part in (operand for condition in conditions for operand in operands(condition, exp.And) if holds_ai(operand)):
        calls = tuple(i for i, node in enumerate(nodes) if any(node is inner for inner in part.find_all(AiFunction)))
        named = any(holds_ai(item_of(column)) for column in part.find_all(exp.Column))
        if named or not has_span(part) or not all(_monotone(nodes[i], part) for i in calls):
            return None
        found.append(Conjunct(*span(part), calls))
    return tuple(found)


def _monotone(node: AiFunction, conjunct: exp.Expr) -> bool:
    around: exp.Expr | None = node
    while around is not conjunct and around is not None:
        around = around.parent
        if not isinstance(around, _MONOTONE):
            return False
    return True
