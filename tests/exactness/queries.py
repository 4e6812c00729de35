"""One query for each position in which an AI call may stand, around the parts that the grammar draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from bound import Rows, Site
from expressions import Cheap, Expression, Node, dropping_conjuncts
from grammar import PLAIN, Scope, T, Writer, table_u


@dataclass(frozen=True)
class Query:
    text: str
    sites: tuple[Site, ...]
    ordered: bool = False  # ORDER BY fixes the order of its rows
    unlimited: str = ""  # the same query without its LIMIT, where that decides which rows come


Skeleton = Callable[[Writer], Query]
POSITIONS: dict[str, tuple[Skeleton, int]] = {}
"""By name: the skeleton, and how many of its expressions must ask."""


def position(name: str, asks: int = 1) -> Callable[[Skeleton], Skeleton]:
    def add(skeleton: Skeleton) -> Skeleton:
        POSITIONS[name] = (skeleton, asks)
        return skeleton

    return add


def query(seed: int) -> Query:
    """The query of a seed: the positions take turns, all else is drawn."""
    skeleton, asks = POSITIONS[list(POSITIONS)[seed % len(POSITIONS)]]
    return skeleton(Writer(Random(seed), asks))


# Clauses of one SELECT


@position("where")
def _where(w: Writer) -> Query:
    scope = w.scope()
    asked = w.ask(scope)
    return Query(f"select {scope.shown} {scope.source} where {asked.sql}", (*scope.sites, scope.site("where", asked, True)))


@position("where: several conditions", 2)
def _where_twice(w: Writer) -> Query:
    scope = w.scope()
    both = Node("and", (w.ask(scope), Cheap(w.one(*scope.cheap)), w.ask(scope)))
    return Query(
        f"select {scope.shown} {scope.source} where {both.sql}",
        (*scope.sites, scope.site("where: several conditions", both, True)),
    )


@position("select")
def _select(w: Writer) -> Query:
    scope = w.filtered()
    asked, other = w.ask(scope), w.maybe(scope)
    items = f"{asked.sql} as x" + (f", {other.sql}" if other else "")
    return Query(f"select {scope.shown}, {items} {scope.source}", (*scope.sites, *_sites(scope, "select", asked, other)))


@position("on")
def _on(w: Writer) -> Query:
    scope = w.filtered(w.scope(asks_in_on=True))
    return Query(f"select {scope.shown} {scope.source}", scope.sites)


@position("on: several conditions")
def _on_twice(w: Writer) -> Query:
    kind = w.one("join", "left join", "right join", "full join", "semi join", "anti join")
    pair = replace(
        T, source="from t cross join u", texts=(*T.texts, "u.c"), cheap=("u.uid > 2", *PLAIN), keys=("t.id", "u.uid")
    )
    pair = replace(pair, join=kind.removesuffix(" join").replace("join", "inner"))
    parts = [Cheap("t.k = u.k"), w.ask(pair), w.maybe(pair), w.maybe(pair)]
    on = Node("and", tuple(part for part in parts if part))
    shown = "t.id" if kind in ("semi join", "anti join") else pair.shown
    return Query(f"select {shown} from t {kind} u on {on.sql}", (pair.site("on: several conditions", on, True),))


@position("group by alias")
def _group_alias(w: Writer) -> Query:
    return _group(w, "group by alias", "x", "x")


@position("group by ordinal")
def _group_ordinal(w: Writer) -> Query:
    return _group(w, "group by ordinal", "x", "1")


@position("group by all")
def _group_all(w: Writer) -> Query:
    return _group(w, "group by all", "x", "all")


@position("group by rollup")
def _group_rollup(w: Writer) -> Query:
    return _group(w, "group by rollup", "x", w.one("rollup({}, t.k)", "cube({}, t.k)", "grouping sets (({}), ())"))


@position("group by expression")
def _group_expression(w: Writer) -> Query:
    return _group(w, "group by expression", "", "{}")


def _group(w: Writer, name: str, alias: str, by: str) -> Query:
    scope = w.filtered()
    asked = w.ask(scope)
    item = asked.sql + (f" as {alias}" if alias else "")
    text = f"select {item}, count(*), min(t.id) {scope.source} group by {by.replace('{}', asked.sql)}"
    return Query(text, (*scope.sites, scope.site(name, asked)))


@position("having")
def _having(w: Writer) -> Query:
    groups = w.grouped()
    asked = w.ask(groups)
    return Query(
        f"select t.k, count(*) {groups.source} having {asked.sql}", (*groups.sites, groups.site("having", asked, True))
    )


@position("after having")
def _after_having(w: Writer) -> Query:
    groups = w.grouped()
    having = w.maybe(groups) or Cheap("count(*) > 0")
    kept = replace(groups, source=f"{groups.source} having {having.sql}")
    asked = w.ask(kept)
    sites = (*groups.sites, groups.site("having", having, True), kept.site("after having", asked))
    return Query(f"select t.k, {asked.sql} as x {kept.source}", sites)


@position("qualify")
def _qualify(w: Writer) -> Query:
    scope = w.filtered()
    ranks = ("row_number() over (partition by t.k order by {}) = 1", "count(*) over (partition by t.k) > 1")
    windows = replace(scope, cheap=(*scope.cheap, *(rank.format(scope.shown) for rank in ranks)))
    qualify = Node("and", (Cheap(w.one(*windows.cheap[-2:])), w.ask(windows)))
    return Query(
        f"select {scope.shown} {scope.source} qualify {qualify.sql}", (*scope.sites, windows.site("qualify", qualify, True))
    )


@position("order by")
def _order_by(w: Writer) -> Query:
    scope = w.filtered()
    asked = w.ask(scope)
    text = f"select {scope.shown} {scope.source} order by {asked.sql}{w.one('', ' desc', ' nulls first')}, {scope.shown}"
    return Query(text, (*scope.sites, scope.site("order by", asked)), ordered=True)


@position("aggregate argument")
def _aggregate(w: Writer) -> Query:
    scope = w.filtered()
    asked = w.ask(scope)
    call = w.one(
        "count({})", "bool_or({})", "sum(case when {} then t.id end)", "avg(cast({} as integer))", "count(distinct {})"
    )
    group = w.one("", " group by t.k")
    text = f"select {'t.k, ' if group else ''}{call.format(asked.sql)} {scope.source}{group}"
    return Query(text, (*scope.sites, scope.site("aggregate argument", asked)))


@position("aggregate filter")
def _filter(w: Writer) -> Query:
    scope = w.filtered()
    asked, other = w.ask(scope), w.maybe(scope)
    sites = [*scope.sites, scope.site("aggregate filter", asked, True)]
    shown = f"count(*) filter (where {asked.sql})"
    if other:
        shown += f", count({other.sql}) filter (where {asked.sql})"
        sites.append(replace(scope.site("aggregate argument", other), guard=tuple(dropping_conjuncts(asked))))
    return Query(f"select t.k, {shown} {scope.source} group by t.k", tuple(sites))


@position("window partition")
def _partition(w: Writer) -> Query:
    return _window(w, "window partition", "rank() over (partition by {} order by t.id)")


@position("window order")
def _window_order(w: Writer) -> Query:
    return _window(w, "window order", w.one("rank() over (partition by t.k order by {})", "sum(t.id) over (order by {}, t.id)"))


@position("window argument")
def _window_argument(w: Writer) -> Query:
    return _window(
        w,
        "window argument",
        w.one(
            "max({}) over (partition by t.k)", "count(*) filter (where ({}) is true) over ()", "lag({}) over (order by {keys})"
        ),
    )


def _window(w: Writer, name: str, window: str) -> Query:
    scope = w.filtered()
    asked = w.ask(scope)
    item = window.replace("{keys}", scope.shown).replace("{}", asked.sql)
    return Query(f"select {scope.shown}, {item} as x {scope.source}", (*scope.sites, scope.site(name, asked)))


@position("distinct")
def _distinct(w: Writer) -> Query:
    scope = w.filtered()
    asked = w.ask(scope)
    return Query(f"select distinct {asked.sql} as x, t.k {scope.source}", (*scope.sites, scope.site("distinct", asked)))


@position("distinct on")
def _distinct_on(w: Writer) -> Query:
    scope = w.filtered()
    asked = w.ask(scope)
    text = f"select distinct on ({asked.sql}) {scope.shown} {scope.source} order by {asked.sql}, {scope.shown}"
    return Query(text, (*scope.sites, scope.site("distinct on", asked)), ordered=True)


@position("limit")
def _limit(w: Writer) -> Query:
    scope = w.scope()
    asked = w.ask(scope)
    where = f"select {scope.shown} {scope.source} where {asked.sql}"
    return Query(
        f"{where} {w.one('limit 1', 'limit 2', 'limit 3 offset 1', 'limit 50')}",
        (*scope.sites, scope.site("limit", asked, True)),
        unlimited=where,
    )


@position("limit, ordered")
def _limit_ordered(w: Writer) -> Query:
    scope = w.scope()
    asked, other = w.ask(scope), w.maybe(scope)
    kept = replace(scope, source=f"{scope.source} where {asked.sql}")
    item = f", {other.sql} as x" if other else ""
    direction = w.one("", " desc")
    order = ", ".join(key + direction for key in scope.keys)
    text = f"select {scope.shown}{item} {kept.source} order by {order} {w.one('limit 1', 'limit 2', 'limit 2 offset 1')}"
    return Query(text, (*scope.sites, scope.site("limit, ordered", asked, True), *_sites(kept, "select", other)), ordered=True)


# Several scopes


def _sites(scope: Scope, name: str, *expressions: Expression | None) -> list[Site]:
    return [scope.site(name, expression) for expression in expressions if expression]


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
