"""AI conditions beside a join whose inputs can be listed by one query before any of them is asked.

An AI condition of inner joins is asked on what the other conditions leave: of pairs when it reads both sides, of rows when it
reads one. Listing them first lets the planner order them, and an answer table takes the place of a look-up a pair; a call
that does not fit the rules here stays a look-up, which is always right. Dropping a pair must never make a row appear: so no
join that fills in NULLs may come after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from quail_engine.calls import AiCall, Kind
from quail_engine.sql.aliases import item_of
from quail_engine.sql.dialect import AiFunction, has_span, span
from quail_engine.sql.scopes import Clause, holds_ai, is_inner, name_of, operands, place_of, table_of, visible_ctes
from quail_engine.sql.source import Source


@dataclass(frozen=True)
class PairSpace:
    """Where the inputs of an AI condition come from. Spans are offsets into the query's text."""

    call: int  # index of the call in the query
    ctes: tuple[tuple[int, int], ...]  # the CTEs that the join can read
    source: tuple[int, int]  # FROM and its joins
    conditions: tuple[tuple[int, int], ...]  # conjuncts of WHERE that hold no AI call, or are one
    one_sided: bool  # whether the call reads one relation only


def find_pair_spaces(
    tree: exp.Expr, nodes: Sequence[AiFunction], calls: Sequence[AiCall], source: Source
) -> tuple[PairSpace, ...]:
    """The pair spaces of a query's calls, in text order.

    A call waits for others only where these are conditions of the same joins: then the planner may order them as it likes.
    """
    spaces = [(node, _pair_space(i, node, call)) for i, (node, call) in enumerate(zip(nodes, calls, strict=True))]
    scopes = {space.call: place_of(node).scope for node, space in spaces if space is not None}

    def independent(call: int) -> bool:
        before = (i for i, other in enumerate(calls) if other.level < calls[call].level)
        return all(scopes.get(i) is scopes[call] for i in before)

    return tuple(space for _, space in spaces if space is not None and independent(space.call))


def _pair_space(index: int, node: AiFunction, call: AiCall) -> PairSpace | None:
    place = place_of(node)
    select = place.scope
    if call.kind is not Kind.FILTER or not call.arguments or not isinstance(select, exp.Select) or not select.args.get("joins"):
        return None
    condition = _condition_of(place.clause, place.join, select)
    if condition is None or not any(node is operand for operand in operands(condition, exp.And)):
        return None
    tables = {table_of(column) for column in node.find_all(exp.Column)}
    if "" in tables or not tables or _asks_inside(node) or not joins_only_drop(select):
        return None
    if any(item_of(column) is not None for column in _of_joins(select)):
        return None  # the listing has no select item that a condition could name
    ctes = _readable_ctes(select)
    where = select.args.get("where")
    conjuncts = operands(where.this, exp.And) if where is not None else []
    kept = [c for c in conjuncts if not holds_ai(c) or isinstance(c, AiFunction)]
    if ctes is None or not _only_conjuncts_ask(select) or not all(has_span(c) for c in kept):
        return None
    start, end = span(select.args["from_"])
    return PairSpace(
        call=index,
        ctes=tuple(span(cte) for cte in ctes),
        source=(start, max([end, *(span(join)[1] for join in select.args.get("joins") or ())])),
        conditions=tuple(span(c) for c in kept),
        one_sided=len(tables) == 1,
    )


def _asks_inside(node: AiFunction) -> bool:
    return any(holds_ai(argument) for argument in node.expressions)


def _of_joins(select: exp.Select) -> Iterator[exp.Column]:
    """The columns in FROM and WHERE."""
    parts = [select.args.get("from_"), select.args.get("where"), *(select.args.get("joins") or ())]
    return (column for part in parts if part is not None for column in part.find_all(exp.Column))


def _condition_of(clause: Clause, join: exp.Join | None, select: exp.Select) -> exp.Expr | None:
    """The whole condition that the call is a conjunct of: WHERE, or the ON of an inner join."""
    if clause is Clause.WHERE:
        return select.args["where"].this  # type: ignore[no-any-return]
    return join.args.get("on") if join is not None and is_inner(join) else None


def joins_only_drop(select: exp.Select) -> bool:
    """Whether no join fills in NULLs for rows of its left side's: no RIGHT, FULL, ASOF, POSITIONAL, NATURAL or lateral join."""
    source = select.args.get("from_")
    if source is None or not has_span(source) or select.args.get("laterals"):  # `FROM t` alone has no span
        return False
    for join in select.args.get("joins") or ():
        if join.args.get("method") or str(join.args.get("side") or "") not in ("", "LEFT"):
            return False
        if not has_span(join) or isinstance(join.this, (exp.Lateral, exp.Unnest)):
            return False
    return True


def _only_conjuncts_ask(select: exp.Select) -> bool:
    """Every AI call in FROM is itself a conjunct of an inner join's ON, so that TRUE in its place only adds pairs."""
    for join in select.args.get("joins") or ():
        on = join.args.get("on")
        asking = [operand for operand in operands(on, exp.And) if holds_ai(operand)] if on is not None else []
        if holds_ai(join.this) or not all(isinstance(operand, AiFunction) for operand in asking):
            return False
        if asking and not is_inner(join):
            return False
    return not holds_ai(select.args["from_"].this)


def _readable_ctes(select: exp.Select) -> list[exp.CTE] | None:
    """The CTEs that a listing can name; None where it would need one that asks, or FROM could read a row of an outer query."""
    node: exp.Expr | None = select
    while node is not None:
        if not _self_contained(node):
            return None
        node = node.parent
    ctes = visible_ctes(select)
    return None if ctes is None or _reads_ai(select, ctes) else [cte for cte in ctes if not holds_ai(cte)]


def _self_contained(node: exp.Expr) -> bool:
    """Whether a node on the way up cannot read rows of what is around it: not so for a subquery in an expression."""
    around = node.parent
    if isinstance(node, exp.Subquery) and around is not None:
        return isinstance(around, (exp.From, exp.SetOperation, exp.CTE, exp.Subquery))
    if isinstance(node, exp.Select):
        return around is None or isinstance(around, (exp.Subquery, exp.CTE, exp.SetOperation))
    return True


def _reads_ai(select: exp.Select, ctes: Sequence[exp.CTE]) -> bool:
    """Whether the scope's rows depend on a CTE that holds AI calls."""
    asking = {name_of(cte) for cte in ctes if holds_ai(cte)}
    for cte in ctes:
        if not holds_ai(cte) and asking.intersection(_tables(cte)):
            asking.add(name_of(cte))
    return bool(asking.intersection(_tables(select)))


def _tables(node: exp.Expr) -> Iterator[str]:
    return (table.name.lower() for table in node.find_all(exp.Table))
