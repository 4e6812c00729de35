"""Where an expression stands: its scope (the SELECT or set operation around it) and the clause of that scope."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import takewhile

from sqlglot import exp

from quail_engine.sql.aliases import is_within, item_of
from quail_engine.sql.dialect import OF_ITEMS, AiFunction, restore_from


class Clause(IntEnum):
    """The clauses of a scope in the order in which SQL evaluates them."""

    FROM = 0
    ON = 1
    WHERE = 2
    GROUP = 3
    HAVING = 4
    SELECT = 5
    QUALIFY = 6
    ORDER = 7


_CLAUSE_OF_ARG = {
    "with_": Clause.FROM,
    "from_": Clause.FROM,
    "laterals": Clause.FROM,
    "joins": Clause.ON,
    "where": Clause.WHERE,
    "group": Clause.GROUP,
    "having": Clause.HAVING,
    "expressions": Clause.SELECT,
    "distinct": Clause.SELECT,
    "windows": Clause.SELECT,
    "qualify": Clause.QUALIFY,
    "order": Clause.ORDER,
    "limit": Clause.ORDER,
    "offset": Clause.ORDER,
}


def clause_of(child: exp.Expr) -> Clause:
    """The clause of a direct part of a SELECT or set operation."""
    return _CLAUSE_OF_ARG.get(str(child.arg_key), Clause.SELECT)


@dataclass(frozen=True)
class Place:
    scope: exp.Expr  # the nearest SELECT or set operation around, else the whole query
    clause: Clause
    join: exp.Join | None  # the join whose ON it stands in


def place_of(node: exp.Expr) -> Place:
    """The scope and clause of an expression inside a query."""
    child, around = node, node.parent
    join: exp.Join | None = None
    while around is not None and not isinstance(around, (exp.Select, exp.SetOperation)):
        if isinstance(around, exp.Join) and is_within(node, around.args.get("on")):
            join = join or around  # the innermost, where joins stand in brackets
        child, around = around, around.parent
    if around is None:  # VALUES alone: no relation, no clause
        return Place(child, Clause.SELECT, None)
    clause = clause_of(child)
    if join is not None:
        clause = Clause.ON
    elif clause is Clause.ON:
        clause = Clause.FROM  # the joined relation itself, such as the argument of a table function
    return Place(around, clause, join)


def is_of_item(node: exp.Expr) -> bool:
    """Whether an expression is evaluated for each item of a list, and not for a row."""
    return isinstance(node.find_ancestor(*OF_ITEMS, exp.Select), OF_ITEMS)


def holds_ai(node: exp.Expr | None) -> bool:
    """Whether an expression's value depends on an AI call, its own or that of a select item that it names."""
    if node is None:
        return False
    return any(isinstance(part, AiFunction) or holds_ai(item_of(part)) for part in node.find_all(AiFunction, exp.Column))


def relations(select: exp.Select, up_to: exp.Join | None = None) -> Iterator[exp.Expr]:
    """The relations of a FROM clause that expressions can name, in order, up to and with a join.

    A join in brackets sees those in the brackets.
    """
    around = select if up_to is None or up_to.parent is None else up_to.parent
    source = around.args.get("from_")
    if around is select and source is None:
        return
    yield from _in_brackets(source.this) if source is not None else (around,)
    for join in around.args.get("joins") or ():
        if join is up_to or kind_of(join) not in ("SEMI", "ANTI"):
            yield from _in_brackets(join.this)
        if join is up_to:
            return
    yield from select.args.get("laterals") or ()


def _in_brackets(relation: exp.Expr) -> Iterator[exp.Expr]:
    """A relation, or those that it is a join of: `(a JOIN b ON …)`, or `a JOIN b ON …` that another ON follows."""
    if isinstance(relation, exp.Subquery) and not relation.alias and not isinstance(relation.this, exp.Query):
        yield from _in_brackets(relation.this)
        return
    yield relation
    for join in relation.args.get("joins") or ():
        if kind_of(join) not in ("SEMI", "ANTI"):
            yield from _in_brackets(join.this)


def names_inside(select: exp.Select) -> set[str]:
    """The names of the relations of a FROM clause, those of SEMI and ANTI joins, too; the empty one stands for any."""
    return {"", *map(name_of, relations(select)), *(name_of(join.this) for join in select.args.get("joins") or ())}


def columns_outside(select: exp.Select) -> tuple[str, ...]:
    """SQL of the columns of queries around that a query inside names: DuckDB joins their row to its rows."""
    if select.parent is None:
        return ()
    own = names_inside(select)
    columns = (column for column in select.find_all(exp.Column) if column.find_ancestor(exp.Select) is select)
    outside = (column for column in columns if table_of(column) not in own and not isinstance(column.this, exp.Star))
    return tuple(dict.fromkeys(column.sql(dialect="duckdb") for column in outside))


def visible_ctes(select: exp.Select) -> list[exp.CTE] | None:
    """The CTEs that a scope can name, outermost first; None where one of them may be recursive."""
    blocks: list[list[exp.CTE]] = []
    node: exp.Expr | None = select
    inside: exp.CTE | None = None  # the CTE that the walk has just come out of: it and those behind it cannot be named
    while node is not None:
        with_ = node.args.get("with_") if isinstance(node, exp.Query) else None
        if with_ is not None:
            if with_.args.get("recursive"):
                return None
            last = inside
            blocks.append(list(takewhile(lambda cte: cte is not last, with_.expressions)))  # noqa: B023 - used at once
        if isinstance(node, exp.CTE):
            inside = node
        elif not isinstance(node, exp.With):
            inside = None
        node = node.parent
    return [cte for block in reversed(blocks) for cte in block]


def settle_from(tree: exp.Expr) -> None:
    """Where FROM stands first sqlglot hangs the joins on the first table; they are the SELECT's, as everywhere."""
    for select in tree.find_all(exp.Select):
        restore_from(select)
        source = select.args.get("from_")
        first = source.this if source is not None else None
        joins = first.args.get("joins") if first is not None else None
        if first is not None and joins:
            first.set("joins", None)
            select.set("joins", [*joins, *(select.args.get("joins") or ())])


def kind_of(join: exp.Join) -> str:
    """SEMI, ANTI, CROSS, INNER, or empty where the text says none."""
    return str(join.args.get("kind") or "").upper()


def is_inner(join: exp.Join) -> bool:
    return not join.args.get("side") and kind_of(join) in ("", "INNER")


def name_of(node: exp.Expr) -> str:
    """The name that other parts use for a relation, a CTE or a select item; names do not tell capitals apart."""
    return str(node.alias_or_name).lower()


def table_of(column: exp.Column) -> str:
    """The relation that a column names; empty when it names none."""
    return str(column.table).lower()


def unwrapped(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def operands(node: exp.Expr, connector: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of a chain of AND (or OR), parentheses seen through where they hold another such chain."""
    inner = unwrapped(node)
    if isinstance(inner, connector):
        return operands(inner.this, connector) + operands(inner.expression, connector)
    return [node]
