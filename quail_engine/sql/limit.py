"""LIMIT: what a query that gives fewer rows than it reads need not ask.

Its conditions may stop as soon as it has its rows, where a row that is kept while open questions count as NULL is kept whatever
their answers are: between the calls and the LIMIT stand only conditions in which NULL never turns into TRUE, and joins that
never fill in NULLs. ORDER BY may stand there when it holds no AI call: then the first rows in that order that are not yet
refused are the only ones to ask about. Calls of the select list that nothing else reads are asked of the rows that come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from quail_engine.sql.aliases import is_within, item_of
from quail_engine.sql.conjuncts import Conjunct, conjunct_of
from quail_engine.sql.dialect import AiFunction, has_span, span
from quail_engine.sql.guards import grouped, guard_of
from quail_engine.sql.junctions import is_monotone
from quail_engine.sql.pairs import joins_only_drop
from quail_engine.sql.scopes import Clause, holds_ai, is_inner, is_of_item, name_of, operands, place_of, table_of, visible_ctes
from quail_engine.sql.source import Source

_PASSES_ON = ("expressions", "from_", "with_")
_CUTS = ("limit", "offset")
_ALL_ROWS = ("group", "having", "distinct", "sample")


@dataclass(frozen=True)
class Shown:
    """A call that only shows something of the rows that come out: nothing else of the query reads it."""

    call: int
    guard: str  # TRUE where SQL would look at the call, told by other AI calls too


@dataclass(frozen=True)
class Added:
    """Where columns can be added behind those of a query."""

    at: int  # the end of its select list
    select: str  # what makes one at `at`, where there is none: `FROM t` alone
    passed_on: tuple[int, ...]  # the ends of the lists around it, which name the columns of the query that they pass on


@dataclass(frozen=True)
class RowLimit:
    """A query that gives fewer rows than it reads. Positions are offsets into the query's text."""

    conjuncts: tuple[Conjunct, ...]  # the conditions of a query that stops at its LIMIT; none where it needs all rows
    rows: int  # that LIMIT, and its OFFSET
    offset: int
    shown: tuple[Shown, ...]
    added: Added  # where columns come behind the select list
    cut: tuple[int, int]  # LIMIT and OFFSET; empty in a query that has neither, but QUALIFY
    another_key: str  # what one more key of ORDER BY would begin with before `cut`; empty where none can stand
    ordered: bool

    @property
    def deciding(self) -> tuple[int, ...]:
        """The calls that decide which rows there are."""
        return tuple(i for conjunct in self.conjuncts for i in conjunct.calls)

    @property
    def calls(self) -> tuple[int, ...]:
        """All calls that are asked about single rows."""
        return (*self.deciding, *(shown.call for shown in self.shown))


def find_limit(tree: exp.Expr, nodes: Sequence[AiFunction], source: Source) -> RowLimit | None:
    """What a query that gives fewer rows than it reads need not ask; None where it asks about all rows."""
    outermost = _unwrapped(tree)
    select, around = _passed_through(outermost)
    if not isinstance(select, exp.Select) or any(select.args.get(key) for key in _ALL_ROWS) or grouped(select):
        return None
    limit, offset = outermost.args.get("limit"), outermost.args.get("offset")
    if select is not outermost and any(select.args.get(key) for key in _CUTS):
        return None
    cuts = [cut for cut in (limit, offset) if cut is not None]
    added = _added(select, around)
    if not (cuts or select.args.get("qualify")) or added is None:
        return None
    stops = _number(limit) and (offset is None or _number(offset) is not None)
    conjuncts = _stopping(select, nodes) if stops else ()
    read = _columns_read(around)
    shown = tuple(
        Shown(i, guard_of(node, source, asking=True))
        for i, node in enumerate(nodes)
        if _only_shows(node, select) and (read is None or _item_name(node, select) in read)
    )
    if not (conjuncts or shown):
        return None
    return RowLimit(
        conjuncts=conjuncts,
        rows=_number(limit) or 0,
        offset=_number(offset) or 0,
        shown=shown,
        added=added,
        cut=(min(span(cut)[0] for cut in cuts), max(span(cut)[1] for cut in cuts)) if cuts else (0, 0),
        another_key=_another_key(select) if cuts and select is outermost else "",
        ordered=select.args.get("order") is not None,
    )


def _another_key(select: exp.Select) -> str:
    order = select.args.get("order")
    if order is None:
        return "ORDER BY "
    return "" if any(isinstance(key.this, exp.Var) for key in order.expressions) else ", "  # ORDER BY ALL takes no other


def _unwrapped(tree: exp.Expr) -> exp.Expr:
    """The query in the brackets of `create table t as (select …)`."""
    while isinstance(tree, exp.Subquery) and not any(
        tree.args.get(key) for key in ("limit", "offset", "order", "with_", "alias")
    ):
        tree = tree.this
    return tree


def _passed_through(query: exp.Expr) -> tuple[exp.Expr, list[exp.Select]]:
    """The query whose rows come out, and those around it that pass them on, outermost first.

    Of `with final as (select …) select id, score from final limit 5` the one in brackets.
    """
    select, around = query, []
    while isinstance(select, exp.Select) and (inner := _passed_on(select, query)) is not None:
        around.append(select)
        select = inner
    return select, around


def _added(select: exp.Select, around: Sequence[exp.Select]) -> Added | None:
    """Where columns can be added behind those of `select`; None where the text has no place for them."""
    naming = [outer.expressions[-1] for outer in around if not _is_bare_star(outer)]
    last, source = select.expressions[-1:], select.args.get("from_")
    if not last or not all(map(has_span, naming)):
        return None
    passed_on = tuple(span(item)[1] for item in naming)
    if has_span(last[0]):
        return Added(span(last[0])[1], "", passed_on)
    if source is None or not has_span(source) or not _is_bare_star(select):
        return None
    return Added(span(source)[0], "SELECT *", passed_on)


def _is_bare_star(select: exp.Select) -> bool:
    return all(isinstance(item, exp.Star) and not any(item.args.values()) for item in select.expressions)


def _columns_read(around: Sequence[exp.Select]) -> set[str] | None:
    """The names of the columns of the query inside that queries around it pass on; None: all."""
    read: set[str] | None = None
    for outer in around:
        if not _is_bare_star(outer):
            read = {item.unalias().name.lower() for item in outer.expressions if read is None or name_of(item) in read}
    return read


def _item_name(node: AiFunction, select: exp.Select) -> str:
    """The name of the select item that holds a call; empty where it has none of its own."""
    item = next(item for item in select.expressions if is_within(node, item))
    return name_of(item) if isinstance(item, exp.Alias) else ""


def _passed_on(select: exp.Select, query: exp.Expr) -> exp.Select | None:
    """The query inside, where a query gives its rows as they are: * or columns from it alone, and nobody else reads it."""
    relation = select.args["from_"].this if select.args.get("from_") is not None else None
    if relation is None or not (_is_bare_star(select) or all(_is_column(item, relation) for item in select.expressions)):
        return None
    passes = (*_PASSES_ON, *_CUTS) if select is query else _PASSES_ON  # a second cut would cut among open rows
    if any(value for key, value in select.args.items() if key not in passes):
        return None
    if any(value for key, value in relation.args.items() if key not in ("this", "alias")) or relation.alias_column_names:
        return None
    inner = relation.this if isinstance(relation, exp.Subquery) else None
    if isinstance(relation, exp.Table):
        name = relation.name.lower()
        ctes = [cte for cte in visible_ctes(select) or () if name_of(cte) == name and not cte.alias_column_names]
        read = sum(1 for table in query.find_all(exp.Table) if table.name.lower() == name)
        inner = ctes[0].this if len(ctes) == 1 and read == 1 else None
    return inner if isinstance(inner, exp.Select) else None


def _is_column(item: exp.Expr, relation: exp.Expr) -> bool:
    """Whether a select item is a column of a relation, and not the relation itself, which is a struct of all its columns."""
    column: exp.Expr = item.unalias()
    names = {name_of(relation), relation.name.lower()}
    if not isinstance(column, exp.Column) or not isinstance(column.this, exp.Identifier) or column.args.get("db"):
        return False
    return column.name.lower() not in names and table_of(column) in {"", *names}


def _only_shows(node: AiFunction, select: exp.Select) -> bool:
    """Whether a call is a part of an item of the select list, evaluated a row, and nothing else reads it."""
    if not _in_select_list(node, select) or is_of_item(node):
        return False
    if node.find(exp.Star, exp.Columns):  # a star makes several calls, one a column
        return False
    readers = [select.args[key] for key in ("where", "qualify", "order") if select.args.get(key) is not None]
    readers += [join.args["on"] for join in select.args.get("joins") or () if join.args.get("on") is not None]
    readers += [part for item in select.expressions for part in item.find_all(exp.AggFunc, exp.Window)]
    readers += _numbered_items(select)
    return not any(is_within(node, reader) or _names(reader, node) for reader in readers)


def _numbered_items(select: exp.Select) -> list[exp.Expr]:
    """The select items that ORDER BY names by number or by ALL; all of them where the number cannot be told."""
    order = select.args.get("order")
    keys = [key.this for key in order.expressions] if order is not None else []
    items = select.expressions
    if any(isinstance(key, exp.Var) for key in keys) or any(item.find(exp.Star, exp.Columns) for item in items):
        return list(items) if any(isinstance(key, (exp.Literal, exp.Var)) for key in keys) else []
    numbers = [int(key.this) for key in keys if isinstance(key, exp.Literal) and key.is_int]
    return [items[number - 1] for number in numbers if 0 < number <= len(items)]


def _names(reader: exp.Expr, node: AiFunction) -> bool:
    """Whether a part of the query reads a call by the name of its select item."""
    items = (item_of(column) for column in reader.find_all(exp.Column))
    return any(is_within(node, item) or _names(item, node) for item in items if item is not None)


def _stopping(select: exp.Select, nodes: Sequence[AiFunction]) -> tuple[Conjunct, ...]:
    """The conditions at which a query may stop as soon as it has its rows; none where it may not, or has none."""
    if not joins_only_drop(select) or select.args.get("qualify") or any(item.find(exp.Window) for item in select.expressions):
        return ()
    if not _order_is_known(select):
        return ()
    deciding = [node for node in nodes if not _in_select_list(node, select)]
    conjuncts = _conjuncts(select, nodes)
    if conjuncts is None or sum(len(c.calls) for c in conjuncts) != len(deciding):
        return ()
    return conjuncts


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
        named = any(holds_ai(item_of(column)) for column in part.find_all(exp.Column))
        if named or not has_span(part) or not all(is_monotone(node, part) for node in part.find_all(AiFunction)):
            return None
        found.append(conjunct_of(part, nodes))
    return tuple(found)
