"""Dependencies of a look-up: columns of other relations, which keep DuckDB from evaluating it below the join with them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import exp

from quail_engine.sql.aliases import item_of
from quail_engine.sql.dialect import AiFunction, QuailDialect
from quail_engine.sql.guards import grouped
from quail_engine.sql.scopes import Clause, Place, columns_outside, relations, table_of
from quail_engine.sql.source import quoted

PIN = "random()"
"""A dependency that differs from row to row: DuckDB neither moves what holds it nor makes a copy of it for one side of a join.

Of an equality it knows both sides as one: by it, a condition `look-up = 'x'` whose dependency or argument is a join's key is
evaluated below the join, too, and one in a correlated subquery before any row outside is known; and one about a column that
equals a constant is evaluated before any row is.
"""

_COMPARED = (exp.EQ, exp.NullSafeEQ)


def depends_of(call: AiFunction, place: Place, chosen: str = "") -> tuple[str, ...]:
    """One column of every relation joined in the scope that the call's own arguments do not surely read, or its `chosen` text.

    In WHERE those columns of queries around that the scope reads. `PIN` is the last where keys may be among these or the
    arguments.
    """
    scope = place.scope
    if not isinstance(scope, exp.Select) or place.clause is Clause.FROM:
        return ()
    joined = list(relations(scope, place.join))
    outside = columns_outside(scope)
    if place.clause > Clause.WHERE and grouped(scope) and not _inside_aggregate(call, scope):
        return ()
    names = _names(joined) if len(joined) > 1 or outside else []
    read = {table_of(column) for column in call.find_all(exp.Column)}
    read -= (
        {table_of(column) for column in sqlglot.parse_one(chosen, dialect=QuailDialect).find_all(exp.Column)}
        if chosen
        else set()
    )
    found = [_column_of(name, scope) for name in names if names.count(name) == 1 and name.lower() not in read]
    depends = [column for column in found if column]
    if place.clause is Clause.WHERE:
        depends += outside
    keys = _keys(scope)
    moves = any(column.startswith("hash(") for column in depends) or bool(outside)
    moves |= any(_is_key(column, keys) for column in call.find_all(exp.Column))
    return (*depends, PIN) if moves and may_be_pinned(call, place) else tuple(depends)


def may_be_pinned(call: AiFunction, place: Place) -> bool:
    """Whether `PIN` may be a dependency: DuckDB wants no volatile value in a window or behind the name of a select item."""
    if place.clause in (Clause.ON, Clause.WHERE):
        return True
    scope = place.scope
    if place.clause is not Clause.SELECT or not isinstance(scope, exp.Select) or grouped(scope) or scope.args.get("distinct"):
        return False
    named = any(item_of(column) is not None for column in scope.find_all(exp.Column))
    return not named and call.find_ancestor(exp.Window, exp.Select) is scope


def _names(joined: Sequence[exp.Expr]) -> list[str]:
    """The name by which DuckDB knows each relation of a FROM; empty where it cannot be told."""
    names, subqueries = [], 0
    for relation in joined:
        name = str(relation.alias_or_name)
        function = relation.this if isinstance(relation, exp.Table) and isinstance(relation.this, exp.Func) else None
        if isinstance(relation, exp.Subquery) and not name:
            subqueries += 1
            name = "unnamed_subquery" + (str(subqueries) if subqueries > 1 else "")
        elif function is not None and not relation.alias:
            name = function.name if isinstance(function, exp.Anonymous) else function.sql_name().lower()
        names.append(name if name.replace("_", "a").isalnum() or relation.alias else "")
    return names


def _inside_aggregate(call: AiFunction, scope: exp.Select) -> bool:
    aggregate = call.find_ancestor(exp.AggFunc, exp.Select)
    return isinstance(aggregate, exp.AggFunc) and aggregate.find_ancestor(exp.Select) is scope


def _column_of(name: str, scope: exp.Select) -> str:
    """SQL that reads a relation: a column that the scope names anyway, else whether its row is NULL."""
    if not name:
        return ""
    columns = [c for c in scope.find_all(exp.Column) if table_of(c) == name.lower() and c.find_ancestor(exp.Select) is scope]
    # Rather no key of a join: DuckDB would read it from the other side, and push the call below the join all the same.
    keys = _keys(scope)
    for column in columns:
        plain = not isinstance(column.this, exp.Star) and not column.args.get("db")
        if plain and not _is_key(column, keys):
            return f"{quoted(name)}.{quoted(column.name)}"
    return f"hash({quoted(name)})"  # not IS NULL, which DuckDB knows to be FALSE and drops


def _keys(scope: exp.Select) -> set[str]:
    """The columns that equal something where the scope joins and filters, by name."""
    columns = (
        c for c in scope.find_all(exp.Column) if isinstance(c.parent, _COMPARED) and c.find_ancestor(exp.Select) is scope
    )
    using = (key for join in scope.args.get("joins") or () for key in join.args.get("using") or ())
    return {str(column.name).lower() for column in (*(c for c in columns if c.find_ancestor(exp.Select) is scope), *using)}


def _is_key(column: exp.Column, keys: set[str]) -> bool:
    return column.name.lower() in keys
