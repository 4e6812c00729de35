"""Decisions: how the numbers that a model gives become the answer, fitted to labelled rows. NumPy only, no input or output."""

from quail_engine.decisions.choose import fit_rule
from quail_engine.decisions.rule import Rule
from quail_engine.decisions.tags import Decision, TagRules, decision_of, fit_tags

__all__ = ["Decision", "Rule", "TagRules", "decision_of", "fit_rule", "fit_tags"]
