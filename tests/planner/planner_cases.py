"""What the planner's tests ask, and of which rows."""

from __future__ import annotations

TABLES = """
create table t as
    select i as id, i % 10 as k,
           case when i % 2 = 0 then 'even ' else 'odd ' end || case when i % 5 = 0 then 'five ' else '' end
           || case when i % 20 = 0 then 'twenty ' else '' end || i as body,
           case when i % 7 <> 3 then 'note ' || i % 50 end as note
    from range(400) r(i);
create table u as select i as k, 'unit ' || i || case when i % 3 = 0 then ' even' else ' odd' end as name from range(10) r(i);
"""
"""400 texts: half hold 'even', a fifth 'five', a twentieth 'twenty'; 50 notes, some of them NULL."""


def contains(phrase: str, column: str, **options: float | str) -> str:
    """A call that is TRUE where the column contains the phrase."""
    given = f", {options}" if options else ""
    return f"AI_FILTER('Contains ''{phrase}''?', {column}{given})"
