"""Cases: tables and a query in one position, drawn by Hypothesis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import clauses  # registers its positions
import scopes
import sources
import statements
from generated_data import Tables, tables
from grammar import Writer
from hypothesis import assume
from hypothesis import strategies as st
from positions import POSITIONS, Query

__all__ = ["POSITIONS", "Case", "cases", "clauses", "scopes", "sources", "statements"]


@dataclass(frozen=True, repr=False)
class Case:
    tables: Tables
    query: Query
    in_transaction: bool  # whether the user has opened one

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What a failure prints: a line for `test_found.py`."""
        printer.text(repr(self))

    def __repr__(self) -> str:
        return f'(\n    r"""{self.tables.sql}""",\n    r"""{self.query.text}""",\n)'


@st.composite
def cases(draw: st.DrawFn, position: str, join: str | None = None) -> Case:
    """A case of a position; its first FROM clause joins as `join` says."""
    assume(draw(st.integers(0, 999)))  # Hypothesis begins with the simplest of all cases, which says little
    wanted = POSITIONS[position]
    query = wanted.skeleton(Writer(draw, wanted.asks, join))
    return Case(draw(tables()), query, draw(st.booleans()))
