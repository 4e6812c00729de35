"""Calls of which one TRUE row is enough: in EXISTS, IN, ANY, ALL, in SEMI and ANTI joins.

The rows of an EXISTS that share all outer columns it reads share its value: they are a group. So are those rows of an IN that
share its item, too, for IN reads a set. As soon as one row of a group is TRUE, no other can change anything: none is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from quail_engine.sql.dialect import AiFunction, has_span, span
from quail_engine.sql.scopes import Clause, Place, holds_ai, kind_of, name_of, operands, relations, table_of, visible_ctes
from quail_engine.sql.source import Source

_COUNTS_ROWS = ("group", "having", "qualify", "distinct", "limit", "offset", "with_", "laterals")


@dataclass(frozen=True)
class Group:
    """What names the group of a call's row."""

    columns: tuple[str, ...]  # SQL
    unsure: tuple[str, ...] = ()  # names of those that may be columns of the scope itself, and then name no group
    relations: str = ""  # SQL of the scope's relations: `SELECT * FROM …` tells

    def settled(self, columns_of: Callable[[str], Sequence[str]]) -> tuple[str, ...]:
        """The columns that name the group. `columns_of` gives the columns of a query.

        A column whose relation cannot be told is counted in: that makes groups smaller and never wrong.
        """
        own = {column.lower() for column in columns_of(self.relations)} if self.unsure else set()
        inside = {column for column in self.unsure if column.strip('"').lower() in own}
        return tuple(column for column in self.columns if column not in inside)


def group_of(node: AiFunction, place: Place, source: Source) -> Group | None:
    """What names a call's group; None where more than one TRUE row may matter."""
    if place.clause is Clause.ON and place.join is not None and kind_of(place.join) in ("SEMI", "ANTI"):
        condition = place.join.args["on"]
        if condition.find(exp.Query) is not None or not _alone(node, condition):
            return None  # columns of a query inside cannot be read out here
        return Group(_columns_outside(condition, {name_of(place.join.this)}))
    select = place.scope
    if place.clause is not Clause.WHERE or not isinstance(select, exp.Select):
        return None
    around = select.parent.parent if isinstance(select.parent, exp.Subquery) else select.parent
    if not isinstance(around, (exp.Exists, exp.In, exp.Any, exp.All)) or not _is_plain(select, node):
        return None
    items = () if isinstance(around, exp.Exists) else _items(select, source)
    if items is None:
        return None
    own = (*relations(select), *(join.this for join in select.args.get("joins") or ()))  # of SEMI and ANTI joins, too
    columns = _columns_outside(select, set(map(name_of, own)))
    relations_sql = _relations_sql(select, source)
    unsure = tuple(column for column in columns if "." not in column) if relations_sql else ()
    return Group(tuple(dict.fromkeys((*items, *columns))), tuple(c for c in unsure if c not in items), relations_sql)


def _is_plain(select: exp.Select, node: AiFunction) -> bool:
    """Whether a query inside keeps a row or drops it, as one call in its WHERE says."""
    if any(select.args.get(key) for key in _COUNTS_ROWS) or not _alone(node, select.args["where"].this):
        return False
    if any(inner is not select for inner in select.find_all(exp.Select)):
        return False
    return sum(1 for _ in select.find_all(AiFunction)) == 1 and not any(map(_is_aggregate, select.expressions))


def _items(select: exp.Select, source: Source) -> tuple[str, ...] | None:
    """SQL of the values that a query inside gives; None where they stand in no text."""
    items = [item.this if isinstance(item, exp.Alias) else item for item in select.expressions]
    if any(item.find(exp.Star, exp.Columns, exp.Window, exp.Explode) or not has_span(item) for item in items):
        return None
    return tuple(source.sql(item) for item in items)


def _relations_sql(select: exp.Select, source: Source) -> str:
    """A query for all columns of a scope's relations; empty where they ask or recurse."""
    ctes = visible_ctes(select)
    if ctes is None or any(holds_ai(cte) or not has_span(cte) for cte in ctes):
        return ""
    from_, joins = select.args.get("from_"), select.args.get("joins") or ()
    parts = [part for part in (from_, *joins) if part is not None]
    if from_ is None or holds_ai(from_) or not all(has_span(part) for part in parts):
        return ""
    text = source.text[span(from_)[0] : max(span(part)[1] for part in parts)]
    with_ = f"WITH {', '.join(map(source.sql, ctes))} " if ctes else ""
    return "" if any(map(holds_ai, joins)) else f"{with_}SELECT * {text}"


def _alone(node: AiFunction, condition: exp.Expr) -> bool:
    """Whether a call is a conjunct of a condition, and the only one that asks."""
    return (
        any(node is operand for operand in operands(condition, exp.And)) and sum(1 for _ in condition.find_all(AiFunction)) == 1
    )


def _is_aggregate(item: exp.Expr) -> bool:
    return item.find(exp.AggFunc) is not None


def _columns_outside(node: exp.Expr, own: Iterable[str]) -> tuple[str, ...]:
    columns = (
        column for column in node.find_all(exp.Column) if table_of(column) not in own and not isinstance(column.this, exp.Star)
    )
    return tuple(dict.fromkeys(column.sql(dialect="duckdb") for column in columns))
