"""Conditions of one AND: where the whole must be TRUE, one that is not makes all others needless.

`find_conjunctions` finds the ANDs whose order of asking is free. `ordered` gives every call of such an AND what it waits for: a
row is asked about a condition once those before it are known to be TRUE of it. Rows stay what they are, because a row that a
condition does not keep is dropped whatever the others would say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from quail_engine.calls import AiCall, Reached
from quail_engine.sql.aliases import item_of
from quail_engine.sql.dialect import AiFunction, has_span, span
from quail_engine.sql.guards import grouped
from quail_engine.sql.pairs import readable_ctes
from quail_engine.sql.scopes import holds_ai, operands, unwrapped

# Between a condition and its call: here a call is asked about other rows than those that the condition is about.
_BOOLEAN = ("AI_FILTER", "AI_JOIN")
_OTHER_ROWS = (exp.AggFunc, exp.Window, exp.Lambda, exp.Anonymous)


@dataclass(frozen=True)
class Conjunct:
    """A condition that holds AI calls, one of an AND's. Positions are offsets into the query's text."""

    start: int
    end: int
    calls: tuple[int, ...]  # indexes of its calls, in text order
    negated: bool | None = None  # it is an AI_FILTER (False), or NOT one (True); None: it is something else

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end


Order = tuple[Conjunct, ...]
"""Conditions of one AND, in the order in which they are asked."""


@dataclass(frozen=True)
class RowSpace:
    """The rows that an AND is asked about, as one query can list them. Spans are offsets into the query's text."""

    ctes: tuple[tuple[int, int], ...]  # the CTEs that the relation can read
    source: tuple[int, int]  # FROM
    conditions: tuple[tuple[int, int], ...]  # the AND's conditions that ask nothing


@dataclass(frozen=True)
class Conjunction:
    """The conditions of one AND that ask."""

    conjuncts: Order  # in the order of the text
    space: RowSpace | None  # None where the rows cannot be listed before something is asked


def find_conjunctions(tree: exp.Expr, nodes: Sequence[AiFunction]) -> tuple[Conjunction, ...]:
    """The ANDs of which more than one condition asks, in text order: those that are the whole condition of a clause."""
    found = []
    for clause, condition in _conditions(tree):
        parts = [part for part in operands(condition, exp.And) if holds_ai(part)]
        conjuncts = tuple(conjunct for part in parts if (conjunct := _conjunct(part, nodes)) is not None)
        if len(conjuncts) > 1:
            found.append(Conjunction(conjuncts, _row_space(clause)))
    return tuple(sorted(found, key=lambda conjunction: conjunction.conjuncts[0].start))


def conjunct_of(part: exp.Expr, nodes: Sequence[AiFunction]) -> Conjunct:
    """A condition with its calls."""
    inside = tuple(i for i, node in enumerate(nodes) if any(node is inner for inner in part.find_all(AiFunction)))
    inner = unwrapped(part)
    negated = isinstance(inner, exp.Not)
    plain = unwrapped(inner.this) if negated else inner
    bare = isinstance(plain, AiFunction) and len(inside) == 1 and plain.name in _BOOLEAN
    return Conjunct(*span(part), inside, negated if bare else None)


def ordered(
    calls: Sequence[AiCall], orders: Sequence[Order], together: Sequence[Order] = (), out_of_turn: Collection[int] = ()
) -> tuple[AiCall, ...]:
    """The calls, each asked where the conditions before its own are TRUE; those of one of `together` at once.

    A call that is a condition beside it counts, too, as far as the store knew it, and one after it that was asked
    `out_of_turn`: where that is FALSE the call is needless. Not so a condition that is made of calls: IS TRUE and COALESCE are
    FALSE also of what nobody knows.
    """
    found = list(calls)
    for order in orders:
        steps = _steps(order, together)
        for place, step in enumerate(steps):
            reached = tuple(_before(steps[:place]))
            after = [c for later in steps[place + 1 :] for c in later if c.calls[0] in out_of_turn]
            for conjunct in step:
                unless = tuple(c.span for c in (*step, *after) if c is not conjunct and c.negated is not None)
                # DuckDB stops at the first condition that is not TRUE, and would meet no input of the others.
                beside = tuple(i for other in step if other is not conjunct for i in other.calls)
                for i in conjunct.calls:
                    found[i] = replace(found[i], reached=(*found[i].reached, *reached), unless=unless, beside=beside)
    return tuple(found)


def _steps(order: Order, together: Sequence[Order]) -> list[Order]:
    """An order as what is asked at once, one after the other."""
    return list(dict.fromkeys(next((group for group in together if c in group), (c,)) for c in order))


def _before(steps: Sequence[Order]) -> Iterator[Reached]:
    """As many conditions as are TRUE together only where all are: a call's is TRUE only where it was asked."""
    for step in reversed(steps):
        yield from (Reached(*conjunct.span) for conjunct in step)
        if any(conjunct.negated is not None for conjunct in step):
            return


def _conditions(tree: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """WHERE, ON, QUALIFY and FILTER with their whole conditions.

    Not HAVING, where a call may have to be that of GROUP BY, to the byte.
    """
    for clause in tree.find_all(exp.Where, exp.Qualify, exp.Join):
        if isinstance(clause, exp.Qualify) and isinstance(clause.parent, exp.Select) and grouped(clause.parent):
            continue
        condition = clause.args.get("on") if isinstance(clause, exp.Join) else clause.this
        if isinstance(condition, exp.Expr):
            yield clause, condition


def _row_space(clause: exp.Expr) -> RowSpace | None:
    """Of a WHERE over one relation, whose rows depend on no answer and on no row of a query around."""
    select = clause.parent
    if not isinstance(clause, exp.Where) or not isinstance(select, exp.Select) or select.args.get("joins"):
        return None
    source, ctes = select.args.get("from_"), readable_ctes(select)
    if source is None or not has_span(source) or ctes is None or select.args.get("laterals"):
        return None
    kept = [part for part in operands(clause.this, exp.And) if not holds_ai(part)]
    parts = (source, *kept)
    if any(holds_ai(part) or not has_span(part) or part.find(exp.TableSample) for part in parts):
        return None
    if any(item_of(column) is not None for part in parts for column in part.find_all(exp.Column)):
        return None  # a listing has no select item that a condition could name
    return RowSpace(tuple(map(span, ctes)), span(source), tuple(map(span, kept)))


def _conjunct(part: exp.Expr, nodes: Sequence[AiFunction]) -> Conjunct | None:
    """A condition whose place in the order is free; None where its calls see other rows, or where it cannot be copied."""
    named = any(item_of(column) is not None for column in part.find_all(exp.Column))
    if named or not has_span(part) or part.find(exp.Query, exp.Star, exp.Columns):
        return None
    inside = list(part.find_all(AiFunction))
    if any(_sees_other_rows(node, part) for node in inside):
        return None
    return conjunct_of(part, nodes)


def _sees_other_rows(node: exp.Expr, part: exp.Expr) -> bool:
    around: exp.Expr | None = node
    while around is not part and around is not None:
        around = around.parent
        if isinstance(around, _OTHER_ROWS) and not isinstance(around, AiFunction) and around.name.upper() != "PROMPT":
            return True
    return False
