"""Back to text: the user's own characters with each AI call replaced by what stands for its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from quail_engine.sql.limit import RowLimit, Shown
from quail_engine.sql.query import Query
from quail_engine.sql.source import quoted
from quail_engine.sql.stand_ins import (
    OPEN,
    Edit,
    edited,
    function_of,
    inputs_of,
    look_up_text,
    open_look_up,
    replaced,
    spliced,
    stand_in,
    stand_ins,
    with_look_ups,
)


def render(query: Query, tags: Sequence[str], tables: Mapping[int, str], names: Sequence[str]) -> str:
    """The query with look-ups in place of AI calls.

    `tags[i]` names call i to its look-up; a call in `tables` is a membership test on that answer table instead.
    `names[j]` is the name of the unaliased select item `query.unnamed[j]`.
    """
    return edited(query.text, (0, len(query.text)), [*_answered(query, tags, tables), *_completed(query, names)])


def result_query(
    query: Query,
    limit: RowLimit | None,
    tags: Sequence[str],
    tables: Mapping[int, str],
    names: Sequence[str],
    known_first: bool,
) -> str:
    """The query as `render` gives it, and behind its columns those of `aside_columns`: what its rows show of which inputs.

    With `known_first`, among rows that ORDER BY leaves equal those come first whose answers are known.
    """
    edits = [*_answered(query, tags, tables), *_completed(query, names)]
    if limit is not None:
        ranked = known_first and limit.another_key != ""
        columns = [column for shown in limit.shown for column in _shown_columns(query, shown, tags, ranked)]
        edits += _added(limit, columns)
        if ranked:
            keys = ", ".join(f"{flag} ASC" for flag, *_ in _asides(query, limit))
            edits.append((limit.cut[0], limit.cut[0], f"{limit.another_key}{keys} "))
    return edited(query.text, (0, len(query.text)), edits)


def aside_columns(query: Query, limit: RowLimit) -> list[str]:
    """The columns that `result_query` adds."""
    return [column for columns in _asides(query, limit) for column in columns]


def lookups_query(query: Query, limit: RowLimit, numbers: Sequence[int], tags: Sequence[str], table: str) -> str:
    """A query that looks up, for the calls `limit.shown[n]` of `numbers`, the inputs in a table that `result_query` made."""
    asides = _asides(query, limit)
    shown = [(limit.shown[n].call, asides[n]) for n in numbers]
    look_ups = [look_up_text(function_of(query, i), tags[i], columns) for i, columns in shown]
    return f"SELECT {', '.join(look_ups)} FROM {table}"


def _shown_columns(query: Query, shown: Shown, tags: Sequence[str], ranked: bool) -> list[str]:
    """Whether a row shows an answer (`ranked`: and one that is unknown), and the texts that it is about."""
    guard = f"({with_look_ups(query, shown.guard, range(len(query.calls)), tags)})" if shown.guard else "TRUE"
    inputs = inputs_of(query, shown.call, tags)
    if ranked:
        return [look_up_text(OPEN, tags[shown.call], [guard, *inputs]), *inputs]
    return [guard, *inputs]


def _asides(query: Query, limit: RowLimit) -> list[list[str]]:
    """The names of the added columns, by the call that they belong to."""
    calls = [query.calls[shown.call] for shown in limit.shown]
    widths = [1 + len(call.arguments) + bool(call.labels_argument) for call in calls]
    names = (f"__quail_{n}" for n in range(sum(widths)))
    return [list(islice(names, width)) for width in widths]


def _added(limit: RowLimit, columns: Sequence[str]) -> list[Edit]:
    """The edits that add columns behind those of the query."""
    added, names = limit.added, [f"__quail_{n}" for n in range(len(columns))]
    named = "".join(f", {column} AS {name}" for column, name in zip(columns, names, strict=True))
    again = "".join(f", {name}" for name in names)
    return [
        (added.at, added.at, f"{added.select}{named} " if added.select else named),
        *((at, at, again) for at in added.passed_on),
    ]


def render_written(query: Query, tags: Sequence[str]) -> str:
    """A statement that writes in place as it was written, with look-ups in place of its AI calls."""
    pieces, at = [], 0
    for i, call in enumerate(query.calls):
        look_up = stand_in(query, i, tags, {})
        if look_up is not None:
            start = query.written_starts[i]
            pieces += [query.written[at:start], look_up]
            at = start + call.end - call.start
    return "".join([*pieces, query.written[at:], query.tail])


def candidates_query(query: Query, limit: RowLimit, tags: Sequence[str], names: Sequence[str], rows: int) -> str:
    """The first `rows` rows of a limited query that are certain or still open, with what to ask about each.

    Behind the query's own columns stand, for each deciding call, whether it is open (`OPEN`) where its condition is, and its
    arguments' texts.
    """
    stands = stand_ins(query, tags, {})
    optimistic, columns = [], []
    for conjunct in limit.conjuncts:
        condition = spliced(query, (conjunct.start, conjunct.end), stands)
        unasked = [open_look_up(query, i, tags) for i in conjunct.calls]
        candidate = f"(({condition}) IS TRUE OR (({condition}) IS NULL AND ({' OR '.join(unasked)})))"
        optimistic.append((conjunct.start, conjunct.end, candidate))
        for i, open_ in zip(conjunct.calls, unasked, strict=True):
            columns += [f"(({condition}) IS NULL AND {open_})" if len(unasked) > 1 else open_, *inputs_of(query, i, tags)]
    others = {i: text for i, text in stands.items() if i not in limit.deciding}
    edits = [*replaced(query, others), *optimistic, *_completed(query, names)]
    edits += _added(limit, columns)
    return f"{edited(query.text, (0, limit.cut[0]), edits)} LIMIT {rows} {query.text[limit.cut[1] :]}"


def _answered(query: Query, tags: Sequence[str], tables: Mapping[int, str]) -> list[Edit]:
    """What replaces the query's calls."""
    return replaced(query, stand_ins(query, tags, tables))


def _completed(query: Query, names: Sequence[str]) -> list[Edit]:
    """What the query needs besides: names of its unnamed items, and fences."""
    edits = [(end, end, f" AS {quoted(name)}") for (_, end), name in zip(query.unnamed, names, strict=True)]
    return [*edits, *((end, end, " OFFSET 0") for end in query.fences)]
