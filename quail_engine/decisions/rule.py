"""What is done with a model's numbers before they are an answer: nothing, a calibration, or a head on hidden features."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from quail_engine.calls import Reads
from quail_engine.decisions.softmax import Matrix, log_softmax

Numbers = NDArray[np.float32]
_FORMAT = 2


class RuleKind(str, Enum):
    """From the simplest to the richest."""

    ZERO_SHOT = "zero-shot"  # the numbers as they are
    PLATT = "Platt calibration"  # scaled and shifted
    HEAD = "head"  # and moved by a linear function of the hidden features


@dataclass(frozen=True)
class Rule:
    """Fitted to labelled rows by `fit_rule`. With one number a row it is the log-odds of TRUE, else there is one a label."""

    kind: RuleKind
    scale: float
    bias: Matrix  # [numbers]
    weights: Matrix  # [features, numbers]; no features but for a head
    rows: int  # labelled ones that it was fitted to
    accuracy: float  # by cross-validation
    error: float  # standard error of it
    zero_shot_accuracy: float  # of the numbers as they are, on the same rows
    guessing: float  # accuracy of giving every one of these rows the most frequent answer

    @property
    def reads(self) -> Reads:
        """What it decides from. Labels' numbers are not read to be multiplied by nothing; a single number is, since it costs no
        token and answers calls without labelled rows."""
        if self.kind is not RuleKind.HEAD:
            return Reads.NUMBERS
        return Reads.FEATURES if self.scale == 0 and len(self.bias) > 1 else Reads.NUMBERS | Reads.FEATURES

    @property
    def better_than_guessing(self) -> bool:
        """By two standard errors."""
        return self.accuracy - 2 * self.error > self.guessing

    def decide(self, numbers: Numbers) -> Numbers:
        """From rows of what the rule reads, numbers and then features, to the numbers of the answers.

        A row's bits depend on that row alone: sums are taken row by row, where a matrix product would group them otherwise
        for other numbers of rows. NaN stays NaN.
        """
        given = numbers.astype(np.float64)
        width = len(self.bias)
        read = width if Reads.NUMBERS in self.reads else 0
        decided = self.scale * given[:, :read] + self.bias if read else np.tile(self.bias, (len(given), 1))
        features = np.ascontiguousarray(given[:, read:])
        for number, weights in enumerate(np.ascontiguousarray(self.weights.T)):
            if len(weights):
                decided[:, number] += (features * weights).sum(axis=1)
        return np.asarray(decided if width == 1 else log_softmax(decided), np.float32)

    def __str__(self) -> str:
        accuracy, guessing = f"CV accuracy {self.accuracy:.2f} ± {self.error:.2f}", f"guessing {self.guessing:.2f}"
        if self.kind is RuleKind.ZERO_SHOT:
            return f"zero-shot, {accuracy}, {guessing}: nothing fitted to {self.rows:,} labelled rows is better"
        zero_shot = f"zero-shot {self.zero_shot_accuracy:.2f}"
        told = f"{self.kind.value} fitted to {self.rows:,} labelled rows, {accuracy}; {zero_shot}, {guessing}"
        return told if Reads.NUMBERS in self.reads else f"{told}; rows are asked for no label"

    def to_bytes(self) -> bytes:
        """For `from_bytes`, and the same for equal rules."""
        content = {
            "format": _FORMAT,
            "kind": self.kind.value,
            "scale": self.scale,
            "bias": self.bias.tolist(),
            "weights": base64.b64encode(self.weights.astype("<f4").tobytes()).decode(),
            "rows": self.rows,
            "accuracy": self.accuracy,
            "error": self.error,
            "zero_shot_accuracy": self.zero_shot_accuracy,
            "guessing": self.guessing,
        }
        return json.dumps(content).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Rule:
        """Raises ValueError for what is no rule of this format."""
        try:
            fields = json.loads(content)
            if fields.pop("format") != _FORMAT:
                raise ValueError("a rule of another format")
            bias = np.array(fields.pop("bias"), np.float64)
            weights = np.frombuffer(base64.b64decode(fields.pop("weights")), "<f4").astype(np.float64)
            return cls(RuleKind(fields.pop("kind")), bias=bias, weights=weights.reshape(-1, len(bias)), **fields)
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"not a rule: {error!r}") from error
