"""From SQL text to a `Query`: every AI call found, checked, guarded and levelled. Nothing has run yet."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from quail_engine.calls import AiCall
from quail_engine.errors import SqlError, UnreadableError
from quail_engine.sql.aliases import note_aliases
from quail_engine.sql.choices import Choice, after_filters, choice_of
from quail_engine.sql.conjuncts import Conjunction, find_conjunctions
from quail_engine.sql.depends import PIN, depends_of, may_be_pinned
from quail_engine.sql.dialect import AiFunction, QuailDialect, span
from quail_engine.sql.dml import select_for, writes_in_place
from quail_engine.sql.existence import Group, group_of
from quail_engine.sql.extract import extract_call
from quail_engine.sql.guards import guard_of, reached_of
from quail_engine.sql.junctions import find_junctions
from quail_engine.sql.levels import level_calls
from quail_engine.sql.limit import RowLimit, find_limit
from quail_engine.sql.pairs import PairSpace, find_pair_spaces
from quail_engine.sql.refuse import refuse_call, refuse_path, refuse_query, refuse_unseen
from quail_engine.sql.scopes import Clause, place_of, settle_from
from quail_engine.sql.source import Source, nearest_span
from quail_engine.sql.statements import Form, Statement
from quail_engine.sql.uses import refuse_use, unlike_labels


@dataclass(frozen=True)
class Query:
    """The query part of a statement with its AI calls. Spans are offsets into `text`."""

    source: Source
    form: Form
    head: str  # the statement before the query, such as `create table t as (`
    tail: str  # and after it
    returns: bool  # it writes, and gives rows: RETURNING
    replaced: tuple[str, ...]  # CREATE OR REPLACE VIEW: the parts of the view's name; a table cannot take its place
    written_starts: tuple[int, ...]  # where each of `calls` begins in `written`
    calls: tuple[AiCall, ...]  # in text order; a call inside another's argument comes after it
    pinnable: tuple[int, ...]  # calls about columns that may have PIN among what they depend on
    unnamed: tuple[tuple[int, int], ...]  # select items without an alias that hold a call: they keep the name DuckDB gives them
    fences: tuple[int, ...]  # where OFFSET 0 goes: ends of set operations that DuckDB would push a condition into
    pair_spaces: tuple[PairSpace, ...]  # AI joins whose pairs can be listed before they are asked
    conjunctions: tuple[Conjunction, ...]  # the ANDs and ORs of which several conditions ask; those of whole clauses first
    limit: RowLimit | None  # the query may stop as soon as it has this many rows
    groups: tuple[Group | None, ...]  # for each call, what names its group; `settled` tells the calls, when DuckDB can be asked
    choices: tuple[Choice | None, ...]  # for each call that is rewritten as a choice, where its labels come from; the same
    empty: bool  # LIMIT 0 or WHERE FALSE outermost: nothing is asked

    @property
    def text(self) -> str:
        return self.source.text

    @property
    def written(self) -> str:
        """What writes in place: the statement itself, whose calls are those of `text` in the same order; else empty."""
        return self.source.written


_reading = threading.Lock()
_DEPTH = 20_000
"""Frames that reading a deeply nested statement may take; Python's own limit is for mistakes, and ends at 40 nested CASEs."""


def analyze(text: str, statement: Statement) -> Query:
    """The `Query` of a statement that holds an AI call. Raises SqlError for everything a user can have got wrong."""
    with _reading:  # the limit is all threads': one that sets it back must not do so while another reads
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(before, _DEPTH))
        try:
            return _analyze(text, statement)
        except RecursionError:
            name = statement.calls[0]
            reason = "This statement is nested too deep to be read."
            raise SqlError(reason, text, name.start, name.end + 1, "a part of it as a CTE or table of its own") from None
        finally:
            sys.setrecursionlimit(before)


def settled(query: Query, columns_of: Callable[[str], Sequence[str]], texts_of: Callable[[str], Sequence[str]]) -> Query:
    """The query with each group named by the columns that name it, and the labels of what is rewritten as a choice.

    `columns_of` gives the columns of a query, `texts_of` the rows of one that has one column. Raises SqlError for a choice
    among too many labels or too few.
    """
    calls = []
    for call, group, choice in zip(query.calls, query.groups, query.choices, strict=True):
        question = replace(call.question, labels=choice.labels(texts_of, query.source)) if choice else call.question
        calls.append(replace(call, question=question, group=group.settled(columns_of) if group else None))
    return replace(query, calls=tuple(calls))


def pinned(query: Query, calls: Collection[int]) -> Query:
    """The query with calls that DuckDB must meet on its rows, though it knows what they are about without them."""
    return replace(
        query,
        calls=tuple(
            replace(call, depends=(*call.depends, PIN)) if i in calls and PIN not in call.depends else call
            for i, call in enumerate(query.calls)
        ),
    )


def _analyze(text: str, statement: Statement) -> Query:
    if statement.query is None:
        refuse_call(text, statement)
    assert statement.query is not None
    refuse_call(text, statement)
    start, end = statement.query
    head = _head(text, statement, start)
    if writes_in_place(text[start:end]):
        written = text[start:end]
        selected = select_for(written)
        # Errors underline the same call in what the user wrote.
        source = Source(selected, text, start, written)
        start = end
    else:
        source = Source(text[start:end], text, start)
    tree = _parse(source, statement)
    note_aliases(tree)
    nodes = sorted(tree.find_all(AiFunction), key=nearest_span)
    refuse_query(tree, source)
    refuse_unseen(nodes, statement, source)
    limit = find_limit(tree, nodes, source)
    calls = _calls(tree, nodes, source)
    if limit is not None:  # a row of which only some conditions are known is a candidate, and no condition waits for another
        calls = tuple(replace(call, reached=()) if i in limit.calls else call for i, call in enumerate(calls))
    groups = tuple(group_of(node, place_of(node), source) for node in nodes)
    stop_early = [group is not None for group in groups]
    spaces = find_pair_spaces(nodes, calls, stop_early, source)
    filters = [(nodes[space.call], space) for space in spaces]
    calls = tuple(after_filters(call, node, filters) for call, node in zip(calls, nodes, strict=True))
    chosen = zip(nodes, calls, stop_early, strict=True)
    return Query(
        source=source,
        form=statement.form,
        head=head,
        written_starts=tuple(token.start - source.offset for token in statement.calls) if source.written else (),
        tail=text[end : statement.end],
        returns=statement.returns,
        replaced=tuple(token.text for token in statement.replaced if token.token_type is not TokenType.DOT),
        calls=calls,
        groups=groups,
        choices=tuple(choice_of(node, call, place_of(node), stops, source) for node, call, stops in chosen),
        pinnable=tuple(i for i, n in enumerate(nodes) if n.find(exp.Column) is not None and may_be_pinned(n, place_of(n))),
        unnamed=_unnamed(tree),
        fences=_fences(tree),
        pair_spaces=spaces,
        conjunctions=(*find_conjunctions(tree, nodes), *find_junctions(tree, nodes, stop_early, source)),
        limit=limit,
        empty=not source.written and _is_empty(tree),
    )


def _head(text: str, statement: Statement, end: int) -> str:
    """The statement before its query. A view over AI calls is stored as a table."""
    view = statement.view
    if view is None:
        return text[statement.start : end]
    return f"{text[statement.start : view.start]}TABLE{text[view.end + 1 : end]}"


def _parse(source: Source, statement: Statement) -> exp.Expr:
    reason, place = "it is not SQL that the parser knows.", None
    trees: Sequence[exp.Expr | None] = ()
    try:
        trees = sqlglot.parse(source.text, dialect=QuailDialect)
    except SqlglotError as problem:
        reason, place = _problem(source, problem)
    except RecursionError:
        raise
    except Exception:  # noqa: BLE001 - on text that is no SQL the parser also fails with mistakes of its own
        pass
    if len(trees) != 1 or trees[0] is None:
        refuse_path(source.statement, statement)
        name = statement.calls[0]
        raise UnreadableError.of(
            source.error(
                f"This statement calls {name.text.upper()}, and its SQL cannot be read: {reason}",
                *(place or _position(source, name)),
                "the part without AI calls as a table or CTE of its own",
            )
        )
    settle_from(trees[0])
    return trees[0]


def _problem(source: Source, problem: SqlglotError) -> tuple[str, tuple[int, int] | None]:
    """What the parser says, and the span of the word that it stopped at where that is in the text."""
    found = problem.errors[0] if isinstance(problem, ParseError) and problem.errors else {}
    word, line, column = found.get("highlight"), found.get("line"), found.get("col")
    reason = str(found.get("description") or problem).split("\n")[0].rstrip(".")
    if source.written or not word or not line or not column:
        return reason, None
    end = sum(map(len, source.text.splitlines(keepends=True)[: line - 1])) + column
    start = end - len(word)
    return reason, (start, end) if source.text[start:end] == word else None


def _position(source: Source, name: Token) -> tuple[int, int]:
    """The span of a token of the statement in the query's own text."""
    if source.written:
        at = max(0, source.text.find(name.text))
        return at, at + len(name.text)
    return name.start - source.offset, name.end + 1 - source.offset


def _calls(tree: exp.Expr, nodes: list[AiFunction], source: Source) -> tuple[AiCall, ...]:
    """The calls in text order. Equal calls of one scope have one level, that of the first clause, and a call that repeats a
    key of GROUP BY has its guard: they stay one text, which DuckDB asks of `GROUP BY x` and `SELECT x`.
    """
    levels = level_calls(tree)
    lowest: dict[object, int] = {}
    keys: dict[object, list[AiCall]] = {}  # the calls of a GROUP BY, by what their equals in later clauses are known by
    placed = []
    for node in sorted(nodes, key=lambda node: place_of(node).clause):
        place = place_of(node)
        found = extract_call(node, source)
        refuse_use(node, found, source)
        call = replace(
            found,
            warnings=(*found.warnings, *unlike_labels(node, found)),
            guard=" AND ".join(filter(None, (guard_of(node, source), f"({found.chosen}) IS NOT NULL" if found.chosen else ""))),
            reached=reached_of(node, place, source),
            depends=depends_of(node, place, found.chosen),
        )
        key = (id(place.scope), *_identity(replace(call, guard="", depends=()), node, source))
        if place.clause is Clause.GROUP:
            keys.setdefault(key, []).append(call)
        elif key in keys and place.clause > Clause.GROUP and node.find_ancestor(exp.AggFunc, exp.Select) is place.scope:
            # A key may hold a call twice, at places with other guards: a repetition of it has both.
            repeated = next((twin for twin in keys[key] if twin.guard == call.guard), keys[key][0])
            call = replace(call, guard=repeated.guard, depends=repeated.depends)
        same = (id(place.scope), *_identity(call, node, source))
        lowest[same] = min(lowest.get(same, levels[id(node)]), levels[id(node)])
        placed.append((same, call))
    calls = (replace(call, level=lowest[same]) for same, call in placed)
    return tuple(sorted(calls, key=lambda call: (call.start, call.end)))


def _identity(call: AiCall, node: AiFunction, source: Source) -> tuple[object, ...]:
    """What makes two calls of a scope one text to DuckDB: among groups a column's relation may be named or left out."""
    reached = tuple(f"{r.before}{source.text[r.start : r.end]}{r.after}" for r in call.reached)
    call = replace(call, start=0, end=0, reached=())
    scope = place_of(node).scope
    if not (scope.args.get("group") or scope.args.get("distinct")):
        return call, reached
    tree = node.copy()
    for column in tree.find_all(exp.Column):
        column.set("table", None)
    return replace(call, arguments=()), reached, tree.sql(dialect="duckdb").lower()


def _unnamed(tree: exp.Expr) -> tuple[tuple[int, int], ...]:
    found = []
    for select in tree.find_all(exp.Select):
        for item in select.expressions:
            if not isinstance(item, exp.Alias) and not item.is_star and item.find(AiFunction) and not item.find(exp.Columns):
                found.append(span(item))
    return tuple(sorted(found))


def _fences(tree: exp.Expr) -> tuple[int, ...]:
    """Ends of the EXCEPT and INTERSECT that a condition outside could be pushed into."""
    ends = []
    for operation in tree.find_all(exp.Except, exp.Intersect):
        inside = operation.find_ancestor(exp.Subquery, exp.CTE) is not None and not isinstance(
            operation.parent, exp.SetOperation
        )
        if inside and not operation.args.get("limit") and not operation.args.get("offset"):
            ends.append(span(operation)[1])
    return tuple(sorted(ends))


def _is_empty(tree: exp.Expr) -> bool:
    while isinstance(tree, exp.Subquery):
        tree = tree.this
    limit = tree.args.get("limit")
    if isinstance(limit, exp.Limit) and isinstance(limit.expression, exp.Literal) and limit.expression.this == "0":
        return True
    where = tree.args.get("where")
    condition = where.this if where is not None else None
    if not isinstance(condition, exp.Boolean) or condition.this:
        return False
    # An aggregate of no rows is a row; one that sqlglot does not know is taken for one.
    return not any(item.find(exp.AggFunc, exp.Anonymous) for item in tree.expressions)
