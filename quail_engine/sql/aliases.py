"""Names of select items: DuckDB lets WHERE, ORDER BY and other items use them, so a name can stand for an AI call."""

from __future__ import annotations

from sqlglot import exp

_ITEM = "quail_item"


def note_aliases(tree: exp.Expr) -> None:
    """Marks every plain column that names a select item of its own scope (`item_of`)."""
    for select in tree.find_all(exp.Select):
        items = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
        for star in (star for item in select.expressions for star in item.find_all(exp.Star)):
            items |= {r.alias.lower(): r.this for r in star.args.get("replace") or () if isinstance(r, exp.Alias)}
        for column in select.find_all(exp.Column) if items else ():
            item = None if column.table else items.get(column.name.lower())
            if item is not None and column.find_ancestor(exp.Select) is select and not is_within(column, item):
                column.meta[_ITEM] = item


def item_of(column: exp.Expr) -> exp.Expr | None:
    """The expression of the select item that a column names, if it names one.

    A relation may have a column of that name, which DuckDB would take: then this is one question more to wait for, never a
    wrong row.
    """
    found = column.meta.get(_ITEM)
    return found if isinstance(found, exp.Expr) else None


def is_within(node: exp.Expr, around: exp.Expr | None) -> bool:
    """Whether `around` is a node or one of its ancestors."""
    parent: exp.Expr | None = node
    while parent is not None:
        if parent is around:
            return True
        parent = parent.parent
    return False
