"""Levels: which AI calls wait for which. A call waits for the calls that decide whether, or about what, it is asked.

`level_calls` gives every call of a query its level. A call of level n is released when a round in which the calls below it
were released noted nothing new. What waits is listed in the functions below; siblings of one AND or OR share a level.
"""

from __future__ import annotations

from sqlglot import exp

from quail_engine.sql.aliases import item_of
from quail_engine.sql.dialect import AiFunction
from quail_engine.sql.scopes import Clause, clause_of, name_of

Levels = dict[int, int]
"""Level by `id` of the call's node; the tree outlives the mapping."""


def level_calls(query: exp.Expr) -> Levels:
    """The level of every AI call in a query, from 0 without gaps."""
    walk = _Walk({}, {})
    walk.query(query, 0)
    # A call that no clause led to (an unusual construct) waits for all others: rows stay right, rounds find its inputs.
    last = max(walk.levels.values(), default=-1) + 1
    for call in query.find_all(AiFunction):
        walk.levels.setdefault(id(call), last)
    return walk.levels


class _Walk:
    """Each method takes the first level that is free for what it visits, and returns the first that is free after it."""

    def __init__(self, levels: Levels, ctes: dict[str, int]) -> None:
        self.levels = levels
        self.ctes = ctes  # name of a CTE → first level after its calls

    def query(self, node: exp.Expr, base: int) -> int:
        """An inner scope: what stands around it waits for its calls."""
        if isinstance(node, exp.Subquery):
            return self._with_modifiers(node, self.query(node.this, base), base)
        for cte in node.args["with_"].expressions if node.args.get("with_") else ():
            self.ctes[name_of(cte)] = self.query(cte.this, base)
        if isinstance(node, exp.SetOperation):
            arms = max(self.query(node.this, base), self.query(node.expression, base))
            return self._with_modifiers(node, arms, base)
        if isinstance(node, exp.Select):
            return self._select(node, base)
        return self.clause([node], base)  # VALUES or PIVOT alone: the queries inside come first there, too

    def _with_modifiers(self, node: exp.Expr, after: int, base: int) -> int:
        for key in ("order", "limit", "offset"):
            part = node.args.get(key)
            after = self.clause([part], max(after, base)) if part is not None else after
        return after

    def _select(self, select: exp.Select, base: int) -> int:
        """Clause after clause, in the order in which SQL evaluates them."""
        free = max([base, *(self.ctes.get(table.name.lower(), base) for table in select.find_all(exp.Table))])
        parts: dict[Clause, list[exp.Expr]] = {clause: [] for clause in Clause}
        for child in select.iter_expressions():
            if isinstance(child, exp.Join):
                parts[Clause.FROM].append(child.this)
                parts[Clause.ON] += [child.args["on"]] if child.args.get("on") is not None else []
            elif not isinstance(child, exp.With):
                parts[clause_of(child)].append(child)
        for clause in Clause:
            free = self.clause(parts[clause], free)
        return free

    def clause(self, roots: list[exp.Expr], base: int) -> int:
        """The clause's inner scopes first, then its own calls, which wait for them."""
        free = base
        for root in roots:
            for scope in _inner_scopes(root):
                free = max(free, self.query(scope, base))
        return max([free, *(self.expression(root, free) for root in roots)])

    def expression(self, node: exp.Expr, base: int) -> int:
        """A call waits for calls in its arguments; a CASE, COALESCE or NULLIF is looked at from left to right."""
        if isinstance(node, AiFunction) and id(node) in self.levels:
            return self.levels[id(node)] + 1
        if isinstance(node, AiFunction):
            level = max([base, *(self.expression(argument, base) for argument in node.expressions)])
            self.levels[id(node)] = level
            return level + 1
        if isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation)):
            return base
        if (item := item_of(node)) is not None:  # a call that is named earlier than it is written is asked there
            return self.expression(item, base)
        if isinstance(node, exp.Case):
            return self._case(node, base)
        if isinstance(node, exp.If):
            after = self.expression(node.this, base)
            return max(
                [after, *(self.expression(b, after) for b in (node.args.get("true"), node.args.get("false")) if b is not None)]
            )
        if isinstance(node, (exp.Coalesce, exp.Nullif)):
            for part in node.iter_expressions():
                base = self.expression(part, base)
            return base
        return max([base, *(self.expression(child, base) for child in node.iter_expressions())])

    def _case(self, case: exp.Case, base: int) -> int:
        free = self.expression(case.this, base) if case.this is not None else base
        last = free
        for branch in case.args["ifs"]:
            free = self.expression(branch.this, free)
            last = max(last, self.expression(branch.args["true"], free))
        default = case.args.get("default")
        return max(free, last, self.expression(default, free) if default is not None else free)


def _inner_scopes(root: exp.Expr) -> list[exp.Expr]:
    """The outermost queries inside a clause, in text order; those inside an AI call's arguments too."""
    found: list[exp.Expr] = []

    def visit(node: exp.Expr) -> None:
        if isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation)):
            found.append(node)
            return
        for child in node.iter_expressions():
            visit(child)

    visit(root)
    return found
