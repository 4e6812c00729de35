"""AI conditions beside a join whose inputs can be listed by one query before any of them is asked.

An AI condition of a join is asked on what the other conditions leave: of pairs when it reads both sides, of rows when it
reads one. Listing them first lets the planner order them, and an answer table takes the place of a look-up a pair; a call
that does not fit the rules here stays a look-up, which is always right. What a listing leaves out counts as not TRUE. So inner
joins are listed with all that comes after them only where no join behind fills in NULLs, lest a dropped pair made a row appear;
and a join that keeps rows without a partner is listed by what its own ON says, besides conditions on the kept side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from quail_engine.calls import AiCall, Kind
from quail_engine.sql.aliases import item_of
from quail_engine.sql.dialect import AiFunction, QuailDialect, has_span, span
from quail_engine.sql.joins import Joins, find_joins
from quail_engine.sql.scopes import Clause, Place, holds_ai, is_inner, name_of, operands, place_of, table_of, visible_ctes
from quail_engine.sql.source import Source


@dataclass(frozen=True)
class PairSpace:
    """Where the inputs of an AI condition come from. Spans are offsets into the query's text."""

    call: int  # index of the call in the query
    ctes: tuple[tuple[int, int], ...]  # the CTEs that the join can read
    source: tuple[int, int]  # FROM and its joins
    conditions: tuple[tuple[int, int], ...]  # conjuncts of WHERE that hold no AI call, or are one
    one_sided: bool  # whether the call reads one relation only
    relations: tuple[tuple[str, ...], ...]  # names of those that each argument reads, in lower case
    joins: Joins | None = None  # the same as relations and conditions apart, where they can be told apart
    outer: tuple[int, int] | None = None  # the words LEFT JOIN and the like, which the listing reads as JOIN


def find_pair_spaces(
    nodes: Sequence[AiFunction], calls: Sequence[AiCall], grouped: Sequence[bool], source: Source
) -> tuple[PairSpace, ...]:
    """The pair spaces of a query's calls, in text order; none for those that are `grouped`, which stop earlier as look-ups.

    A call waits for others only where these are conditions of the same joins: then the planner may order them as it likes.
    """
    spaces = [
        (node, None if stops else _pair_space(i, nodes, call, source))
        for i, (node, call, stops) in enumerate(zip(nodes, calls, grouped, strict=True))
    ]
    scopes = {space.call: place_of(node).scope for node, space in spaces if space is not None}
    for i, (node, call) in enumerate(zip(nodes, calls, strict=True)):
        if call.chosen and is_conjunct(node, place := place_of(node)):  # asked later, whatever its level
            scopes[i] = place.scope

    def independent(call: int) -> bool:
        before = (i for i, other in enumerate(calls) if other.level < calls[call].level)
        return all(scopes.get(i) is scopes[call] for i in before)

    return tuple(space for _, space in spaces if space is not None and independent(space.call))


def _pair_space(index: int, nodes: Sequence[AiFunction], call: AiCall, source: Source) -> PairSpace | None:
    node = nodes[index]
    place = place_of(node)
    select = place.scope
    if call.kind is not Kind.FILTER or not call.arguments or not isinstance(select, exp.Select) or not select.args.get("joins"):
        return None
    condition = _condition_of(place.clause, place.join, select)
    if condition is None or not any(node is operand for operand in operands(condition, exp.And)):
        return None
    tables = {table_of(column) for column in node.find_all(exp.Column)}
    if "" in tables or not tables or _asks_inside(node):
        return None
    if any(item_of(column) is not None for column in _of_joins(select)):
        return None  # the listing has no select item that a condition could name
    ctes = readable_ctes(select)
    outer = place.join if place.join is not None and not is_inner(place.join) else None
    listed = _of_outer_join(outer, select, source) if outer is not None else _of_inner_joins(select)
    if ctes is None or listed is None:
        return None
    if outer is not None and len(tables) == 1 and outer is not select.args["joins"][-1]:
        return (
            None  # DuckDB fails on IN in the ON of an outer join, of one side, under a join by inequality: its database is lost
        )
    joins, kept, words = listed
    start, end = span(select.args["from_"])
    return PairSpace(
        call=index,
        ctes=tuple(span(cte) for cte in ctes),
        source=(start, max([end, *(span(join)[1] for join in joins)])),
        conditions=tuple(span(c) for c in kept),
        one_sided=len(tables) == 1,
        relations=tuple(map(_relations_in, call.arguments)),
        joins=find_joins(select, nodes, source) if outer is None else None,
        outer=words,
    )


_Listed = tuple[Sequence[exp.Join], Sequence[exp.Expr], "tuple[int, int] | None"]
"""The joins that a listing reads, its conjuncts of WHERE, and the words that it reads as JOIN."""


def _of_inner_joins(select: exp.Select) -> _Listed | None:
    """All joins and what WHERE says of them, for a condition of inner joins or of WHERE itself."""
    kept = [c for c in _where(select) if not holds_ai(c) or isinstance(c, AiFunction)]
    if not joins_only_drop(select) or not _only_conjuncts_ask(select) or not all(has_span(c) for c in kept):
        return None
    return select.args["joins"], kept, None


def _of_outer_join(join: exp.Join, select: exp.Select, source: Source) -> _Listed | None:
    """The joins up to one that keeps rows without a partner, read as an inner one: its ON decides about pairs alone.

    WHERE counts where it speaks of the kept side, and no later join fills that in with NULLs.
    """
    from_, joins = select.args["from_"], select.args["joins"]
    at = next((i for i, other in enumerate(joins) if other is join), None)
    if at is None:  # a join in brackets
        return None
    before, on = joins[:at], join.args["on"]
    asking = [operand for operand in operands(on, exp.And) if holds_ai(operand)]
    if any(map(holds_ai, (from_, *before, join.this))) or not all(isinstance(operand, AiFunction) for operand in asking):
        return None
    if from_.this.args.get("joins") or not all(_is_listable(other) for other in (*before, join)) or not has_span(on):
        return None
    if select.args.get("laterals") or select.args.get("limit"):  # a LIMIT stops DuckDB among the pairs, before they are all met
        return None
    words = _WORDS.match(source.text[span(join)[0] : span(on)[0]])
    if words is None:
        return None
    kept = []
    if all(str(other.args.get("side") or "") in ("", "LEFT") for other in joins[at + 1 :]):
        names = {"RIGHT": {name_of(join.this)}, "FULL": set()}.get(
            str(join.args.get("side") or "").upper(),
            {name_of(relation) for relation in (from_.this, *(b.this for b in before))},
        )
        kept = [c for c in _where(select) if _speaks_of(c, names)]
    start = span(join)[0]
    return joins[: at + 1], kept, (start, start + words.end())


_WORDS = re.compile(r"(?is)[a-z\s]*?\bjoin\b")


def _where(select: exp.Select) -> list[exp.Expr]:
    where = select.args.get("where")
    return operands(where.this, exp.And) if where is not None else []


def _is_listable(join: exp.Join) -> bool:
    return has_span(join) and not join.args.get("method") and not isinstance(join.this, (exp.Lateral, exp.Unnest))


def _speaks_of(condition: exp.Expr, names: set[str]) -> bool:
    """Whether a condition reads these relations only, by name, and asks nothing."""
    columns = list(condition.find_all(exp.Column))
    plain = has_span(condition) and not holds_ai(condition) and condition.find(exp.Query) is None
    return plain and bool(columns) and all(table_of(column) in names - {""} for column in columns)


def _relations_in(argument: str) -> tuple[str, ...]:
    columns = sqlglot.parse_one(argument, dialect=QuailDialect).find_all(exp.Column)
    return tuple(dict.fromkeys(table_of(column) for column in columns))


def _asks_inside(node: AiFunction) -> bool:
    return any(holds_ai(argument) for argument in node.expressions)


def _of_joins(select: exp.Select) -> Iterator[exp.Column]:
    """The columns in FROM and WHERE."""
    parts = [select.args.get("from_"), select.args.get("where"), *(select.args.get("joins") or ())]
    return (column for part in parts if part is not None for column in part.find_all(exp.Column))


def is_conjunct(node: AiFunction, place: Place) -> bool:
    """Whether rows, or pairs of an inner join, are dropped where a call is not TRUE."""
    inner = place.join is None or is_inner(place.join)
    condition = _condition_of(place.clause, place.join, place.scope) if isinstance(place.scope, exp.Select) else None
    return inner and condition is not None and any(node is operand for operand in operands(condition, exp.And))


def _condition_of(clause: Clause, join: exp.Join | None, select: exp.Select) -> exp.Expr | None:
    """The whole condition that the call is a conjunct of: WHERE or ON; none for a join in brackets."""
    if clause is Clause.WHERE:
        return select.args["where"].this  # type: ignore[no-any-return]
    return join.args.get("on") if join is not None and join.parent is select else None


def joins_only_drop(select: exp.Select) -> bool:
    """Whether no join fills in NULLs for rows of its left side's: no RIGHT, FULL, ASOF, POSITIONAL, NATURAL or lateral join."""
    source = select.args.get("from_")
    if source is None or not has_span(source) or select.args.get("laterals"):  # `FROM t` alone has no span
        return False
    for join in select.args.get("joins") or ():
        if str(join.args.get("side") or "") not in ("", "LEFT") or not _is_listable(join):
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


def readable_ctes(select: exp.Select) -> list[exp.CTE] | None:
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
