"""Guards of a look-up: TRUE where SQL would look at the call.

DuckDB may evaluate a call before the cheap condition beside it, and below the join above it. The guard makes the look-up
blind on rows that SQL would not have shown it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from quail_engine.calls import Reached
from quail_engine.sql.aliases import item_of
from quail_engine.sql.dialect import AiFunction, has_span, span
from quail_engine.sql.pairs import joins_only_drop
from quail_engine.sql.scopes import (
    Clause,
    Place,
    columns_outside,
    holds_ai,
    is_inner,
    kind_of,
    name_of,
    names_inside,
    operands,
    relations,
    table_of,
    unwrapped,
)
from quail_engine.sql.source import Source, quoted

_BOUNDARIES = (exp.Select, exp.SetOperation, exp.Subquery, exp.Join, exp.Where)
_RELATION = re.compile(r"(?is).*?\bjoin\b(.*)\bon\s*\Z")
_ROOTS = (exp.Where, exp.Having, exp.Qualify, exp.Join)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_Condition = tuple[exp.Expr, str]
"""A condition of a guard: the part of the query that it tests, and its SQL."""


def guard_of(call: exp.Expr, source: Source, asking: bool = False) -> str:
    """The guard's SQL, built from the siblings that hold no AI call; empty when SQL always looks at the call, or at what it is.

    With `asking`, earlier parts of a CASE, IF or COALESCE count even where they hold AI calls.
    """
    child, around, found = _up_to_clause(call, source, asking)
    conditions = [sql for _, sql in found]
    select = around.parent if isinstance(around, exp.Where) else around
    if isinstance(select, exp.Select) and _sees_joins(child, around, select):
        conditions += [
            f"{reached.before}{source.text[reached.start : reached.end]}{reached.after}"
            for reached, asks in _met_by_joins(select, source)
            if not asks
        ]
    if isinstance(select, exp.Select) and select is not around:
        conditions += _of_outer_row(select, source, asking)
    return " AND ".join(dict.fromkeys(conditions))


def _up_to_clause(node: exp.Expr, source: Source, asking: bool) -> tuple[exp.Expr, exp.Expr | None, list[_Condition]]:
    """The root of a node's clause, what is around that, and the conditions on the way there."""
    found: list[_Condition] = []
    child, around = node, node.parent
    while around is not None and not isinstance(around, _BOUNDARIES):
        found += _conditions(child, around, source, asking)
        child, around = around, around.parent
    return child, around, found


def _of_outer_row(select: exp.Select, source: Source, asking: bool) -> Iterator[str]:
    """When SQL looks at a correlated subquery, which decides about all calls in its WHERE.

    Only what means the same inside, each column with its relation. A conjunct of a whole
    clause is left out: DuckDB drops rows by it before it joins them to those inside.
    """
    subquery: exp.Expr = select
    while isinstance(subquery.parent, exp.Subquery):
        subquery = subquery.parent
    outer = subquery.find_ancestor(exp.Select)
    if outer is None or not columns_outside(select):
        return
    inside = names_inside(select)
    for part, sql in _up_to_clause(subquery, source, asking)[2]:
        dropped = isinstance(part.parent, exp.And) and at_root(part.parent)
        named = None if dropped or part.find(exp.Query) is not None else _with_relations(part, outer, inside, source)
        if named is not None:
            yield sql.replace(source.sql(part), named)


def _with_relations(part: exp.Expr, outer: exp.Select, inside: set[str], source: Source) -> str | None:
    """SQL of a condition in a query that means the same in a query inside it; None where that cannot be told.

    A column without a relation is of the only one, if there is one only, and that name can be written before it.
    """
    names = {name_of(relation): quoted(str(relation.alias_or_name)) for relation in relations(outer)}
    only = names if len(names) == 1 and not outer.args.get("joins") and outer.find_ancestor(exp.Select) is None else {}
    text, start, columns = source.sql(part), span(part)[0], list(part.find_all(exp.Column))
    if not all(map(has_span, columns)):
        return None
    for column in sorted(columns, key=span, reverse=True):
        relation = table_of(column) or next((name for name in only if name != column.name.lower()), "")
        if relation not in names or relation in inside or item_of(column) is not None or isinstance(column.this, exp.Star):
            return None
        if not table_of(column):
            at = span(column)[0] - start
            text = f"{text[:at]}{names[relation]}.{text[at:]}"
    return text


def _sees_joins(root: exp.Expr, around: exp.Expr | None, select: exp.Select) -> bool:
    """Whether DuckDB may evaluate an expression below the SEMI and ANTI joins before it: WHERE, and items that are filtered."""
    return select is not around or (any(root is item for item in select.expressions) and _may_be_filtered(select))


def reached_of(call: AiFunction, place: Place, source: Source) -> tuple[Reached, ...]:
    """What holds on every row that reaches a call, as other calls tell, where DuckDB may look at the call first."""
    return (*_unanswered_by(call, place.scope), *_met_by_clauses(place, source))


def _unanswered_by(call: AiFunction, scope: exp.Expr) -> Iterator[Reached]:
    """The earlier arguments of a COALESCE are NULL, in a scope where something stands twice.

    DuckDB computes that once, and out of a COALESCE for all rows. It is told so there alone: a guard repeats what it tests.
    """
    child: exp.Expr = call
    around = call.parent
    while around is not None and not isinstance(around, _BOUNDARIES):
        if isinstance(around, exp.Coalesce) and _repeats_calls(scope):
            yield from (Reached(*span(part), "(", ") IS NULL") for part in _earlier(child, around) if _is_tellable(part))
        child, around = around, around.parent


def _repeats_calls(scope: exp.Expr) -> bool:
    """Whether a call stands twice; NULLIF names its first operand twice."""
    if any(holds_ai(pair.this) for pair in scope.find_all(exp.Nullif)):
        return True
    texts = [call.sql(dialect="duckdb") for call in scope.find_all(AiFunction)]
    return len(set(texts)) < len(texts)


def _earlier(argument: exp.Expr, coalesce: exp.Coalesce) -> list[exp.Expr]:
    arguments = [coalesce.this, *coalesce.expressions]
    return arguments[: next(i for i, part in enumerate(arguments) if part is argument)]


def _is_tellable(part: exp.Expr) -> bool:
    """Whether a part that asks can stand in a guard."""
    return holds_ai(part) and has_span(part) and part.find(exp.Query) is None and not _names_items(part)


def _met_by_clauses(place: Place, source: Source) -> tuple[Reached, ...]:
    """What earlier clauses ask of the rows that reach a call, where DuckDB may make one conjunction of both.

    It does so with WHERE and the ON of joins; and with a select item, where a query around has a condition on it.
    """
    select = place.scope
    if not isinstance(select, exp.Select) or place.clause < Clause.WHERE:
        return ()
    above = place.clause > Clause.WHERE
    if above and not _may_be_filtered(select):
        return ()
    parts = list(_met_by_ons(select)) if joins_only_drop(select) else []
    if above and select.args.get("where") is not None:
        parts += operands(select.args["where"].this, exp.And)
    met = [part for part in parts if has_span(part) and part.find(exp.Query) is None and not _names_items(part)]
    return (*(Reached(*span(part)) for part in met), *(reached for reached, asks in _met_by_joins(select, source) if asks))


def _met_by_ons(select: exp.Select) -> Iterator[exp.Expr]:
    """The conditions of inner joins, and of outer ones where WHERE refuses the rows that they fill in: of others, they hold."""
    joins = select.args.get("joins") or []
    for join in joins:
        on = join.args.get("on")
        if on is not None and (is_inner(join) or (kind_of(join) in ("", "OUTER") and _refuses_filled_in(select, join))):
            last = join is joins[-1]  # of others, columns need their relation's name: later joins may have their like
            yield from (part for part in operands(on, exp.And) if not _is_key(part) and (last or _is_qualified(part)))


def _refuses_filled_in(select: exp.Select, join: exp.Join) -> bool:
    """Whether a condition of WHERE that asks nothing is not TRUE where a LEFT join found no partner."""
    where = select.args.get("where")
    conditions = operands(where.this, exp.And) if where is not None else []
    return any(_refuses_null(unwrapped(condition), name_of(join.this)) for condition in conditions)


def _refuses_null(condition: exp.Expr, relation: str) -> bool:
    """Whether a condition is not TRUE of a row in which all columns of a relation are NULL; where that is hard to tell, not."""
    if isinstance(condition, exp.Not):
        test = unwrapped(condition.this)
        return isinstance(test, exp.Is) and isinstance(test.expression, exp.Null) and _is_null_with(test.this, relation)
    sides = [condition.this] if isinstance(condition, (*_COMPARISONS, exp.Like, exp.In, exp.Between)) else []
    sides += [condition.expression] if isinstance(condition, _COMPARISONS) else []
    return any(_is_null_with(side, relation) for side in sides)


def _is_null_with(value: exp.Expr, relation: str) -> bool:
    if isinstance(value, (exp.Paren, exp.Cast, exp.Neg)):
        return _is_null_with(value.this, relation)
    if isinstance(value, (exp.Add, exp.Sub, exp.Mul)):
        return _is_null_with(value.this, relation) or _is_null_with(value.expression, relation)
    return isinstance(value, exp.Column) and table_of(value) == relation != ""


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


def _met_by_joins(select: exp.Select, source: Source) -> Iterator[tuple[Reached, bool]]:
    """What SEMI and ANTI joins demand of the rows behind them, and whether that asks.

    Nothing of their relation can be a dependency there. Where a later join fills in NULLs for the rows that they left, these
    are rows of which they demand nothing.
    """
    joins = select.args.get("joins") or []
    for i, join in enumerate(joins):
        later = joins[i + 1 :]
        if any(other.args.get("method") or str(other.args.get("side") or "") not in ("", "LEFT") for other in later):
            continue
        kind, on = kind_of(join), join.args.get("on")
        if kind not in ("SEMI", "ANTI") or on is None or not (has_span(join) and has_span(on)):
            continue
        relation = _RELATION.match(source.text[span(join)[0] : span(on)[0]])
        if not relation or (holds_ai(on) and not _is_tellable(on)):
            continue
        test = "EXISTS" if kind == "SEMI" else "NOT EXISTS"
        if holds_ai(join.this):  # both are one text in which calls are replaced
            start = span(join)[0] + relation.start(1)
            yield Reached(start, span(on)[1], f"{test} (SELECT 1 FROM (SELECT 1) JOIN ", ")"), True
        else:
            yield Reached(*span(on), f"{test} (SELECT 1 FROM {relation[1]} WHERE ", ")"), holds_ai(on)


def _conditions(child: exp.Expr, around: exp.Expr, source: Source, asking: bool) -> Iterator[_Condition]:
    """What `around` says about when its part `child` is looked at."""
    if isinstance(around, exp.And):
        test = "IS TRUE" if at_root(around) else "IS NOT FALSE"
        yield from ((s, f"({source.sql(s)}) {test}") for s in _siblings(child, around, exp.And))
    elif isinstance(around, exp.Or):
        yield from ((s, f"({source.sql(s)}) IS NOT TRUE") for s in _siblings(child, around, exp.Or))
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
        yield from ((e, f"({source.sql(e)}) IS NULL") for e in _earlier(child, around) if asking or not holds_ai(e))
    elif isinstance(around, exp.Filter) and child is around.this:
        yield from ((s, f"({source.sql(s)}) IS TRUE") for s in operands(around.expression.this, exp.And) if not holds_ai(s))


def _siblings(child: exp.Expr, around: exp.Expr, connector: type[exp.Expr]) -> list[exp.Expr]:
    other = around.expression if child is around.this else around.this
    join = around.find_ancestor(exp.Join, exp.Select)
    # DuckDB binds a subquery in the ON of a SEMI or ANTI join, but not a copy of it inside a function's arguments.
    bound = not isinstance(join, exp.Join) or kind_of(join) not in ("SEMI", "ANTI")
    return [s for s in operands(other, connector) if not holds_ai(s) and has_span(s) and (bound or not s.find(exp.Query))]


def _failed(case: exp.Case, before: exp.If | None, source: Source, asking: bool) -> Iterator[_Condition]:
    """The conditions of a CASE that failed when its branch `before` (None: its ELSE) is looked at."""
    for branch in case.args["ifs"]:
        if branch is before:
            return
        yield from _held(branch, "IS NOT TRUE", source, asking)


def _held(branch: exp.If, test: str, source: Source, asking: bool) -> Iterator[_Condition]:
    """The condition of an IF or of one WHEN with a test behind it; nothing where an AI call decides it."""
    subject = branch.parent.this if isinstance(branch.parent, exp.Case) else None
    if asking or not (holds_ai(branch.this) or holds_ai(subject)):
        condition = source.sql(branch.this)
        if subject is None:
            yield branch.this, f"({condition}) {test}"
        else:
            yield subject, f"(({source.sql(subject)}) = ({condition})) {test}"


def at_root(node: exp.Expr) -> bool:
    """Whether an AND is the condition of its clause itself, so that what is not TRUE is dropped."""
    around = node.parent
    while isinstance(around, (exp.And, exp.Paren)):
        around = around.parent
    return isinstance(around, _ROOTS)


def grouped(scope: exp.Select) -> bool:
    """Whether the scope's select list sees groups, where a plain column may not stand."""
    if scope.args.get("group") or scope.args.get("having"):
        return True
    return any(_own_aggregate(item, scope) for item in scope.expressions)


def _own_aggregate(item: exp.Expr, scope: exp.Select) -> bool:
    # A function that sqlglot does not know may be an aggregate of DuckDB's.
    found = (a for a in item.find_all(exp.AggFunc, exp.Anonymous) if a.name.upper() != "PROMPT")
    return any(a.find_ancestor(exp.Select) is scope and a.find_ancestor(exp.Window) is None for a in found)
