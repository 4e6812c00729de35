"""Lines of the measurement as Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any


def tables(lines: Sequence[dict[str, Any]]) -> str:
    """A table a part; its columns are named as in the lines.

    >>> print(tables([{"part": "glue", "glue": "rope", "seconds": 0.00012345, "rows": 8192}]))
    **glue**
    <BLANKLINE>
    | glue | seconds | rows |
    |---|---|---|
    | rope | 0.000123 | 8,192 |
    <BLANKLINE>
    """
    found = []
    for part, members in groupby(sorted(lines, key=lambda line: str(line["part"])), lambda line: line["part"]):
        rows = [{name: value for name, value in line.items() if name != "part"} for line in members]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        found += [f"**{part}**", "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        found += ["| " + " | ".join(_cell(row.get(name, "")) for name in columns) + " |" for row in rows]
        found.append("")
    return "\n".join(found)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
