"""Rules for a question with several answers at once: each label has a rule of its own, for its own margin."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quail_engine.calls import Reads
from quail_engine.decisions.choose import Features, fit_beside
from quail_engine.decisions.rule import Numbers, Rule


@dataclass(frozen=True)
class TagRules:
    """Fitted to labelled rows by `fit_tags`. A row has a number a label: the log-odds that it applies."""

    rules: tuple[Rule, ...]  # one a label, at least one

    @property
    def rows(self) -> int:
        """Labelled rows that it was fitted to."""
        return self.rules[0].rows

    @property
    def reads(self) -> Reads:
        """What it decides from; the margins always, which hardly ever all labels do without."""
        return Reads.NUMBERS | (Reads.FEATURES if any(Reads.FEATURES in rule.reads for rule in self.rules) else Reads(0))

    def decide(self, numbers: Numbers) -> Numbers:
        """As `Rule.decide`; a row's features, where a label's rule needs them, follow the numbers of all labels."""
        labels = len(self.rules)
        features = numbers[:, labels:]
        decided = [
            rule.decide(np.hstack([numbers[:, [i]], features]) if Reads.FEATURES in rule.reads else numbers[:, [i]])
            for i, rule in enumerate(self.rules)
        ]
        return np.hstack(decided)

    def __str__(self) -> str:
        kinds = Counter(rule.kind.value for rule in self.rules)
        won = ", ".join(f"{count} × {kind}" for kind, count in kinds.most_common())
        names = ("accuracy", "error", "zero_shot_accuracy", "guessing")
        # The error is that of labels which are right on the same rows, so no less than the true one.
        accuracy, error, zero_shot, guessing = (float(np.mean([getattr(rule, name) for rule in self.rules])) for name in names)
        least = min(rule.accuracy for rule in self.rules)
        return (
            f"a rule a label fitted to {self.rows:,} labelled rows ({won}), CV accuracy {accuracy:.2f} ± {error:.2f} a label, "
            f"the least {least:.2f}; zero-shot {zero_shot:.2f}, guessing {guessing:.2f}"
        )

    def to_bytes(self) -> bytes:
        """For `decision_of`, and the same for equal rules."""
        return json.dumps([rule.to_bytes().decode() for rule in self.rules]).encode()


Decision = Rule | TagRules


def fit_tags(numbers: Numbers, applies: NDArray[np.int64]) -> TagRules:
    """The rules for labelled rows: `numbers` has a margin a label, then the row's features; `applies` [rows, labels] is 1 where
    a label applies and 0 where not. Rows come in an order as for `fit_rule`."""
    labels = applies.shape[1]
    features = Features(numbers[:, labels:])
    return TagRules(tuple(fit_beside(features, numbers[:, [i]], applies[:, i]) for i in range(labels)))


def decision_of(content: bytes) -> Decision:
    """From what `to_bytes` of either kind gave. Raises ValueError for anything else."""
    try:
        several = json.loads(content)
    except RecursionError as error:
        raise ValueError(f"not a rule: {error!r}") from error
    if not isinstance(several, list):
        return Rule.from_bytes(content)
    if not several or not all(isinstance(rule, str) for rule in several):
        raise ValueError("not a list of rules")
    return TagRules(tuple(Rule.from_bytes(rule.encode()) for rule in several))
