"""Positions in queries of several scopes: derived tables, CTEs, set operations, subqueries, other sources than tables."""

from __future__ import annotations

from dataclasses import replace

from bound import Rows, Site
from expressions import Cheap, Expression, Node
from grammar import Scope, T, Writer, table_u
from positions import Query, position


def _named(source: str, with_: str = "") -> Scope:
    """What is seen of an inner query with the columns id, k, a, x."""
    return Scope(source, ("d.a", "d.k::varchar"), ("d.id < 5", "d.k = 1", "d.x is null", "d.x", "d.a = 'late'"), ("d.id",))


def _inner(w: Writer, name: str) -> tuple[str, tuple[Site, ...]]:
    """A query with the columns id, k, a, x, whose x asks."""
    scope = w.filtered()
    asked = w.ask(scope)
    return f"select t.id as id, t.k as k, t.a as a, {asked.sql} as x {scope.source}", (*scope.sites, scope.site(name, asked))


@position("derived table")
def _derived(w: Writer) -> Query:
    inner, sites = _inner(w, "derived table")
    scope = _named(f"from ({inner}) d")
    asked = w.maybe(scope) or Cheap("x is not false")
    return Query(f"select id, x {scope.source} where {asked.sql}", (*sites, scope.site("where", asked, True)))


@position("cte once")
def _cte_once(w: Writer) -> Query:
    inner, sites = _inner(w, "cte once")
    scope = _named("from c d")
    asked = w.maybe(scope) or Cheap("x")
    with_ = f"with c as ({inner})"
    return Query(
        f"{with_} select id, k {scope.source} where {asked.sql}",
        (*sites, Site("where", asked, Rows(scope.source, with_), drops=True)),
    )


@position("cte twice")
def _cte_twice(w: Writer) -> Query:
    inner, sites = _inner(w, "cte twice")
    scope = replace(_named("from c d join c e on d.id = e.k"), texts=("d.a", "e.a"))
    asked = w.maybe(scope) or Cheap("d.x or e.x")
    with_ = f"with c as ({inner})"
    site = Site("where", asked, Rows(scope.source, with_), "inner", drops=True)
    return Query(f"{with_} select d.id, e.id, e.x {scope.source} where {asked.sql}", (*sites, site))


def _arm(w: Writer, name: str) -> tuple[str, list[Site]]:
    scope = w.scope()
    asked = w.ask(scope)
    return f"select t.a as a, t.k as k {scope.source} where {asked.sql}", [*scope.sites, scope.site(name, asked, True)]


@position("union", 2)
def _union(w: Writer) -> Query:
    return _set_operation(w, "union", w.one("union", "union all"))


@position("except", 2)
def _except(w: Writer) -> Query:
    return _set_operation(w, "except", w.one("except", "except all"))


@position("intersect", 2)
def _intersect(w: Writer) -> Query:
    return _set_operation(w, "intersect", w.one("intersect", "intersect all"))


def _set_operation(w: Writer, name: str, operator: str) -> Query:
    (one, sites), (other, more) = _arm(w, name), _arm(w, name)
    return Query(f"{one} {operator} {other}", (*sites, *more))


@position("over a set operation")
def _over(w: Writer) -> Query:
    one, other = w.filtered(T), w.filtered(T)
    operation = f"select t.a as a, t.k as k {one.source} {w.one('except', 'intersect', 'union')} select t.b, t.k {other.source}"
    scope = Scope(f"from ({operation}) d", ("d.a", "d.k::varchar"), ("d.k = 1", "d.a is null", "d.a = 'late'"), ("d.a",))
    asked = w.ask(scope)
    sites = (*one.sites, *other.sites, scope.site("over a set operation", asked, True))
    return Query(f"select a, k {scope.source} where {asked.sql}", sites)


# Subqueries


def _inside(scope: Scope, name: str = "i") -> Scope:
    """The rows of u beside each row of a scope: what a correlated subquery reads."""
    inner = table_u(name)
    return replace(scope, source=f"{scope.source} cross join u {name}", texts=(*inner.texts, "t.a"), cheap=inner.cheap)


def _correlated(w: Writer, name: str, scope: Scope) -> tuple[Expression, Site]:
    inside = _inside(scope)
    condition = Node("and", (Cheap(w.one("i.k = t.k", "i.uid <= t.id")), w.ask(inside)))
    return condition, inside.site(name, condition, True)


def _beside(w: Writer, scope: Scope, subquery: str, site: Site, operator: str = "and") -> Query:
    """A subquery that asks as a condition of WHERE, perhaps beside another that asks."""
    other = w.maybe(scope)
    parts = (Cheap(subquery, asks=True), *([other] if other else []))
    where = Node(operator, parts) if other else parts[0]
    return Query(
        f"select {scope.shown} {scope.source} where {where.sql}", (*scope.sites, site, scope.site("where", where, True))
    )


@position("exists")
def _exists(w: Writer) -> Query:
    scope = w.scope()
    condition, site = _correlated(w, "exists", scope)
    return _beside(w, scope, f"exists (select 1 from u i where {condition.sql})", site, w.one("and", "or"))


@position("not exists")
def _not_exists(w: Writer) -> Query:
    scope = w.scope()
    condition, site = _correlated(w, "not exists", scope)
    return _beside(w, scope, f"not exists (select 1 from u i where {condition.sql})", site, w.one("and", "or"))


def _uncorrelated(w: Writer, name: str) -> tuple[Expression, Site]:
    inner = table_u("i")
    asked = w.ask(inner)
    return asked, inner.site(name, asked, True)


@position("in")
def _in(w: Writer) -> Query:
    asked, site = _uncorrelated(w, "in")
    return _beside(w, w.scope(), f"t.k in (select i.k from u i where {asked.sql})", site, w.one("and", "or"))


@position("not in")
def _not_in(w: Writer) -> Query:
    asked, site = _uncorrelated(w, "not in")
    return _beside(w, w.scope(), f"t.k not in (select i.k from u i where {asked.sql})", site, w.one("and", "or"))


@position("any")
def _any(w: Writer) -> Query:
    asked, site = _uncorrelated(w, "any")
    compared = w.one("t.a = any (select i.c", "t.k >= all (select i.k", "t.k > any (select i.uid")
    return _beside(w, w.scope(), f"{compared} from u i where {asked.sql})", site, w.one("and", "or"))


@position("scalar subquery, correlated")
def _scalar(w: Writer) -> Query:
    scope = w.scope()
    condition, site = _correlated(w, "scalar subquery, correlated", scope)
    return Query(
        f"select {scope.shown}, (select count(*) from u i where {condition.sql}) as n {scope.source}", (*scope.sites, site)
    )


@position("scalar subquery, uncorrelated")
def _scalar_uncorrelated(w: Writer) -> Query:
    asked, site = _uncorrelated(w, "scalar subquery, uncorrelated")
    scope = w.filtered()
    return Query(
        f"select {scope.shown}, (select max(i.uid) from u i where {asked.sql}) as n {scope.source}", (*scope.sites, site)
    )


@position("subquery in a condition")
def _scalar_in_where(w: Writer) -> Query:
    scope = w.scope()
    condition, site = _correlated(w, "subquery in a condition", scope)
    return _beside(w, scope, f"(select count(*) from u i where {condition.sql}) > {w.one('0', '1')}", site)


# Other sources


@position("lateral")
def _lateral(w: Writer) -> Query:
    condition, site = _correlated(w, "lateral", T)
    inner = f"select count(*) as n, max(i.c) as c from u i where {condition.sql}"
    scope = replace(T, source=f"from t, lateral ({inner}) l", texts=("l.c", "t.a"), cheap=("l.n > 0", "l.n = 1", "t.id < 5"))
    other = w.maybe(scope) or Cheap("true")
    return Query(f"select t.id, l.n {scope.source} where {other.sql}", (site, scope.site("where", other, True)))


@position("values")
def _values(w: Writer) -> Query:
    literals = Scope("", ("'late'", "'a ''quoted'' {0}'", "'x'"), ("1 = 1", "null"), ())
    asked = w.ask(literals)
    source = f"from (values (1, {asked.sql}, 'late'), (2, null, ''), (3, true, null)) d(id, x, a)"
    scope = Scope(source, ("d.a",), ("d.x", "d.id = 1", "d.x is null"), ("d.id",))
    other = w.maybe(scope) or Cheap("true")
    return Query(
        f"select id, x {source} where {other.sql}", (literals.site("values", asked), scope.site("values", other, True))
    )


@position("values as a source")
def _values_source(w: Writer) -> Query:
    source = (
        "from (values (1, 0, 'late', 'x'), (2, 1, null, ''), (3, null, 'refund ünï', 'x'), (4, 0, 'late', null)) t(id, k, a, b)"
    )
    scope = replace(T, source=source)
    asked = w.ask(scope)
    return Query(f"select id {source} where {asked.sql}", (scope.site("values as a source", asked, True),))


@position("unnest")
def _unnest(w: Writer) -> Query:
    source = "from t, unnest(string_split(t.a, ' ')) s(word)"
    scope = replace(T, source=source, texts=("s.word", "t.b"), cheap=("s.word <> 'x'", "t.id < 5", "length(s.word) > 4"))
    asked = w.ask(scope)
    return Query(f"select t.id, s.word {source} where {asked.sql}", (scope.site("unnest", asked, True),))


@position("unnest in a select list")
def _unnest_select(w: Writer) -> Query:
    source = "from (select t.id as id, t.k as k, unnest(string_split(t.a, ' ')) as a, null as x from t) d"
    scope = _named(source)
    asked = w.ask(scope)
    return Query(f"select id, a, {asked.sql} as y {source}", (scope.site("unnest in a select list", asked),))
