"""Positions beside sources that are no table: lateral subqueries, VALUES, UNNEST, table functions, PIVOT; and FROM first."""

from __future__ import annotations

from dataclasses import replace

from expressions import Cheap
from grammar import Scope, T, Writer
from positions import Query, position
from scopes import correlated


@position("lateral")
def _lateral(w: Writer) -> Query:
    scope = w.scope()
    condition, site = correlated(w, "lateral", scope)
    inner = f"select count(*) as n, max(i.c) as c from u i where {condition.sql}"
    beside = replace(
        scope, source=f"{scope.source}, lateral ({inner}) l", texts=("l.c", "t.a"), cheap=("l.n > 0", "l.n = 1", "t.id < 5")
    )
    other = w.maybe(beside) or Cheap("true")
    return Query(
        f"select {scope.shown}, l.n {beside.source} where {other.sql}",
        (*scope.sites, site, beside.site("where", other, True)),
    )


@position("values", joins=("none",))
def _values(w: Writer) -> Query:
    literals = Scope("", ("'late'", "'a ''quoted'' {0}'", "'x'"), ("1 = 1", "null"), ())
    asked = w.ask(literals)
    source = f"from (values (1, {asked.sql}, 'late'), (2, null, ''), (3, true, null)) d(id, x, a)"
    scope = Scope(source, ("d.a",), ("d.x", "d.id = 1", "d.x is null"), ("d.id",))
    other = w.maybe(scope) or Cheap("true")
    return Query(
        f"select id, x {source} where {other.sql}", (literals.site("values", asked), scope.site("values", other, True))
    )


_VALUES = "(1, 0, 'late', 'x', 1), (2, 1, null, '', 2), (3, null, 'refund ünï', 'x', 3), (4, 0, 'late', null, null)"


@position("values as a source")
def _values_source(w: Writer) -> Query:
    scope = w.scope(replace(T, source=f"from (values {_VALUES}) t(id, k, a, b, d)"))
    asked = w.ask(scope)
    return Query(
        f"select {scope.shown} {scope.source} where {asked.sql}",
        (*scope.sites, scope.site("values as a source", asked, True)),
    )


@position("unnest")
def _unnest(w: Writer) -> Query:
    scope = w.scope()
    words = replace(
        scope,
        source=f"{scope.source}, unnest(string_split(t.a, ' ')) s(word)",
        texts=("s.word", "t.b"),
        cheap=("s.word <> 'x'", "t.id < 5", "length(s.word) > 4"),
    )
    asked = w.ask(words)
    return Query(
        f"select {scope.shown}, s.word {words.source} where {asked.sql}", (*scope.sites, words.site("unnest", asked, True))
    )


@position("unnest in a select list")
def _unnest_select(w: Writer) -> Query:
    inner = w.filtered()
    split = f"select t.id as id, t.k as k, unnest(string_split(t.a, ' ')) as a, t.b as b, t.d as d {inner.source}"
    scope = replace(T, source=f"from ({split}) t", joined=inner.joined)
    asked = w.ask(scope)
    return Query(
        f"select t.id, t.a, {asked.sql} as y {scope.source}", (*inner.sites, scope.site("unnest in a select list", asked))
    )


@position("table function")
def _table_function(w: Writer) -> Query:
    numbers = Scope(
        f"from {w.one('range(1, 5) n(i)', 'generate_series(0, 3) n(i)')}",
        ("n.i", "repeat('late ', n.i)", "case when n.i <> 2 then repeat('x', n.i) end"),
        ("n.i < 3", "n.i % 2 = 0", "null"),
        ("n.i",),
        "n.i",
    )
    scope = w.scope(numbers)
    asked, other = w.ask(scope), w.maybe(scope)
    kept = replace(scope, source=f"{scope.source} where {asked.sql}")
    sites = [*scope.sites, scope.site("table function", asked, True), *([kept.site("select", other)] if other else [])]
    return Query(f"select {scope.shown}{f', {other.sql}' if other else ''} {kept.source}", tuple(sites))


@position("pivot")
def _pivot(w: Writer) -> Query:
    scope = w.filtered()
    asked = w.ask(scope)
    inner = f"(select t.k as k, t.id as id, {asked.sql} as x {scope.source})"
    text = w.one(
        f"select * from {inner} pivot (count(id) for x in (true, false) group by k)",
        f"pivot {inner} on x in (true, false) using count(*), min(id) group by k",
    )
    return Query(text, (*scope.sites, scope.site("pivot", asked)))


@position("from first")
def _from_first(w: Writer) -> Query:
    scope = w.scope()
    asked = w.ask(scope)
    sites = (*scope.sites, scope.site("from first", asked, True))
    return Query(f"{scope.source} {w.one('', f'select {scope.shown} ')}where {asked.sql}", sites)
