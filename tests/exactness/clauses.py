"""Positions in the clauses of one SELECT."""

from __future__ import annotations

from dataclasses import replace

from expressions import Cheap, Node, dropping_conjuncts
from grammar import OUTER_AND_INNER, PLAIN, T, Writer
from positions import Query, position, sites_of


@position("where")
def _where(w: Writer) -> Query:
    scope = w.scope()
    asked = w.ask(scope)
    shown = w.one(scope.shown, scope.join_keys)
    return Query(f"select {shown} {scope.source} where {asked.sql}", (*scope.sites, scope.site("where", asked, True)))


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
    return Query(f"select {scope.shown}, {items} {scope.source}", (*scope.sites, *sites_of(scope, "select", asked, other)))


@position("on", joins=OUTER_AND_INNER)
def _on(w: Writer) -> Query:
    scope = w.filtered(w.scope(asks_in_on=True))
    return Query(f"select {scope.shown} {scope.source}", scope.sites)


@position("on: several conditions", joins=OUTER_AND_INNER)
def _on_twice(w: Writer) -> Query:
    kind = w.join(*OUTER_AND_INNER)
    pair = replace(
        T, source="from t cross join u", texts=(*T.texts, "u.c"), cheap=("u.uid > 2", *PLAIN), keys=("t.id", "u.uid")
    )
    pair = replace(pair, joined=((kind, ""),))
    parts = [Cheap("t.k = u.k"), w.ask(pair), w.maybe(pair), w.maybe(pair)]
    on = Node("and", tuple(part for part in parts if part))
    shown = "t.id" if kind in ("semi", "anti") else pair.shown
    return Query(f"select {shown} from t {kind} join u on {on.sql}", (pair.site("on: several conditions", on, True),))


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
    return Query(
        text, (*scope.sites, scope.site("limit, ordered", asked, True), *sites_of(kept, "select", other)), ordered=True
    )


@position("limit, asked in the select list")
def _limit_select(w: Writer) -> Query:
    scope = w.filtered()
    asked = w.ask(scope)
    whole = f"select {scope.shown}, {asked.sql} as x {scope.source}"
    sites = (*scope.sites, scope.site("limit, asked in the select list", asked))
    return Query(f"{whole} {w.one('limit 1', 'limit 2 offset 1', 'limit 50')}", sites, unlimited=whole)
