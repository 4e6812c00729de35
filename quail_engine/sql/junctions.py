"""ORs, and ANDs inside expressions, of which several operands ask: one that decides the whole makes the others needless.

They may stand anywhere; a row that a TRUE operand of an OR decides comes out the same whatever the others would say. Operands
are those in which NULL never turns into a value that an answer would change, so that one that is not NULL is final. Where a
select list sees groups, a call may have to be that of GROUP BY, to the byte, and nothing is ordered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from quail_engine.sql.aliases import item_of
from quail_engine.sql.conjuncts import Conjunction, Passes, RowSpace, conjunct_of, is_free, row_space
from quail_engine.sql.dialect import AiFunction, has_span
from quail_engine.sql.guards import at_root, grouped, guard_of
from quail_engine.sql.scopes import Clause, Place, holds_ai, is_of_item, operands, place_of
from quail_engine.sql.source import Source

# NULL in gives NULL out, or, as in Kleene's AND and OR, a value that no answer would change.
_MONOTONE = (exp.And, exp.Or, exp.Not, exp.Paren, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ, exp.Between)


def find_junctions(
    tree: exp.Expr, nodes: Sequence[AiFunction], stop_early: Sequence[bool], source: Source
) -> tuple[Conjunction, ...]:
    """The ORs and inner ANDs whose order of asking is free. `stop_early`: calls of which one TRUE a group is enough."""
    found = []
    for node in tree.find_all(exp.And, exp.Or):
        place = place_of(node)
        if _is_in_another(node) or (isinstance(node, exp.And) and at_root(node)) or not _may_be_ordered(node, place):
            continue
        passes = _passes(node)
        parts = [part for part in operands(node, type(node)) if holds_ai(part) and is_free(part)]
        parts = [part for part in parts if all(is_monotone(inner, part) for inner in part.find_all(AiFunction))]
        conjuncts = tuple(conjunct_of(part, nodes, passes) for part in parts)
        if len(conjuncts) > 1 and not any(stop_early[i] for conjunct in conjuncts for i in conjunct.calls):
            found.append(Conjunction(conjuncts, _space(node, place, passes, source), whole=False))
    return tuple(sorted(found, key=lambda junction: (junction.conjuncts[0].start, -junction.conjuncts[-1].end)))


def is_monotone(call: AiFunction, around: exp.Expr) -> bool:
    """Whether an expression that is not NULL while a call counts as NULL has that value whatever the call's answer is."""
    inner: exp.Expr | None = call
    while inner is not around and inner is not None:
        inner = inner.parent
        if not isinstance(inner, _MONOTONE):
            return False
    return True


def _passes(node: exp.Expr) -> Passes:
    """Of an AND inside of a clause's condition that is no operand of NOT or anything else, only whether it is TRUE matters."""
    if isinstance(node, exp.Or):
        return Passes.NOT_TRUE
    around = node.parent
    while isinstance(around, (exp.And, exp.Or, exp.Paren)):
        around = around.parent
    return Passes.TRUE if isinstance(around, (exp.Where, exp.Having, exp.Qualify, exp.Join)) else Passes.NOT_FALSE


def _is_in_another(node: exp.Expr) -> bool:
    """Whether it is a part of a longer chain of the same connective."""
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    return isinstance(around, type(node))


def _may_be_ordered(node: exp.Expr, place: Place) -> bool:
    scope = place.scope
    if not isinstance(scope, exp.Select) or node.find_ancestor(AiFunction) is not None:
        return False
    if place.clause in (Clause.ON, Clause.WHERE) or not (grouped(scope) or scope.args.get("distinct")):
        return True
    return not isinstance(node.find_ancestor(exp.AggFunc, exp.Filter, exp.Select), exp.Select)


def _space(node: exp.Expr, place: Place, passes: Passes, source: Source) -> RowSpace | None:
    """The rows on which SQL looks at all of the operands that ask."""
    select = place.scope
    assert isinstance(select, exp.Select), "what is ordered stands in a SELECT"
    where = select.args.get("where")
    if is_of_item(node):
        return None
    if place.clause not in (Clause.WHERE, Clause.SELECT) or (place.clause is Clause.SELECT and where and holds_ai(where.this)):
        return None
    around: exp.Expr = node
    while around.parent is not None and around.parent is not select:
        around = around.parent
    cheap = [part for part in operands(node, type(node)) if not holds_ai(part)]
    named = any(item_of(column) is not None for column in around.find_all(exp.Column))
    space = row_space(select)
    if space is None or named or around.find(exp.AggFunc, exp.Window, exp.Query) or not all(map(has_span, cheap)):
        return None
    guard = [g for g in [guard_of(node, source)] if g] + [f"({source.sql(part)}) {passes.value}" for part in cheap]
    return replace(space, guard=" AND ".join(guard))
