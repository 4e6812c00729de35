"""Calls of which one TRUE row is enough: in EXISTS, NOT EXISTS, SEMI and ANTI joins.

The rows of an EXISTS that share all outer columns it reads share its value: they are a group. As soon as one pair of a group is
TRUE, no other pair of it can change anything, and none is asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from quail_engine.sql.dialect import AiFunction
from quail_engine.sql.scopes import Clause, Place, kind_of, name_of, operands, relations, table_of

_COUNTS_ROWS = ("group", "having", "qualify", "distinct", "limit", "offset", "with_", "laterals")


def group_of(node: AiFunction, place: Place) -> tuple[str, ...] | None:
    """SQL of the columns that name a call's group; None where more than one TRUE row may matter.

    A column whose relation cannot be told is counted in: that makes groups smaller and never wrong.
    """
    if place.clause is Clause.ON and place.join is not None and kind_of(place.join) in ("SEMI", "ANTI"):
        condition = place.join.args["on"]
        if condition.find(exp.Query) is not None:  # columns of a query inside cannot be read out here
            return None
        return _columns_outside(condition, {name_of(place.join.this)}) if _alone(node, condition) else None
    select = place.scope
    if place.clause is not Clause.WHERE or not isinstance(select, exp.Select) or not isinstance(select.parent, exp.Exists):
        return None
    if any(select.args.get(key) for key in _COUNTS_ROWS) or not _alone(node, select.args["where"].this):
        return None
    if any(inner is not select for inner in select.find_all(exp.Select)):
        return None
    if sum(1 for _ in select.find_all(AiFunction)) > 1 or any(map(_is_aggregate, select.expressions)):
        return None
    return _columns_outside(select, {name_of(relation) for relation in relations(select)})


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
