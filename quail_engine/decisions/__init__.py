"""Decisions: how the numbers that a model gives become the answer, fitted to labelled rows. NumPy only, no input or output."""

from quail_engine.decisions.choose import fit_rule
from quail_engine.decisions.rule import Rule

__all__ = ["Rule", "fit_rule"]
