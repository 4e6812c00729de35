"""The query of a seed."""

from __future__ import annotations

from random import Random

import clauses  # registers its positions
import scopes  # and its own
from grammar import Writer
from positions import POSITIONS, Query

__all__ = ["POSITIONS", "clauses", "query", "scopes"]


def query(seed: int) -> Query:
    """The query of a seed: the positions take turns, all else is drawn."""
    skeleton, asks = POSITIONS[list(POSITIONS)[seed % len(POSITIONS)]]
    return skeleton(Writer(Random(seed), asks))
