"""Guards and dependencies of a look-up: TRUE where SQL would look at the call, and what keeps it above its joins.

DuckDB may evaluate a call before the cheap condition beside it, and below the join above it. The guard makes the look-up
blind on rows that SQL would not have shown it; a column of each other relation keeps it from being pushed down.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot import exp

from quail_engine.sql.aliases import item_of
from quail_engine.sql.dialect import AiFunction, has_span, span
from quail_engine.sql.pairs import joins_only_drop
from quail_engine.sql.scopes import Clause, Place, holds_ai, is_inner, kind_of, name_of, operands, relations, table_of
from quail_engine.sql.source import Source, quoted

_BOUNDARIES = (exp.Select, exp.SetOperation, exp.Subquery, exp.Join, exp.Where)
_RELATION = re.compile(r"(?is).*?\bjoin\b(.*)\bon\s*\Z")
_ROOTS = (exp.Where, exp.Having, exp.Qualify, exp.Join)


def guard_of(call: AiFunction, source: Source, asking: bool = False) -> str:
    """The guard's SQL, built from the siblings that hold no AI call; empty when SQL always looks at the call.

    With `asking`, earlier parts of a CASE, IF or COALESCE count even where they hold AI calls.
    """
    conditions: list[str] = []
    child: exp.Expr = call
    around = call.parent
    while around is not None and not isinstance(around, _BOUNDARIES):
        conditions += _conditions(child, around, source, asking)
        child, around = around, around.parent
    select = around.parent if isinstance(around, exp.Where) else around
    if isinstance(select, exp.Select) and (select is not around or (_is_item(child, select) and _may_be_filtered(select))):
        conditions += _met_by_joins(select, source)
    return " AND ".join(dict.fromkeys(conditions))


def reached_of(place: Place) -> tuple[tuple[int, int], ...]:
    """Spans of what earlier clauses ask of the rows that reach a call, where DuckDB may make one conjunction of both.

    It does so with WHERE and the ON of inner joins; and with a select item, where a query around has a condition on it.
    """
    select = place.scope
    if not isinstance(select, exp.Select) or place.clause < Clause.WHERE:
        return ()
    above = place.clause > Clause.WHERE
    if above and not _may_be_filtered(select):
        return ()
    joins = (select.args.get("joins") or ()) if joins_only_drop(select) else ()
    ons = [join.args["on"] for join in joins if is_inner(join) and join.args.get("on") is not None]
    parts = [part for on in ons for part in operands(on, exp.And) if not _is_key(part) and _is_qualified(part)]
    if above and select.args.get("where") is not None:
        parts += operands(select.args["where"].this, exp.And)
    return tuple(span(part) for part in parts if has_span(part) and part.find(exp.Query) is None and not _names_items(part))


def _is_item(part: exp.Expr, select: exp.Select) -> bool:
    return any(part is item for item in select.expressions)


def _may_be_filtered(select: exp.Select) -> bool:
    """Whether DuckDB may evaluate a condition of a query around where this one's own conditions stand."""
    return select.parent is not None and not grouped(select) and not select.args.get("distinct")


def _is_key(part: exp.Expr) -> bool:
    """Whether a part of ON is an equality of columns, by which DuckDB joins before it looks at anything else."""
    return isinstance(part, exp.EQ) and isinstance(part.this, exp.Column) and isinstance(part.expression, exp.Column)


def _is_qualified(part: exp.Expr) -> bool:
    """Whether a part of ON means the same behind later joins, whose columns may have its columns' names."""
    return all(table_of(column) for column in part.find_all(exp.Column))


def _names_items(part: exp.Expr) -> bool:
    return any(item_of(column) is not None for column in part.find_all(exp.Column))


def _met_by_joins(select: exp.Select, source: Source) -> Iterator[str]:
    """What SEMI and ANTI joins demand of the rows that WHERE sees: nothing of their relation can be a dependency there.

    Where a later join fills in NULLs for the rows that they left, WHERE sees rows of which they demand nothing.
    """
    joins = select.args.get("joins") or []
    for i, join in enumerate(joins):
        if any(later.args.get("method") or str(later.args.get("side") or "") not in ("", "LEFT") for later in joins[i + 1 :]):
            continue
        kind = kind_of(join)
        on = join.args.get("on")
        if kind in ("SEMI", "ANTI") and on is not None and not holds_ai(join) and has_span(join):
            relation = _RELATION.match(source.text[span(join)[0] : span(on)[0]])
            if relation:
                test = "EXISTS" if kind == "SEMI" else "NOT EXISTS"
                yield f"{test} (SELECT 1 FROM {relation[1]} WHERE {source.sql(on)})"


def _conditions(child: exp.Expr, around: exp.Expr, source: Source, asking: bool) -> Iterator[str]:
    """What `around` says about when its part `child` is looked at."""
    if isinstance(around, exp.And):
        test = "IS TRUE" if _at_root(around) else "IS NOT FALSE"
        yield from (f"({source.sql(s)}) {test}" for s in _siblings(child, around, exp.And))
    elif isinstance(around, exp.Or):
        yield from (f"({source.sql(s)}) IS NOT TRUE" for s in _siblings(child, around, exp.Or))
    elif isinstance(around, exp.If):
        case = around.parent
        if isinstance(case, exp.Case):
            yield from _failed(case, around, source, asking)
        if child.arg_key == "true":
            yield from _held(around, "IS TRUE", source, asking)
        elif child.arg_key == "false":
            yield from _held(around, "IS NOT TRUE", source, asking)
    elif isinstance(around, exp.Case) and child.arg_key == "default":
        yield from _failed(around, None, source, asking)
    elif isinstance(around, exp.Coalesce):
        before = [around.this, *around.expressions]
        earlier = before[: next(i for i, part in enumerate(before) if part is child)]
        yield from (f"({source.sql(e)}) IS NULL" for e in earlier if asking or not holds_ai(e))
    elif isinstance(around, exp.Filter) and child is around.this:
        yield from (f"({source.sql(s)}) IS TRUE" for s in operands(around.expression.this, exp.And) if not holds_ai(s))


def _siblings(child: exp.Expr, around: exp.Expr, connector: type[exp.Expr]) -> list[exp.Expr]:
    other = around.expression if child is around.this else around.this
    join = around.find_ancestor(exp.Join, exp.Select)
    # DuckDB binds a subquery in the ON of a SEMI or ANTI join, but not a copy of it inside a function's arguments.
    bound = not isinstance(join, exp.Join) or kind_of(join) not in ("SEMI", "ANTI")
    return [s for s in operands(other, connector) if not holds_ai(s) and has_span(s) and (bound or not s.find(exp.Query))]


def _failed(case: exp.Case, before: exp.If | None, source: Source, asking: bool) -> Iterator[str]:
    """The conditions of a CASE that failed when its branch `before` (None: its ELSE) is looked at."""
    for branch in case.args["ifs"]:
        if branch is before:
            return
        yield from _held(branch, "IS NOT TRUE", source, asking)


def _held(branch: exp.If, test: str, source: Source, asking: bool) -> Iterator[str]:
    """The condition of an IF or of one WHEN with a test behind it; nothing where an AI call decides it."""
    subject = branch.parent.this if isinstance(branch.parent, exp.Case) else None
    if asking or not (holds_ai(branch.this) or holds_ai(subject)):
        condition = source.sql(branch.this)
        yield f"(({source.sql(subject)}) = ({condition})) {test}" if subject is not None else f"({condition}) {test}"


def _at_root(node: exp.Expr) -> bool:
    """Whether an AND is the condition of its clause itself, so that what is not TRUE is dropped."""
    around = node.parent
    while isinstance(around, (exp.And, exp.Paren)):
        around = around.parent
    return isinstance(around, _ROOTS)


def depends_of(call: AiFunction, place: Place, source: Source) -> tuple[str, ...]:
    """One column of every relation joined in the scope that the call's own arguments do not surely read."""
    scope = place.scope
    if not isinstance(scope, exp.Select) or place.clause is Clause.FROM:
        return ()
    joined = list(relations(scope, place.join))
    if (len(joined) < 2 and not _reads_outside(scope, joined)) or (
        place.clause > Clause.WHERE and grouped(scope) and not _inside_aggregate(call, scope)
    ):
        return ()
    names = _names(joined)
    read = {table_of(column) for column in call.find_all(exp.Column)}
    found = (_column_of(name, scope) for name in names if names.count(name) == 1 and name.lower() not in read)
    return tuple(column for column in found if column)


def _reads_outside(scope: exp.Select, joined: Sequence[exp.Expr]) -> bool:
    """Whether a query inside names a column of a query around it, whose row DuckDB joins to its own rows."""
    if scope.parent is None:
        return False
    own = {"", *map(name_of, joined), *(name_of(join.this) for join in scope.args.get("joins") or ())}
    columns = (column for column in scope.find_all(exp.Column) if column.find_ancestor(exp.Select) is scope)
    return any(table_of(column) not in own for column in columns)


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


def grouped(scope: exp.Select) -> bool:
    """Whether the scope's select list sees groups, where a plain column may not stand."""
    if scope.args.get("group") or scope.args.get("having"):
        return True
    return any(_own_aggregate(item, scope) for item in scope.expressions)


def _own_aggregate(item: exp.Expr, scope: exp.Select) -> bool:
    # A function that sqlglot does not know may be an aggregate of DuckDB's.
    found = (a for a in item.find_all(exp.AggFunc, exp.Anonymous) if a.name.upper() != "PROMPT")
    return any(a.find_ancestor(exp.Select) is scope and a.find_ancestor(exp.Window) is None for a in found)


def _inside_aggregate(call: AiFunction, scope: exp.Select) -> bool:
    aggregate = call.find_ancestor(exp.AggFunc, exp.Select)
    return isinstance(aggregate, exp.AggFunc) and aggregate.find_ancestor(exp.Select) is scope


def _column_of(name: str, scope: exp.Select) -> str:
    """SQL that reads a relation: a column that the scope names anyway, else whether its row is NULL."""
    if not name:
        return ""
    columns = [c for c in scope.find_all(exp.Column) if table_of(c) == name.lower() and c.find_ancestor(exp.Select) is scope]
    # Not a key of a join: DuckDB would read it from the other side, and push the call below the join all the same.
    keys = {column.name.lower() for column in columns if isinstance(column.parent, exp.EQ)}
    for column in columns:
        plain = not isinstance(column.this, exp.Star) and not column.args.get("db")
        if plain and column.name.lower() not in keys:
            return f"{quoted(name)}.{quoted(column.name)}"
    return f"hash({quoted(name)})"  # not IS NULL, which DuckDB knows to be FALSE and drops
