"""Boolean expressions over cheap conditions and AI calls, as a tree: their SQL, and the guard of each call.

The guards say where SQL would look at a call. They are built from this tree and not from text, so that they share nothing with
`quail_engine.sql.guards`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """One AI call. `question` is what makes two calls ask the same: task, template, labels."""

    question: tuple[str, ...]
    before: str  # SQL in front of the arguments, such as AI_FILTER(PROMPT('…'
    arguments: tuple[str | Call, ...]  # SQL, or a call whose answer is the document
    after: str  # and behind them

    @property
    def sql(self) -> str:
        return f"{self.before}{', '.join(self.documents)}{self.after}"

    @property
    def documents(self) -> list[str]:
        """SQL of the arguments."""
        return [argument.sql if isinstance(argument, Call) else argument for argument in self.arguments]

    @property
    def is_constant(self) -> bool:
        """Whether no argument reads a column; such a call counts once wherever it stands."""
        return all(a.is_constant if isinstance(a, Call) else a.startswith("'") for a in self.arguments)


@dataclass(frozen=True)
class Cheap:
    """A condition without an AI call, or a subquery with some, which are sites of their own (`asks`)."""

    sql: str
    asks: bool = False


@dataclass(frozen=True)
class Asks:
    """A call made a condition: `AI_SCORE(…) > 0.5`."""

    call: Call
    test: str = ""

    @property
    def sql(self) -> str:
        return f"({self.call.sql}{self.test})" if self.test else self.call.sql


@dataclass(frozen=True)
class Node:
    """An operator and its operands. `case`: WHEN 0 THEN 1 [WHEN 2 THEN 3] ELSE last."""

    operator: str  # and | or | not | is null | case | if | coalesce | nullif
    operands: tuple[Expression, ...]

    @property
    def sql(self) -> str:
        parts = [operand.sql for operand in self.operands]
        if self.operator in ("and", "or"):
            return f"({f' {self.operator} '.join(parts)})"
        if self.operator == "not":
            return f"(not {parts[0]})"
        if self.operator == "is null":
            return f"({parts[0]} is null)"
        if self.operator == "case":
            branches = " ".join(f"when {parts[i]} then {parts[i + 1]}" for i in range(0, len(parts) - 1, 2))
            return f"(case {branches} else {parts[-1]} end)"
        return f"{self.operator}({', '.join(parts)})"


Expression = Cheap | Asks | Node


@dataclass(frozen=True)
class Guarded:
    """A call with the conditions under which SQL looks at it, and the operators around it."""

    call: Call
    guard: tuple[str, ...]
    around: tuple[str, ...]


def calls_of(node: Expression) -> list[Call]:
    """Every call of an expression, those in arguments of others too."""
    if isinstance(node, Asks):
        return list(_with_inner(node.call))
    return [] if isinstance(node, Cheap) else [call for operand in node.operands for call in calls_of(operand)]


def asks(node: Expression) -> bool:
    return node.asks if isinstance(node, Cheap) else bool(calls_of(node)) or any(map(asks, _operands(node)))


def _operands(node: Expression) -> tuple[Expression, ...]:
    return node.operands if isinstance(node, Node) else ()


def chain(node: Expression, operator: str) -> list[Expression]:
    """The operands of a chain of one operator: `a and (b and c)` has three."""
    if isinstance(node, Node) and node.operator == operator:
        return [part for operand in node.operands for part in chain(operand, operator)]
    return [node]


def dropping_conjuncts(condition: Expression) -> list[str]:
    """What a condition that drops asks for beside its calls, such as a FILTER of the aggregate before it."""
    return [f"({part.sql}) is true" for part in chain(condition, "and") if not asks(part)]


def _with_inner(call: Call) -> Iterator[Call]:
    yield call
    for argument in call.arguments:
        if isinstance(argument, Call):
            yield from _with_inner(argument)


def guarded_calls(root: Expression, drops: bool) -> Iterator[Guarded]:
    """The calls of a whole condition. `drops`: the clause drops what is not TRUE (WHERE, ON, HAVING, QUALIFY, FILTER)."""
    return _walk(root, (), (), drops)


def _walk(node: Expression, guard: tuple[str, ...], around: tuple[str, ...], drops: bool) -> Iterator[Guarded]:
    if isinstance(node, Asks):
        inner = ("argument of a call",) if len(list(_with_inner(node.call))) > 1 else ()
        yield from (Guarded(call, guard, (*around, *inner)) for call in _with_inner(node.call))
    elif isinstance(node, Node):
        at_root = drops and node.operator == "and"
        for i, operand in enumerate(node.operands):
            conditions = _conditions(node, i, at_root)
            yield from _walk(operand, (*guard, *conditions), (*around, node.operator), at_root)


def _conditions(node: Node, at: int, at_root: bool) -> list[str]:
    """When operand `at` is looked at. Siblings in AND and OR that ask count as undecided; what CASE, IF and COALESCE look at
    first was answered before, so its real answer counts.
    """
    if node.operator in ("and", "or"):
        test = "is not true" if node.operator == "or" else "is true" if at_root else "is not false"
        siblings = [part for i, o in enumerate(node.operands) if i != at for part in chain(o, node.operator)]
        return [f"({sibling.sql}) {test}" for sibling in siblings if not asks(sibling)]
    if node.operator == "if":
        return [f"({node.operands[0].sql}) {'is true' if at == 1 else 'is not true'}"] if at else []
    if node.operator == "coalesce":
        return [f"({operand.sql}) is null" for operand in node.operands[:at]]
    if node.operator == "case":
        branch = at // 2 * 2  # the WHEN that `at` is, or belongs to; an ELSE follows all of them
        failed = [f"({node.operands[i].sql}) is not true" for i in range(0, branch, 2)]
        return failed + ([f"({node.operands[branch].sql}) is true"] if at % 2 else [])
    return []
