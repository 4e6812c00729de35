"""Queries about a statement's rows: the inputs of its calls listed, counted and sampled before the statement itself runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from quail_engine.sql.conjuncts import Conjunction, RowSpace
from quail_engine.sql.joins import Joins
from quail_engine.sql.pairs import PairSpace
from quail_engine.sql.query import Query
from quail_engine.sql.stand_ins import edited, inputs_of, is_inside_another, look_up, membership, replaced, spliced, varchar


def pairs_query(query: Query, space: PairSpace, tables: Mapping[int, str]) -> str:
    """A query for the distinct argument texts of an AI condition, one column an argument: `a0`, `a1`, …

    Other AI conditions count as TRUE, or as their answer table where they have one.
    """
    call = query.calls[space.call]
    if space.joins is not None:
        return _texts_of_parts(query, space, space.joins, range(len(call.arguments)), tables)
    stands = {
        i: membership(other, tables[i]) if i in tables else "TRUE"
        for i, other in enumerate(query.calls)
        if not is_inside_another(query, i)
    }
    conditions = [f"({spliced(query, condition, stands)})" for condition in space.conditions]
    conditions += [f"{varchar(argument)} IS NOT NULL" for argument in call.arguments]
    inner = [(*space.outer, "JOIN")] if space.outer else []
    source = edited(query.text, space.source, [*replaced(query, stands), *inner])
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
    columns = ", ".join(f"{varchar(query.calls[space.call].arguments[i])} AS a{i}" for i in arguments)
    return f"{f'WITH {ctes} ' if ctes else ''}SELECT DISTINCT {columns}"


def _texts_of_parts(query: Query, space: PairSpace, joins: Joins, arguments: Sequence[int], tables: Mapping[int, str]) -> str:
    """The distinct texts of a call's arguments, listed of the relations that these need; of the others it matters only whether
    they have a row at all."""
    read = {name for i in arguments for name in space.relations[i]}
    parts = joins.parts(tables)
    needed = [part for part in parts if any(relation.name in read for relation in part.relations)]
    relations = dict.fromkeys(text for part in needed for text in _relations_of(query, part, tables))
    conditions = dict.fromkeys(text for part in needed for text in _conditions_of(query, part, tables))
    conditions |= dict.fromkeys(f"{varchar(query.calls[space.call].arguments[i])} IS NOT NULL" for i in arguments)
    for part in parts:
        if part not in needed:
            where = " AND ".join(_conditions_of(query, part, tables)) or "TRUE"
            conditions[f"EXISTS (SELECT 1 FROM {', '.join(_relations_of(query, part, tables))} WHERE {where})"] = None
    return f"{_distinct_texts(query, space, arguments)} FROM {', '.join(relations)} WHERE {' AND '.join(conditions)}"


def part_counts_query(query: Query, space: PairSpace, part: Joins, texts: Sequence[Sequence[str]]) -> str:
    """A query for one row: how many different ones there are, about, of each sequence of texts, and their mean bytes.

    `part` is one of the space's parts, no AI condition answered; `texts` are SQL expressions over it.
    """
    cast = [list(map(varchar, sequence)) for sequence in texts]
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
            found += [f"{varchar(argument)} = {table}.a{i}" for i, argument in enumerate(arguments)]
    return found


def counts_query(query: Query, conjunction: Conjunction) -> str:
    """A query for one row of counts: rows that an AND is asked about, and, for each of its calls, distinct inputs and the mean
    bytes of their texts; the calls in the order of the conditions."""
    columns = []
    for i in _calls_of(conjunction):
        texts = inputs_of(query, i, ())
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
    stands = {i: look_up(query, i, tags) for i in _calls_of(conjunction)}
    truths = ", ".join(f"({spliced(query, c.span, stands)}) {c.passes.value}" for c in conjunction.conjuncts)
    hashed = _hash_of_inputs(query, conjunction)
    return _listed(query, conjunction.space, f"SELECT DISTINCT {hashed}, {truths}", f"{hashed} <= {threshold}")


def _calls_of(conjunction: Conjunction) -> list[int]:
    return [i for conjunct in conjunction.conjuncts for i in conjunct.calls]


def _hash(texts: Sequence[str]) -> str:
    return f"hash({', '.join(texts) or '0'})"


def _hash_of_inputs(query: Query, conjunction: Conjunction) -> str:
    return _hash(list(dict.fromkeys(text for i in _calls_of(conjunction) for text in inputs_of(query, i, ()))))


def _listed(query: Query, space: RowSpace | None, select: str, *conditions: str) -> str:
    """A query over the rows of a space."""
    assert space is not None, "rows that cannot be listed"
    ctes = ", ".join(query.text[start:end] for start, end in space.ctes)
    guard = [f"({space.guard})"] if space.guard else []
    where = [*(f"({query.text[start:end]})" for start, end in space.conditions), *guard, *conditions]
    with_ = f"WITH {ctes} " if ctes else ""
    return f"{with_}{select} {query.text[slice(*space.source)]}{' WHERE ' if where else ''}{' AND '.join(where)}"
