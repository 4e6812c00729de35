"""How often each position, join kind and form met a NULL input, and how often it did not."""

from __future__ import annotations

from collections import Counter
from typing import Any

from bound import Bound
from grammar import JOINS
from queries import POSITIONS

FORMS = ("and", "or", "not", "is null", "case", "if", "coalesce", "nullif", "argument of a call", "constant")


class Occurrences:
    """Counts AI calls. A call meets a NULL when an argument is NULL on a row where its guard is TRUE.

    A call counts for every kind of join in its scope, for each once.
    """

    def __init__(self) -> None:
        self._cells: Counter[tuple[str, str, bool]] = Counter()  # position, join kind, NULL met
        self._positions: Counter[tuple[str, bool]] = Counter()
        self._joins: Counter[tuple[str, bool]] = Counter()
        self._forms: Counter[tuple[str, bool]] = Counter()
        self._queries = 0

    def add(self, bound: Bound) -> None:
        self._queries += 1
        for site, guarded, null in bound.met:
            self._positions[site.position, null] += 1
            for join in set(site.joins):
                self._cells[site.position, join, null] += 1
                self._joins[join, null] += 1
            for form in {*guarded.around, *(["constant"] if guarded.call.is_constant else [])}:
                self._forms[form, null] += 1

    def rare(self) -> list[str]:
        """What occurred too seldom for 2,000 queries.

        These hold some 5,000 calls, and there are about 900 cells of position, join and NULL: so each sum over them has its
        minimum, and each cell of position and join.
        """
        found = [(name, self._positions[name, True] + self._positions[name, False], 50) for name in POSITIONS]
        found += [
            (f"{name}, {join} join", self._cells[name, join, True] + self._cells[name, join, False], 4)
            for name, position in POSITIONS.items()
            for join in position.joins
        ]
        for counts, names in ((self._joins, JOINS), (self._forms, FORMS)):
            found += [
                (f"{name}, {'NULL' if null else 'no NULL'}", counts[name, null], 50)
                for name in names
                for null in (False, True)
                if not (null and name in _NEVER_NULL)
            ]
        return [f"{name}: {count} of {least}" for name, count, least in found if count < least]

    def table(self) -> str:
        """Calls that met a NULL / that did not, by position and join kind, and by form."""
        lines = [f"{self._queries} queries, {self._positions.total()} calls; NULL met / not met", ""]
        lines.append("".join([f"{'position':32}", *(f"{join:>9}" for join in (*JOINS, "all"))]))
        for position in POSITIONS:
            cells = [_pair(self._cells, position, join) for join in JOINS]
            lines.append("".join([f"{position:32}", *(f"{cell:>9}" for cell in (*cells, _pair(self._positions, position)))]))
        lines.append("".join([f"{'all':32}", *(f"{_pair(self._joins, join):>9}" for join in JOINS)]))
        lines.append("")
        lines += [f"{form:32}{_pair(self._forms, form):>9}" for form in FORMS]
        return "\n".join(lines)


def _pair(counts: Counter[Any], *case: str) -> str:
    return f"{counts[(*case, True)]}/{counts[(*case, False)]}"


_NEVER_NULL = ("constant",)
