"""Positions in statements that write. Each reads afterwards what it wrote."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from expressions import Cheap, Expression
from grammar import T, Writer
from positions import Query, position, sites_of

COPIED = Path(tempfile.gettempdir()) / f"quail_copied_{os.getpid()}.csv"


@position("insert")
def _insert(w: Writer) -> Query:
    scope = w.filtered()
    asked = w.ask(scope)
    columns = w.one("(id, x)", "(id, x)", "by name")
    text = f"{_ctes(w)}insert into r {columns} select t.id as id, {asked.sql} as x {scope.source}{_returning(w)}"
    return Query(text, (*scope.sites, scope.site("insert", asked)), reads="from r")


def _ctes(w: Writer) -> str:
    return w.one("", "with c as (select 1 as one) ")


def _returning(w: Writer) -> str:
    return w.one("", " returning *")


@position("create table as")
def _create(w: Writer) -> Query:
    scope = w.scope()
    asked, other = w.ask(scope), w.maybe(scope)
    kept = replace(scope, source=f"{scope.source} where {asked.sql}")
    create, table = w.one("create table ", "create or replace table ", "create or replace temp table "), "made"
    if "temp" in create:
        table = "made_for_now"
    item = f", {other.sql}" if other else ""
    text = f"{create}{table} as select t.id{item} {kept.source}"
    sites = (*scope.sites, scope.site("create table as", asked, True), *sites_of(kept, "select", other))
    return Query(text, sites, reads=f"from {table}")


@position("copy")
def _copy(w: Writer) -> Query:
    scope = w.scope()
    asked = w.ask(scope)
    text = f"copy (select {scope.shown}, t.a {scope.source} where {asked.sql}) to '{COPIED}' (header)"
    sites = (*scope.sites, scope.site("copy", asked, True))
    return Query(text, sites, reads=f"from read_csv('{COPIED}', header = true, all_varchar = true)")


# One row of u a key, so that no row of r is met twice.
_EACH = "(select k, min(uid) as uid, min(c) as c from u group by k) u"


@position("update", joins=("none", "inner"))
def _update(w: Writer) -> Query:
    beside = w.join("none", "inner") == "inner"
    scope = replace(T, source="from r t")
    cheap: tuple[Expression, ...] = ()
    if beside:
        scope = replace(T, source=f"from r t, {_EACH}", texts=("u.c", *T.texts), joined=(("inner", ""),))
        cheap = (Cheap("t.k = u.k"),)
    where = w.maybe(scope)
    parts = [part.sql for part in (*cheap, where) if part]
    kept = replace(scope, source=f"{scope.source} where {' and '.join(parts)}" if parts else scope.source)
    only = replace(scope, source=f"{scope.source} where {cheap[0].sql}" if cheap else scope.source)
    asked = w.ask(kept)
    text = f"{_ctes(w)}update r as t set x = ({asked.sql})::varchar, b = 'seen'{f' from {_EACH}' if beside else ''}"
    text += (f" where {' and '.join(parts)}" if parts else "") + _returning(w)
    sites = [kept.site("update", asked), *([only.site("where", where, True)] if where else [])]
    return Query(text, tuple(sites), reads="from r")


@position("delete", joins=("none", "cross"))
def _delete(w: Writer) -> Query:
    beside = w.join("none", "cross") == "cross"
    scope = replace(T, source="from r t")
    if beside:
        scope = replace(
            T, source="from r t, u", texts=("u.c", *T.texts), cheap=("t.k = u.k", *T.cheap), joined=(("cross", ""),)
        )
    asked = w.ask(scope)
    text = f"{_ctes(w)}delete from r as t{' using u' if beside else ''} where {asked.sql}{_returning(w)}"
    return Query(text, (scope.site("delete", asked, True),), reads="from r")


@position("merge")
def _merge(w: Writer) -> Query:
    scope = w.scope()
    asked = w.ask(scope)
    using = f"select t.id as id, count(*) as n {scope.source} where {asked.sql} group by t.id"
    when = w.one("update set x = s.n::varchar", "delete")
    text = f"merge into r using ({using}) s on r.id = s.id + {w.one('0', '4')} when matched then {when}"
    text += " when not matched then insert (id, x) values (s.id, s.n::varchar)"
    return Query(text, (*scope.sites, scope.site("merge", asked, True)), reads="from r")
