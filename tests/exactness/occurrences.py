"""How often each position, join kind and form met a NULL input, and how often it did not."""

from __future__ import annotations

import sys
from collections import Counter

from bound import Bound
from grammar import JOINS
from queries import POSITIONS

FORMS = ("and", "or", "not", "is null", "case", "if", "coalesce", "nullif", "argument of a call", "constant")


class Occurrences:
    """Counts AI calls. A call meets a NULL when an argument is NULL on a row where its guard is TRUE."""

    def __init__(self) -> None:
        self._cells: Counter[tuple[str, str, bool]] = Counter()  # position, join kind, NULL met
        self._forms: Counter[tuple[str, bool]] = Counter()
        self._queries = 0

    def add(self, bound: Bound) -> None:
        self._queries += 1
        for site, guarded, null in bound.met:
            self._cells[site.position, site.join, null] += 1
            for form in {*guarded.around, *(["constant"] if guarded.call.is_constant else [])}:
                self._forms[form, null] += 1

    def rare(self, least: int) -> list[str]:
        """The positions, join kinds and forms, with and without NULL, that occurred fewer than `least` times."""
        totals = Counter[tuple[str, bool]]()
        for (position, join, null), count in self._cells.items():
            totals[position, null] += count
            totals[f"join: {join}", null] += count
        totals += self._forms
        names = [*POSITIONS, *(f"join: {join}" for join in JOINS), *FORMS]
        wanted = [(n, null) for n in names for null in (False, True) if not (n in _NEVER_NULL and null)]
        return [
            f"{name}, {'NULL' if null else 'no NULL'}: {totals[name, null]}"
            for name, null in wanted
            if totals[name, null] < least
        ]

    def table(self) -> str:
        """Calls that met a NULL / that did not, by position and join kind, and by form."""
        lines = [f"{self._queries} queries, {self._cells.total()} calls; NULL met / not met", ""]
        lines.append("".join([f"{'position':32}", *(f"{join:>9}" for join in (*JOINS, "all"))]))
        for position in POSITIONS:
            cells = [self._pair(position, (join,)) for join in JOINS]
            lines.append("".join([f"{position:32}", *(f"{cell:>9}" for cell in (*cells, self._pair(position, JOINS)))]))
        lines.append("")
        lines += [f"{form:32}{self._forms[form, True]:>4}/{self._forms[form, False]}" for form in FORMS]
        return "\n".join(lines)

    def _pair(self, position: str, joins: tuple[str, ...]) -> str:
        met, not_met = (sum(self._cells[position, join, null] for join in joins) for null in (True, False))
        return f"{met}/{not_met}"

    def show(self) -> None:
        sys.__stderr__.write(f"\n{self.table()}\n")


_NEVER_NULL = ("constant",)
