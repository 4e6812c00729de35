"""How often each position, join kind and form met a NULL input, and how often it did not."""

from __future__ import annotations

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
        """What occurred fewer than `least` times: positions, and join kinds and forms with and without NULL."""
        joins, positions = Counter[tuple[str, bool]](), Counter[str]()
        for (position, join, null), count in self._cells.items():
            positions[position] += count
            joins[join, null] += count
        found = [f"{position}: {positions[position]}" for position in POSITIONS if positions[position] < least]
        for names, counts in ((JOINS, joins), (FORMS, self._forms)):
            cases = [(name, null) for name in names for null in (False, True) if not (null and name in _NEVER_NULL)]
            found += [
                f"{n}, {'NULL' if null else 'no NULL'}: {counts[n, null]}" for n, null in cases if counts[n, null] < least
            ]
        return found

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


_NEVER_NULL = ("constant",)
