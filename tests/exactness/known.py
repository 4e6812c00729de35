"""Where the engine asks more than the bound: named here so that the differential can go on.

Each predicate says which generated queries a gap can touch. Their rows are compared all the same; only their count is not.
`test_known_gaps.py` holds the smallest query of every gap as a strict xfail, which fails when the gap is closed: then its
predicate goes, too.
"""

from __future__ import annotations

from bound import Bound, Site
from generated_data import Data
from positions import Query

_OF_GROUPS_AND_WINDOWS = ("having", "qualify", "aggregate filter")
_FILTERED_OUTSIDE = ("derived table", "cte once", "cte twice")


def may_ask_more(query: Query) -> bool:
    """A condition over a join that asks: both become one conjunction.

    A NULLIF in a branch that a call decides, too.
    """
    pushed = any(_is_pushed(site) and _decides(site.rows.source) for site in query.sites)
    return pushed or any("nullif" in guarded.around[1:] for site in query.sites for guarded in site.calls())


def _is_pushed(site: Site) -> bool:
    return site.position in _FILTERED_OUTSIDE or (site.drops and site.position not in _OF_GROUPS_AND_WINDOWS)


def _decides(source: str) -> bool:
    return "AI_" in source


def slack(bound: Bound, rows: Data) -> int:
    """What may be asked on top where a column holds one text only: DuckDB takes it for a constant, and asks while it plans."""
    t, u = rows
    columns = [{row[i] for row in table} - {None} for table, texts in ((t, (2, 3)), (u, (2,))) for i in texts]
    return len(bound.met) if any(len(values) == 1 for values in columns) else 0
