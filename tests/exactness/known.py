"""Where the engine may ask more than the bound: every such gap, and how far it reaches, so that no query goes uncounted.

1. DuckDB evaluates a condition as one conjunction with those of an outer join that it makes an inner one, and with those of a
   query inside; a guard tells neither the rows that a join fills in nor a condition that holds a query. So of those that
   ask none spares the other its rows: each counts as TRUE.
2. A correlated subquery is evaluated below a SEMI or ANTI join whose ON asks: the join counts as not there.
3. DuckDB takes a column that holds one value only for a constant, and asks about that value while it plans, where a call cannot
   be told from row to row, as behind the name of a select item.
4. DuckDB knows the columns of a table without rows, so these keep no call above a join with it: nothing is counted there.

`test_known_gaps.py` holds the smallest query of a gap, and what DuckDB itself cannot run, as strict xfails.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import duckdb
from bound import Bound, Rows, Site, inputs_of
from expressions import Expression, asks, chain
from generated_data import Tables

_COLUMN = re.compile(r"\b[a-z]+\.([abcdk])\b")
_ROW_BY_ROW = ("where", "where: several conditions", "on", "on: several conditions", "select")
_OF_GROUPS_AND_WINDOWS = ("having", "qualify", "aggregate filter")
_CORRELATED = ("exists", "not exists", "in, correlated", "scalar subquery, correlated", "subquery in a condition", "lateral")
_FILTERED_OUTSIDE = ("derived table", "cte once", "cte twice")


def most_with_gaps(bound: Bound, sites: Sequence[Site], tables: Tables, oracle: duckdb.DuckDBPyConnection) -> float:
    """The most that a query with this bound may ask, the gaps granted."""
    if not tables.u:
        return math.inf
    inputs = {question: set(rows) for question, rows in bound.inputs.items()}
    folded = 0
    for site in sites:
        rows = _widened(site, sites)
        for guarded in site.calls():
            columns = set(_COLUMN.findall(guarded.call.sql))
            folded += site.position not in _ROW_BY_ROW and bool(columns) and columns <= _of_one_value(tables)
            if not guarded.call.is_constant:
                found = inputs_of(guarded.call, rows, (*site.guard, *guarded.guard), oracle)
                inputs[guarded.call.question] |= {row for row in found if None not in row}
    return sum(map(len, inputs.values())) + folded


def _widened(site: Site, sites: Sequence[Site]) -> Rows:
    """The rows of a site without what does not hold DuckDB back."""
    correlated = site.position in _CORRELATED
    if not (site.position in _FILTERED_OUTSIDE or correlated or (site.drops and site.position not in _OF_GROUPS_AND_WINDOWS)):
        return site.rows
    source = site.rows.source
    for kind, join in site.rows.joined:
        if correlated and kind in ("semi", "anti") and "AI_" in join:
            source = source.replace(join, "")
    return Rows(_undecided(source, sites), _undecided(site.rows.with_, sites))


def _undecided(sql: str, sites: Sequence[Site]) -> str:
    """A part of a query with TRUE for every condition that asks."""
    for site in sites:
        if site.drops and asks(site.expression):
            sql = sql.replace(site.expression.sql, _without_calls(site.expression))
    return sql


def _without_calls(condition: Expression) -> str:
    return " and ".join(["true", *(part.sql for part in chain(condition, "and") if not asks(part))])


def _of_one_value(tables: Tables) -> set[str]:
    """The columns with one value, NULLs aside."""
    places = [(name, tables.t, at) for at, name in enumerate("kabd", 1)] + [("k", tables.u, 1), ("c", tables.u, 2)]
    return {name for name, rows, at in places if len({row[at] for row in rows} - {"null"}) == 1}
