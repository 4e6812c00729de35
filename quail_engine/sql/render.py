"""Back to text: the user's own characters with each AI call replaced by what stands for its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType

from quail_engine.calls import AiCall, Kind, Task, Turn
from quail_engine.sql.conjuncts import Conjunction, RowSpace
from quail_engine.sql.joins import Joins
from quail_engine.sql.limit import RowLimit, Shown
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
Edit = tuple[int, int, str]
"""Start and end of a part of the query's text, and what stands there instead."""

KNOWN = "_known"
"""Behind a tag: the same look-up, which never notes what is missing."""

BESIDE = "_beside"
"""Behind a tag: the same look-up, where it stands inside of another one."""

BEFORE = "_before"
"""Behind a tag: the same look-up, in what another one waits for; the rows that it meets there are met before."""

OPEN = "__quail_open"
"""TRUE where a look-up would answer NULL because nobody has asked yet."""


def render(query: Query, tags: Sequence[str], tables: Mapping[int, str], names: Sequence[str]) -> str:
    """The query with look-ups in place of AI calls.

    `tags[i]` names call i to its look-up; a call in `tables` is a membership test on that answer table instead.
    `names[j]` is the name of the unaliased select item `query.unnamed[j]`.
    """
    return _edited(query.text, (0, len(query.text)), [*_answered(query, tags, tables), *_completed(query, names)])


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
    return _edited(query.text, (0, len(query.text)), edits)


def aside_columns(query: Query, limit: RowLimit) -> list[str]:
    """The columns that `result_query` adds."""
    return [column for columns in _asides(query, limit) for column in columns]


def lookups_query(query: Query, limit: RowLimit, numbers: Sequence[int], tags: Sequence[str], table: str) -> str:
    """A query that looks up, for the calls `limit.shown[n]` of `numbers`, the inputs in a table that `result_query` made."""
    asides = _asides(query, limit)
    shown = [(limit.shown[n].call, asides[n]) for n in numbers]
    look_ups = [_call_of(_function(query, i), tags[i], columns) for i, columns in shown]
    return f"SELECT {', '.join(look_ups)} FROM {table}"


def _shown_columns(query: Query, shown: Shown, tags: Sequence[str], ranked: bool) -> list[str]:
    """Whether a row shows an answer (`ranked`: and one that is unknown), and the texts that it is about."""
    guard = f"({_with_look_ups(query, shown.guard, range(len(query.calls)), tags)})" if shown.guard else "TRUE"
    inputs = _inputs(query, shown.call, tags)
    if ranked:
        return [_call_of(OPEN, tags[shown.call], [guard, *inputs]), *inputs]
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
        look_up = _stand_in(query, i, tags, {})
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
    stands = _stands(query, tags, {})
    optimistic, columns = [], []
    for conjunct in limit.conjuncts:
        condition = _spliced(query, (conjunct.start, conjunct.end), stands)
        unasked = [_open(query, i, tags) for i in conjunct.calls]
        candidate = f"(({condition}) IS TRUE OR (({condition}) IS NULL AND ({' OR '.join(unasked)})))"
        optimistic.append((conjunct.start, conjunct.end, candidate))
        for i, open_ in zip(conjunct.calls, unasked, strict=True):
            columns += [f"(({condition}) IS NULL AND {open_})" if len(unasked) > 1 else open_, *_inputs(query, i, tags)]
    others = {i: text for i, text in stands.items() if i not in limit.deciding}
    edits = [*_replaced(query, others), *optimistic, *_completed(query, names)]
    edits += _added(limit, columns)
    return f"{_edited(query.text, (0, limit.cut[0]), edits)} LIMIT {rows} {query.text[limit.cut[1] :]}"


def pairs_query(query: Query, space: PairSpace, tables: Mapping[int, str]) -> str:
    """A query for the distinct argument texts of an AI condition, one column an argument: `a0`, `a1`, …

    Other AI conditions count as TRUE, or as their answer table where they have one.
    """
    call = query.calls[space.call]
    if space.joins is not None:
        return _texts_of_parts(query, space, space.joins, range(len(call.arguments)), tables)
    stands = {
        i: _membership(other, tables[i]) if i in tables else "TRUE"
        for i, other in enumerate(query.calls)
        if not _is_inside_another(query, i)
    }
    conditions = [f"({_spliced(query, condition, stands)})" for condition in space.conditions]
    conditions += [f"{_text(argument)} IS NOT NULL" for argument in call.arguments]
    inner = [(*space.outer, "JOIN")] if space.outer else []
    source = _edited(query.text, space.source, [*_replaced(query, stands), *inner])
    return f"{_distinct_texts(query, space, range(len(call.arguments)))} {source} WHERE {' AND '.join(conditions)}"


def pair_counts_queries(query: Query, space: PairSpace) -> list[str]:
    """Queries for one row each, whose counts multiply to the inputs of an AI condition before any other is answered, and whose
    mean bytes of text add up to an input's. Texts of relations that nothing links are counted apart."""
    assert space.joins is not None, "relations that cannot be told apart"
    call, parts = query.calls[space.call], space.joins.parts(())
    places = {relation.name: number for number, part in enumerate(parts) for relation in part.relations}
    together: dict[int, list[int]] = {}
    if any(len({places[name] for name in names}) != 1 for names in space.relations):
        together[0] = list(range(len(call.arguments)))  # an argument of several parts, or of none
    else:
        for argument, names in enumerate(space.relations):
            together.setdefault(places[names[0]], []).append(argument)
    queries = []
    for arguments in together.values():
        size = " + ".join(f"strlen(a{i})" for i in arguments)
        listing = _texts_of_parts(query, space, space.joins, arguments, {})
        queries.append(f"SELECT count(*), avg({size}) FROM ({listing})")
    return queries


def pairs_sample_query(query: Query, space: PairSpace, rows: int, tables: Mapping[int, str] = MappingProxyType({})) -> str:
    """A query for a uniform sample of what `pairs_query` lists."""
    columns = ", ".join(f"a{i}" for i in range(len(query.calls[space.call].arguments)))
    return f"FROM ({pairs_query(query, space, tables)}) ORDER BY hash({columns}) LIMIT {rows}"


def _distinct_texts(query: Query, space: PairSpace, arguments: Sequence[int]) -> str:
    ctes = ", ".join(query.text[start:end] for start, end in space.ctes)
    columns = ", ".join(f"{_text(query.calls[space.call].arguments[i])} AS a{i}" for i in arguments)
    return f"{f'WITH {ctes} ' if ctes else ''}SELECT DISTINCT {columns}"


def _texts_of_parts(query: Query, space: PairSpace, joins: Joins, arguments: Sequence[int], tables: Mapping[int, str]) -> str:
    """The distinct texts of a call's arguments, listed of the relations that these need; of the others it matters only whether
    they have a row at all."""
    read = {name for i in arguments for name in space.relations[i]}
    parts = joins.parts(tables)
    needed = [part for part in parts if any(relation.name in read for relation in part.relations)]
    relations = dict.fromkeys(text for part in needed for text in _relations_of(query, part, tables))
    conditions = dict.fromkeys(text for part in needed for text in _conditions_of(query, part, tables))
    conditions |= dict.fromkeys(f"{_text(query.calls[space.call].arguments[i])} IS NOT NULL" for i in arguments)
    for part in parts:
        if part not in needed:
            where = " AND ".join(_conditions_of(query, part, tables)) or "TRUE"
            conditions[f"EXISTS (SELECT 1 FROM {', '.join(_relations_of(query, part, tables))} WHERE {where})"] = None
    return f"{_distinct_texts(query, space, arguments)} FROM {', '.join(relations)} WHERE {' AND '.join(conditions)}"


def part_counts_query(query: Query, space: PairSpace, part: Joins, texts: Sequence[Sequence[str]]) -> str:
    """A query for one row: how many different ones there are, about, of each sequence of texts, and their mean bytes.

    `part` is one of the space's parts, no AI condition answered; `texts` are SQL expressions over it.
    """
    cast = [list(map(_text, sequence)) for sequence in texts]
    counts = [f"approx_count_distinct({_hash(s)}), avg({' + '.join(f'strlen({text})' for text in s)})" for s in cast]
    ctes = ", ".join(query.text[start:end] for start, end in space.ctes)
    where = " AND ".join(_conditions_of(query, part, {})) or "TRUE"
    relations = ", ".join(_relations_of(query, part, {}))
    return f"{f'WITH {ctes} ' if ctes else ''}SELECT {', '.join(counts)} FROM {relations} WHERE {where}"


def _relations_of(query: Query, part: Joins, tables: Mapping[int, str]) -> list[str]:
    """SQL of a part's relations, and of the answer tables that link them: a comment may end a relation's text."""
    answered = [tables[condition.call] for condition in part.conditions if condition.call is not None]
    return [*(f"{query.text[slice(*relation.span)]}\n" for relation in part.relations), *answered]


def _conditions_of(query: Query, part: Joins, tables: Mapping[int, str]) -> list[str]:
    """SQL of a part's conditions, those that are answered as joins with their answer tables, which hold each input once."""
    found = []
    for condition in part.conditions:
        if condition.call is None:
            found.append(f"({query.text[slice(*condition.span)]}\n)")
        else:
            arguments, table = query.calls[condition.call].arguments, tables[condition.call]
            found += [f"{_text(argument)} = {table}.a{i}" for i, argument in enumerate(arguments)]
    return found


def counts_query(query: Query, conjunction: Conjunction) -> str:
    """A query for one row of counts: rows that an AND is asked about, and, for each of its calls, distinct inputs and the mean
    bytes of their texts; the calls in the order of the conditions."""
    columns = []
    for i in _calls_of(conjunction):
        texts = _inputs(query, i, ())
        known = " AND ".join(f"{text} IS NOT NULL" for text in texts) or "TRUE"
        columns.append(f"count(DISTINCT CASE WHEN {known} THEN {_hash(texts)} END)")
        columns.append(f"avg(CASE WHEN {known} THEN {' + '.join(f'strlen({text})' for text in texts) or '0'} END)")
    return _listed(query, conjunction.space, f"SELECT count(*), {', '.join(columns)}")


def threshold_query(query: Query, conjunction: Conjunction, rows: int) -> str:
    """A query for the greatest of the `rows` least hashes of an AND's different inputs: up to it they are a uniform sample."""
    hashes = _listed(query, conjunction.space, f"SELECT DISTINCT {_hash_of_inputs(query, conjunction)} AS h")
    return f"SELECT max(h) FROM ({hashes} ORDER BY h LIMIT {rows})"


def sample_query(query: Query, conjunction: Conjunction, threshold: int, tags: Sequence[str]) -> str:
    """A query for the sample up to a hash: for each different input of an AND or OR, which of the conditions leave it open."""
    stands = {i: _look_up(query, i, tags) for i in _calls_of(conjunction)}
    truths = ", ".join(f"({_spliced(query, c.span, stands)}) {c.passes.value}" for c in conjunction.conjuncts)
    hashed = _hash_of_inputs(query, conjunction)
    return _listed(query, conjunction.space, f"SELECT DISTINCT {hashed}, {truths}", f"{hashed} <= {threshold}")


def _calls_of(conjunction: Conjunction) -> list[int]:
    return [i for conjunct in conjunction.conjuncts for i in conjunct.calls]


def _hash(texts: Sequence[str]) -> str:
    return f"hash({', '.join(texts) or '0'})"


def _hash_of_inputs(query: Query, conjunction: Conjunction) -> str:
    return _hash(list(dict.fromkeys(text for i in _calls_of(conjunction) for text in _inputs(query, i, ()))))


def _listed(query: Query, space: RowSpace | None, select: str, *conditions: str) -> str:
    """A query over the rows of a space."""
    assert space is not None, "rows that cannot be listed"
    ctes = ", ".join(query.text[start:end] for start, end in space.ctes)
    guard = [f"({space.guard})"] if space.guard else []
    where = [*(f"({query.text[start:end]})" for start, end in space.conditions), *guard, *conditions]
    with_ = f"WITH {ctes} " if ctes else ""
    return f"{with_}{select} {query.text[slice(*space.source)]}{' WHERE ' if where else ''}{' AND '.join(where)}"


def _answered(query: Query, tags: Sequence[str], tables: Mapping[int, str]) -> list[Edit]:
    """What replaces the query's calls."""
    return _replaced(query, _stands(query, tags, tables))


def _completed(query: Query, names: Sequence[str]) -> list[Edit]:
    """What the query needs besides: names of its unnamed items, and fences."""
    edits = [(end, end, f" AS {quoted(name)}") for (_, end), name in zip(query.unnamed, names, strict=True)]
    return [*edits, *((end, end, " OFFSET 0") for end in query.fences)]


def _stands(query: Query, tags: Sequence[str], tables: Mapping[int, str]) -> dict[int, str | None]:
    return {i: _stand_in(query, i, tags, tables) for i in range(len(query.calls))}


def _replaced(query: Query, stands: Mapping[int, str | None]) -> list[Edit]:
    return [(query.calls[i].start, query.calls[i].end, text) for i, text in stands.items() if text is not None]


def _stand_in(query: Query, index: int, tags: Sequence[str], tables: Mapping[int, str]) -> str | None:
    """What replaces a call; None for one that lies inside another's argument, whose text is spliced with it."""
    if _is_inside_another(query, index):
        return None
    return _membership(query.calls[index], tables[index]) if index in tables else _look_up(query, index, tags, tables)


def _is_inside_another(query: Query, index: int) -> bool:
    call = query.calls[index]
    return any(other.start < call.start and call.end <= other.end for other in query.calls)


def _look_up(query: Query, index: int, tags: Sequence[str], tables: Mapping[int, str] = MappingProxyType({})) -> str:
    inputs = _look_up_inputs(query, index, tags, tables)
    return _compared(query.calls[index], _call_of(_function(query, index), tags[index], inputs))


def _compared(call: AiCall, look_up: str) -> str:
    """A look-up as the value of its call: where it chooses a label, whether that is the row's own."""
    return f"({look_up} = {_text(call.chosen)})" if call.chosen else look_up


def _open(query: Query, index: int, tags: Sequence[str]) -> str:
    return _call_of(OPEN, tags[index], _look_up_inputs(query, index, tags, {}))


def _function(query: Query, index: int) -> str:
    call = query.calls[index]
    return LIST_LOOK_UP if call.question.task is Task.TAG else LOOK_UPS[call.kind]


def _call_of(function: str, tag: str, arguments: Sequence[str]) -> str:
    return f"{function}('{tag}', {', '.join(arguments)})"


def _look_up_inputs(query: Query, index: int, tags: Sequence[str], tables: Mapping[int, str]) -> list[str]:
    call = query.calls[index]
    conditions = [call.guard] if call.guard else []
    conditions += [_membership(query.calls[i], tables[i]) for i in call.after if i in tables]
    for reached in call.reached:
        inside = [i for i, c in enumerate(query.calls) if reached.start <= c.start and c.end <= reached.end]
        condition = _spliced(query, (reached.start, reached.end), {i: _stand_in(query, i, tags, tables) for i in inside})
        conditions.append(f"({reached.before}{condition}{reached.after}) IS TRUE")
    # What is known is shown, lest of two TRUE operands of an OR each made the other needless.
    shown = f"{_known(query, index, tags)} IS NOT NULL" if call.unless else ""
    for turn in call.unless:
        decides = f"({_as_known(query, (turn.start, turn.end), tags)}) {turn.decides}"
        conditions.append(f"(({decides}) IS NOT TRUE OR {shown})")
    conditions += [_in_turn(query, call.turns, tags, tables)] if call.turns else []
    guard = f"({' AND '.join(conditions)})" if conditions else "TRUE"
    group = [f"CAST({column} AS VARCHAR)" for column in call.group or ()]
    beside = [_beside(query, i, tags, tables) for i in call.beside]
    return [guard, *call.depends, *beside, *group, *_inputs(query, index, tags)]


def _in_turn(query: Query, turns: Sequence[Turn], tags: Sequence[str], tables: Mapping[int, str]) -> str:
    """Whether nothing that comes before decides, one after the other: CASE looks at none of it behind what does.

    So the look-ups in it need no guard for what comes before them, but for that inside of the same operand.
    """
    branches = []
    for turn in turns:
        part = turn.start, turn.end
        alone = replace(query, calls=tuple(_within(call, part) for call in query.calls))
        # DuckDB stops at what is not TRUE, and may meet what comes before there alone; else it meets it where it stands, too.
        own = [_elsewhere(tag, BEFORE) for tag in tags] if turn.waits else tags
        inside = [i for i, c in enumerate(query.calls) if turn.start <= c.start and c.end <= turn.end]
        operand = _spliced(alone, part, {i: _stand_in(alone, i, own, tables) for i in inside})
        waiting = [_open(alone, i, tags) for i in inside if turn.waits]
        branches.append(f"WHEN {' OR '.join([f'({operand}) {turn.decides}', *waiting])} THEN FALSE")
    return f"CASE {' '.join(branches)} ELSE TRUE END"


def _within(call: AiCall, part: tuple[int, int]) -> AiCall:
    """A call as it is looked up among the calls of one operand."""
    return replace(call, turns=tuple(t for t in call.turns if part[0] <= t.start and t.end <= part[1]), beside=())


def _beside(query: Query, index: int, tags: Sequence[str], tables: Mapping[int, str]) -> str:
    """A look-up inside of another one."""
    alone = replace(query, calls=tuple(replace(call, beside=()) for call in query.calls))
    return _call_of(_function(query, index), _elsewhere(tags[index], BESIDE), _look_up_inputs(alone, index, tags, tables))


def _elsewhere(tag: str, place: str) -> str:
    """The name of a look-up at another place than its call's, from that or from its name in what another one waits for."""
    return tag.removesuffix(BEFORE) + place


def _as_known(query: Query, part: tuple[int, int], tags: Sequence[str]) -> str:
    """A condition as far as it is known."""
    inside = [i for i, call in enumerate(query.calls) if part[0] <= call.start and call.end <= part[1]]
    return _spliced(query, part, {i: _known(query, i, tags) for i in inside if not _is_inside_another(query, i)})


def _known(query: Query, index: int, tags: Sequence[str]) -> str:
    """What is known of a call's answer, whatever its turn."""
    guard = f"({query.calls[index].guard})" if query.calls[index].guard else "TRUE"
    known = _call_of(_function(query, index), _elsewhere(tags[index], KNOWN), [guard, *_inputs(query, index, tags)])
    return _compared(query.calls[index], known)


def _inputs(query: Query, index: int, tags: Sequence[str]) -> list[str]:
    """The texts that a call is about, as SQL."""
    call = query.calls[index]
    inputs = [_text(_with_inner(query, index, argument, tags)) for argument in call.arguments]
    return [*inputs, f"CAST(to_json({call.labels_argument}) AS VARCHAR)"] if call.labels_argument else inputs


def _with_inner(query: Query, index: int, argument: str, tags: Sequence[str]) -> str:
    """An argument's text with the calls inside it replaced."""
    outer = query.calls[index]
    inner = [i for i, c in enumerate(query.calls) if outer.start < c.start and c.end <= outer.end]
    return _with_look_ups(query, argument, inner, tags)


def _with_look_ups(query: Query, text: str, calls: Sequence[int], tags: Sequence[str]) -> str:
    """A copied text with every occurrence of these calls replaced, outer ones before those inside them."""
    for i in sorted(calls, key=lambda i: query.calls[i].start - query.calls[i].end):
        text = text.replace(query.text[query.calls[i].start : query.calls[i].end], _look_up(query, i, tags))
    return text


def _membership(call: AiCall, table: str) -> str:
    values = ", ".join(map(_text, call.arguments))
    columns = ", ".join(f"a{i}" for i in range(len(call.arguments)))
    return f"(({values}) IN (SELECT ({columns}) FROM {table}))"


def _text(argument: str) -> str:
    return f"CAST({argument} AS VARCHAR)"


def _spliced(query: Query, part: tuple[int, int], stands: Mapping[int, str | None]) -> str:
    """A part of the query's text with calls replaced; every other character as it was."""
    return _edited(query.text, part, _replaced(query, stands))


def _edited(text: str, part: tuple[int, int], edits: Sequence[Edit]) -> str:
    """A part of a text with spans replaced, and texts inserted where a span is empty."""
    pieces, at = [], part[0]
    for start, end, replacement in sorted(edits, key=lambda edit: edit[:2]):
        if part[0] <= start and end <= part[1]:
            pieces += [text[at:start], replacement]
            at = end
    return "".join([*pieces, text[at : part[1]]])
