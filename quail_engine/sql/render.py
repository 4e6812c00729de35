"""Back to text: the user's own characters with each AI call replaced by what stands for its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quail_engine.calls import AiCall, Kind, Task
from quail_engine.sql.limit import RowLimit
from quail_engine.sql.pairs import PairSpace
from quail_engine.sql.query import Query
from quail_engine.sql.source import quoted

LOOK_UPS = {
    Kind.FILTER: "__quail_bool",
    Kind.SCORE: "__quail_double",
    Kind.CLASSIFY: "__quail_text",
    Kind.CLASSIFY_SCORES: "__quail_map",
}
LIST_LOOK_UP = "__quail_list"
OPEN = "__quail_open"
"""TRUE where a look-up would answer NULL because nobody has asked yet."""


def render(query: Query, tags: Sequence[str], tables: Mapping[int, str], names: Sequence[str]) -> str:
    """The query with look-ups in place of AI calls.

    `tags[i]` names call i to its look-up; a call in `tables` is a membership test on that answer table instead.
    `names[j]` is the name of the unaliased select item `query.unnamed[j]`.
    """
    stands = {i: _stand_in(query, i, tags, tables) for i in range(len(query.calls))}
    extra = [(end, f" AS {quoted(name)}") for (_, end), name in zip(query.unnamed, names, strict=True)]
    extra += [(end, " OFFSET 0") for end in query.fences]
    return _spliced(query, (0, len(query.text)), stands, extra)


def render_written(query: Query, tags: Sequence[str]) -> str:
    """An UPDATE or DELETE as it was written, with look-ups in place of its AI calls."""
    pieces, at = [], 0
    for i, call in enumerate(query.calls):
        look_up = _stand_in(query, i, tags, {})
        if look_up is not None:
            start = query.written_starts[i]
            pieces += [query.written[at:start], look_up]
            at = start + call.end - call.start
    return "".join([*pieces, query.written[at:]])


def candidates_query(query: Query, limit: RowLimit, tags: Sequence[str], names: Sequence[str], rows: int) -> str:
    """The first `rows` rows of a limited query that are certain or still open, with what to ask about each.

    Behind the query's own columns stand, for each deciding call, whether it is open (`OPEN`) and its arguments' texts.
    """
    stands = {i: _stand_in(query, i, tags, {}) for i in range(len(query.calls))}
    optimistic = {}
    for conjunct in limit.conjuncts:
        condition = _spliced(query, (conjunct.start, conjunct.end), stands, [])
        unasked = " OR ".join(_open(query, i, tags) for i in conjunct.calls)
        optimistic[conjunct.start, conjunct.end] = f"(({condition}) IS TRUE OR (({condition}) IS NULL AND ({unasked})))"
    shown = [(c.start, c.end, stands[i]) for i, c in enumerate(query.calls) if i not in limit.calls]
    columns = [column for i in limit.calls for column in (_open(query, i, tags), *_inputs(query, i, tags))]
    edits = [(start, end, text) for start, end, text in shown if text is not None]
    edits += [(start, end, text) for (start, end), text in optimistic.items()]
    edits += [(end, end, f" AS {quoted(name)}") for (_, end), name in zip(query.unnamed, names, strict=True)]
    edits.append((limit.items_end, limit.items_end, "".join(f", {c} AS __quail_{n}" for n, c in enumerate(columns))))
    return f"{_edited(query.text, (0, limit.tail), edits)} LIMIT {rows}"


def _open(query: Query, index: int, tags: Sequence[str]) -> str:
    return f"{OPEN}({_look_up_inputs(query, index, tags)})"


def pairs_query(query: Query, space: PairSpace, tables: Mapping[int, str]) -> str:
    """A query for the distinct argument texts of an AI condition, one column an argument: `a0`, `a1`, …

    Other AI conditions count as TRUE, or as their answer table where they have one.
    """
    call = query.calls[space.call]
    stands = {
        i: _membership(other, tables[i]) if i in tables else "TRUE"
        for i, other in enumerate(query.calls)
        if not _is_inside_another(query, i)
    }
    ctes = ", ".join(query.text[start:end] for start, end in space.ctes)
    columns = ", ".join(f"{_text(argument)} AS a{i}" for i, argument in enumerate(call.arguments))
    conditions = [f"({_spliced(query, condition, stands, [])})" for condition in space.conditions]
    conditions += [f"{_text(argument)} IS NOT NULL" for argument in call.arguments]
    source = _spliced(query, space.source, stands, [])
    with_ = f"WITH {ctes} " if ctes else ""
    return f"{with_}SELECT DISTINCT {columns} {source} WHERE {' AND '.join(conditions)}"


def _stand_in(query: Query, index: int, tags: Sequence[str], tables: Mapping[int, str]) -> str | None:
    """What replaces a call; None for one that lies inside another's argument, whose text is spliced with it."""
    if _is_inside_another(query, index):
        return None
    return _membership(query.calls[index], tables[index]) if index in tables else _look_up(query, index, tags)


def _is_inside_another(query: Query, index: int) -> bool:
    call = query.calls[index]
    return any(other.start < call.start and call.end <= other.end for other in query.calls)


def _look_up(query: Query, index: int, tags: Sequence[str]) -> str:
    call = query.calls[index]
    function = LIST_LOOK_UP if call.question.task is Task.TAG else LOOK_UPS[call.kind]
    return f"{function}({_look_up_inputs(query, index, tags)})"


def _look_up_inputs(query: Query, index: int, tags: Sequence[str]) -> str:
    call = query.calls[index]
    guard = f"({call.guard})" if call.guard else "TRUE"
    group = [f"CAST({column} AS VARCHAR)" for column in call.group or ()]
    return ", ".join((f"'{tags[index]}'", guard, *call.depends, *group, *_inputs(query, index, tags)))


def _inputs(query: Query, index: int, tags: Sequence[str]) -> list[str]:
    """The texts that a call is about, as SQL."""
    call = query.calls[index]
    inputs = [_text(_with_inner(query, index, argument, tags)) for argument in call.arguments]
    return [*inputs, f"CAST(to_json({call.labels_argument}) AS VARCHAR)"] if call.labels_argument else inputs


def _with_inner(query: Query, index: int, argument: str, tags: Sequence[str]) -> str:
    """An argument's text with the calls inside it replaced."""
    outer = query.calls[index]
    inner = [i for i, c in enumerate(query.calls) if outer.start < c.start and c.end <= outer.end]
    for i in sorted(inner, key=lambda i: query.calls[i].start - query.calls[i].end):
        text = query.text[query.calls[i].start : query.calls[i].end]
        argument = argument.replace(text, _look_up(query, i, tags))
    return argument


def _membership(call: AiCall, table: str) -> str:
    values = ", ".join(map(_text, call.arguments))
    columns = ", ".join(f"a{i}" for i in range(len(call.arguments)))
    return f"(({values}) IN (SELECT ({columns}) FROM {table}))"


def _text(argument: str) -> str:
    return f"CAST({argument} AS VARCHAR)"


def _spliced(query: Query, part: tuple[int, int], stands: Mapping[int, str | None], extra: Sequence[tuple[int, str]]) -> str:
    """A part of the query's text with calls replaced and texts inserted; every other character as it was."""
    edits = [(c.start, c.end, text) for c, text in ((query.calls[i], s) for i, s in stands.items()) if text is not None]
    return _edited(query.text, part, edits + [(at, at, text) for at, text in extra])


def _edited(text: str, part: tuple[int, int], edits: Sequence[tuple[int, int, str]]) -> str:
    """A part of a text with spans replaced, and texts inserted where a span is empty."""
    pieces, at = [], part[0]
    for start, end, replacement in sorted(edits, key=lambda edit: edit[:2]):
        if part[0] <= start and end <= part[1]:
            pieces += [text[at:start], replacement]
            at = end
    return "".join([*pieces, text[at : part[1]]])
