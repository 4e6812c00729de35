"""Positions in queries of several scopes: derived tables, CTEs, set operations, subqueries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bound import Site
from expressions import Cheap, Expression, Node
from grammar import Scope, Writer, table_u
from positions import Query, position


def _named(source: str) -> Scope:
    """What is seen of an inner query with the columns id, k, a, x."""
    cheap = ("d.id < 5", "d.k = 1", "d.x is null", "d.x", "d.a = 'late'")
    return Scope(source, ("d.a", "d.k::varchar"), cheap, ("d.id",), "d.k")


def _inner(w: Writer, name: str) -> tuple[str, tuple[Site, ...]]:
    """A query with the columns id, k, a, x, whose x asks."""
    scope = w.filtered()
    asked = w.ask(scope)
    sites = (*scope.sites, scope.site(name, asked))
    return f"select t.id as id, t.k as k, t.a as a, {asked.sql} as x {scope.source}", sites


@position("derived table")
def _derived(w: Writer) -> Query:
    inner, sites = _inner(w, "derived table")
    scope = w.scope(_named(f"from ({inner}) d"))
    asked = w.maybe(scope) or Cheap("d.x is not false")
    return Query(
        f"select {scope.shown}, d.x {scope.source} where {asked.sql}", (*sites, *scope.sites, scope.site("where", asked, True))
    )


@position("cte once")
def _cte_once(w: Writer) -> Query:
    inner, sites = _inner(w, "cte once")
    return _over_cte(w, f"with c as {w.one('', 'materialized ', 'not materialized ')}({inner})", "from c d", sites)


@position("cte twice")
def _cte_twice(w: Writer) -> Query:
    inner, sites = _inner(w, "cte twice")
    join = w.one("join c e on d.id = e.k", "left join c e on d.id = e.k and e.x", "full join c e on d.id = e.id and d.x = e.x")
    return _over_cte(w, f"with c as ({inner})", f"from c d {join}", sites, "d.x or e.x")


def _over_cte(w: Writer, with_: str, source: str, sites: tuple[Site, ...], condition: str = "d.x") -> Query:
    scope = w.scope(_named(source))
    asked = w.maybe(scope) or Cheap(condition)
    more = (*scope.sites, scope.site("where", asked, True))
    text = f"{with_} select {scope.shown}, d.x {scope.source} where {asked.sql}"
    return Query(text, (*sites, *(replace(site, rows=replace(site.rows, with_=with_)) for site in more)))


@position("limit in a derived table")
def _limit_inside(w: Writer) -> Query:
    scope = w.scope()
    asked = w.ask(scope)
    inner = f"select t.id as id, t.k as k, t.a as a, t.b = 'x' as x {scope.source} where {asked.sql}"
    inner += f" order by {scope.shown} {w.one('limit 2', 'limit 1', 'limit 3 offset 1')}"
    outer = w.scope(_named(f"from ({inner}) d"))
    other = w.maybe(outer) or Cheap("d.id < 5")
    return Query(
        f"select {outer.shown} {outer.source} where {other.sql}",
        (
            *scope.sites,
            scope.site("limit in a derived table", asked, True),
            *outer.sites,
            outer.site("where", other, True),
        ),
    )


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


@position("over a set operation", 2)
def _over(w: Writer) -> Query:
    operator = w.one("except", "intersect", "union", "union all", "except all")
    one, other = w.filtered(w.alone()), w.filtered(w.alone())
    columns = "t.id as id, t.a as a, t.k as k"
    operation = f"select {columns} {one.source} {operator} select t.id, t.b, t.k {other.source}"
    scope = w.scope(
        Scope(f"from ({operation}) d", ("d.a", "d.k::varchar"), ("d.k = 1", "d.a is null", "d.a = 'late'"), ("d.id",), "d.k")
    )
    asked = w.ask(scope)
    kept = replace(scope, source=f"{scope.source} where {asked.sql}")
    shown = w.ask(kept)
    over = (scope.site("over a set operation", asked, True), kept.site("over a set operation", shown))
    return Query(f"select {scope.shown}, {shown.sql} as y {kept.source}", (*one.sites, *other.sites, *scope.sites, *over))


# Subqueries


def _inside(scope: Scope, name: str = "i") -> Scope:
    """The rows of u beside each row of a scope: what a correlated subquery reads."""
    inner = table_u(name)
    return replace(scope, source=f"{scope.source} cross join u {name}", texts=(*inner.texts, "t.a"), cheap=inner.cheap)


def correlated(w: Writer, name: str, scope: Scope) -> tuple[Expression, Site]:
    inside = _inside(scope)
    condition = Node("and", (Cheap(w.one("i.k = t.k", "i.uid <= t.id")), w.ask(inside)))
    return condition, inside.site(name, condition, True)


def _beside(w: Writer, scope: Scope, subquery: str, sites: Sequence[Site], operator: str = "and") -> Query:
    """A subquery that asks as a condition of WHERE, perhaps beside another that asks."""
    other = w.maybe(scope)
    parts = (Cheap(subquery, asks=True), *([other] if other else []))
    where = Node(operator, parts) if other else parts[0]
    return Query(
        f"select {scope.shown} {scope.source} where {where.sql}", (*scope.sites, *sites, scope.site("where", where, True))
    )


@position("exists")
def _exists(w: Writer) -> Query:
    scope = w.scope()
    condition, site = correlated(w, "exists", scope)
    return _beside(w, scope, f"exists (select 1 from u i where {condition.sql})", [site], w.one("and", "or"))


@position("not exists")
def _not_exists(w: Writer) -> Query:
    scope = w.scope()
    condition, site = correlated(w, "not exists", scope)
    return _beside(w, scope, f"not exists (select 1 from u i where {condition.sql})", [site], w.one("and", "or"))


def _uncorrelated(w: Writer, name: str) -> tuple[Scope, Expression, tuple[Site, ...]]:
    inner = w.scope(table_u("i"), ("j", "l"))
    asked = w.ask(inner)
    return inner, asked, (*inner.sites, inner.site(name, asked, True))


@position("in")
def _in(w: Writer) -> Query:
    inner, asked, sites = _uncorrelated(w, "in")
    return _beside(w, w.scope(), f"t.k in (select i.k {inner.source} where {asked.sql})", sites, w.one("and", "or"))


@position("not in")
def _not_in(w: Writer) -> Query:
    inner, asked, sites = _uncorrelated(w, "not in")
    return _beside(w, w.scope(), f"t.k not in (select i.k {inner.source} where {asked.sql})", sites, w.one("and", "or"))


@position("in, correlated")
def _in_correlated(w: Writer) -> Query:
    scope = w.scope()
    condition, site = correlated(w, "in, correlated", scope)
    in_ = w.one("in", "not in")
    return _beside(w, scope, f"t.k {in_} (select i.k from u i where {condition.sql})", [site], w.one("and", "or"))


@position("any")
def _any(w: Writer) -> Query:
    inner, asked, sites = _uncorrelated(w, "any")
    compared = w.one("t.a = any (select i.c", "t.k >= all (select i.k", "t.k > any (select i.uid")
    return _beside(w, w.scope(), f"{compared} {inner.source} where {asked.sql})", sites, w.one("and", "or"))


@position("scalar subquery, correlated")
def _scalar(w: Writer) -> Query:
    scope = w.scope()
    condition, site = correlated(w, "scalar subquery, correlated", scope)
    return Query(
        f"select {scope.shown}, (select count(*) from u i where {condition.sql}) as n {scope.source}", (*scope.sites, site)
    )


@position("scalar subquery, uncorrelated")
def _scalar_uncorrelated(w: Writer) -> Query:
    inner, asked, sites = _uncorrelated(w, "scalar subquery, uncorrelated")
    scope = w.filtered()
    value = f"(select max(i.uid) {inner.source} where {asked.sql})"
    return Query(f"select {scope.shown}, {value} as n {scope.source}", (*scope.sites, *sites))


@position("subquery in a condition")
def _scalar_in_where(w: Writer) -> Query:
    scope = w.scope()
    condition, site = correlated(w, "subquery in a condition", scope)
    return _beside(w, scope, f"(select count(*) from u i where {condition.sql}) > {w.one('0', '1')}", [site])
