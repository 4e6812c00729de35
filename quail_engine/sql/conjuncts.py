"""Conditions of one AND: where the whole must be TRUE, one that is not makes all others needless.

`find_conjunctions` finds the ANDs whose order of asking is free. `ordered` gives every call of such an AND what it waits for: a
row is asked about a condition once those before it are known to be TRUE of it. Rows stay what they are, because a row that a
condition does not keep is dropped whatever the others would say.

An OR is such a conjunction, too, of its operands being not TRUE, and an AND inside an expression one of its operands being not
FALSE (`junctions`): there a row goes on to the next condition once those before it are settled and leave the whole open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from sqlglot import exp

from quail_engine.calls import AiCall, Turn
from quail_engine.sql.aliases import item_of
from quail_engine.sql.dialect import OF_ITEMS, AiFunction, has_span, span
from quail_engine.sql.guards import grouped
from quail_engine.sql.options import chooses
from quail_engine.sql.pairs import readable_ctes
from quail_engine.sql.scopes import holds_ai, operands, unwrapped

# Between a condition and its call: here a call is asked about other rows than those that the condition is about.
_BOOLEAN = ("AI_FILTER", "AI_JOIN")
_OTHER_ROWS = (exp.AggFunc, exp.Window, *OF_ITEMS, exp.Anonymous)


class Passes(str, Enum):
    """What a condition must be of a row for the next one to matter."""

    TRUE = "IS TRUE"  # in an AND where NULL is as good as FALSE
    NOT_FALSE = "IS NOT FALSE"  # in another AND
    NOT_TRUE = "IS NOT TRUE"  # in an OR


_DECIDES = {Passes.TRUE: "IS NOT TRUE", Passes.NOT_FALSE: "IS FALSE", Passes.NOT_TRUE: "IS TRUE"}


@dataclass(frozen=True)
class Conjunct:
    """A condition that holds AI calls, one of an AND's or OR's. Positions are offsets into the query's text."""

    start: int
    end: int
    calls: tuple[int, ...]  # indexes of its calls, in text order
    negated: bool | None = None  # it is an AI_FILTER (False), or NOT one (True); None: it is something else
    passes: Passes = Passes.TRUE
    operands: tuple[Conjunct, ...] = ()  # those of it that ask, where it is an AND or OR of which several do

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
    guard: str = ""  # SQL that is TRUE where an AND or OR inside an expression is looked at, and nothing else decides it


@dataclass(frozen=True)
class Conjunction:
    """The conditions of one AND, or OR, that ask."""

    conjuncts: Order  # in the order of the text
    space: RowSpace | None  # None where the rows cannot be listed before something is asked
    whole: bool = True  # it is a clause's whole condition


def find_conjunctions(tree: exp.Expr, nodes: Sequence[AiFunction]) -> tuple[Conjunction, ...]:
    """The ANDs of which more than one condition asks, in text order: those that are the whole condition of a clause."""
    found = []
    for clause, condition in clause_conditions(tree):
        parts = [part for part in operands(condition, exp.And) if holds_ai(part)]
        conjuncts = tuple(conjunct_of(part, nodes) for part in parts if is_free(part))
        if len(conjuncts) > 1:
            found.append(Conjunction(conjuncts, _row_space(clause)))
    return tuple(sorted(found, key=lambda conjunction: conjunction.conjuncts[0].start))


def conjunct_of(part: exp.Expr, nodes: Sequence[AiFunction], passes: Passes = Passes.TRUE) -> Conjunct:
    """A condition with its calls."""
    inside = tuple(i for i, node in enumerate(nodes) if any(node is inner for inner in part.find_all(AiFunction)))
    inner = unwrapped(part)
    negated = isinstance(inner, exp.Not)
    plain = unwrapped(inner.this) if negated else inner
    bare = isinstance(plain, AiFunction) and len(inside) == 1 and plain.name in _BOOLEAN and not chooses(plain.expressions)
    return Conjunct(*span(part), inside, negated if bare else None, passes, _operands(inner, nodes))


def _operands(node: exp.Expr, nodes: Sequence[AiFunction]) -> tuple[Conjunct, ...]:
    if not isinstance(node, (exp.And, exp.Or)):
        return ()
    asking = [part for part in operands(node, type(node)) if holds_ai(part)]
    passes = Passes.NOT_FALSE if isinstance(node, exp.And) else Passes.NOT_TRUE
    return tuple(conjunct_of(part, nodes, passes) for part in asking) if len(asking) > 1 and all(map(has_span, asking)) else ()


def ordered(
    calls: Sequence[AiCall], orders: Sequence[Order], together: Sequence[Order] = (), out_of_turn: Collection[int] = ()
) -> tuple[AiCall, ...]:
    """The calls, each asked where the conditions before its own leave the whole open; those of one of `together` at once.

    A call that is a condition beside it counts, too, as far as the store knew it, and one after it that was asked
    `out_of_turn`: where that decides the call is needless. Not so a condition that is made of calls: IS TRUE and COALESCE are
    FALSE also of what nobody knows.
    """
    found = list(calls)
    for order in orders:
        steps = _steps(order, together)
        decides = _DECIDES[order[0].passes]
        # Of what is known nothing but FALSE decides a clause's AND: NULL may be what nobody knows.
        known = "IS FALSE" if decides == "IS NOT TRUE" else decides
        for place, step in enumerate(steps):
            turns = tuple(Turn(*conjunct.span, decides) for before in steps[:place] for conjunct in before)
            after = [c for later in steps[place + 1 :] for c in later if c.calls[0] in out_of_turn]
            for conjunct in step:
                unless = tuple(Turn(*c.span, known) for c in (*step, *after) if c is not conjunct and c.negated is not None)
                # DuckDB stops at the first condition that is not TRUE, and would meet no input of the others.
                stops = conjunct.passes is not Passes.NOT_TRUE
                beside = tuple(i for other in step if stops and other is not conjunct for i in other.calls)
                for i in conjunct.calls:
                    call = found[i]
                    found[i] = replace(call, turns=call.turns + turns, unless=call.unless + unless, beside=call.beside + beside)
    return tuple(found)


def _steps(order: Order, together: Sequence[Order]) -> list[Order]:
    """An order as what is asked at once, one after the other."""
    return list(dict.fromkeys(next((group for group in together if c in group), (c,)) for c in order))


def clause_conditions(tree: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
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
    return row_space(clause.parent) if isinstance(clause, exp.Where) and isinstance(clause.parent, exp.Select) else None


def row_space(select: exp.Select) -> RowSpace | None:
    """Of a WHERE over one relation, whose rows depend on no answer and on no row of a query around."""
    if select.args.get("joins"):
        return None
    source, ctes, where = select.args.get("from_"), readable_ctes(select), select.args.get("where")
    if source is None or not has_span(source) or ctes is None or select.args.get("laterals"):
        return None
    kept = [part for part in operands(where.this, exp.And) if not holds_ai(part)] if where is not None else []
    parts = (source, *kept)
    if any(holds_ai(part) or not has_span(part) or part.find(exp.TableSample) for part in parts):
        return None
    if any(item_of(column) is not None for part in parts for column in part.find_all(exp.Column)):
        return None  # a listing has no select item that a condition could name
    return RowSpace(tuple(map(span, ctes)), span(source), tuple(map(span, kept)))


def is_free(part: exp.Expr) -> bool:
    """Whether a condition's place in an order is free: its calls see no other rows than itself, and it can be copied."""
    named = any(item_of(column) is not None for column in part.find_all(exp.Column))
    if named or not has_span(part) or part.find(exp.Query, exp.Star, exp.Columns):
        return False
    return not any(_sees_other_rows(node, part) for node in part.find_all(AiFunction))


def _sees_other_rows(node: exp.Expr, part: exp.Expr) -> bool:
    around: exp.Expr | None = node
    while around is not part and around is not None:
        around = around.parent
        if isinstance(around, _OTHER_ROWS) and not isinstance(around, AiFunction) and around.name.upper() != "PROMPT":
            return True
    return False
