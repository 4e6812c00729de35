"""Which rule labelled rows support: the simplest that cross-validation cannot tell from the best.

The candidates are the numbers as they are, Platt calibration, and a head at each of several ridges, which draw it to a share of
the calibrated numbers: all, half or none. Were the head to scale the numbers itself, it would trust them too much, because no
ridge is on them. Each is judged by the log loss of rows that it was not fitted to: unlike accuracy it still tells candidates
apart on a few dozen rows, and it asks for probabilities that can be believed. Of two kinds the simpler is taken unless the
other is better by more than one standard error of the difference, row by row.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quail_engine.decisions.rule import Numbers, Rule, RuleKind
from quail_engine.decisions.softmax import TOLERANCE, Matrix, Parameters, fit, log_softmax, unfitted

_FOLDS = 10
_FEW_NUMBERS = 20_000  # rows times classes up to which fits take moments; beyond, half as many folds have to do
_ROUGH = 1e-4  # tolerance of fits that only judge a ridge
_RIDGES = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Of a head. A row's features together have about unit length, so a weight's reach, in log-odds, is about ridge ** -0.5."""

_SHARE, _OTHER_SHARES = 0.5, (1.0, 0.0)
"""Of the calibrated numbers, to which features are added. All ridges are tried with the first, the best one with the others."""

_KEPT_BITS = 16
"""Of a weight's fraction, of 23. The others hang on the order in which a linear algebra library adds, and so on its threads."""


@dataclass(frozen=True)
class _Candidate:
    kind: RuleKind
    ridge: float
    share: float
    loss: Matrix  # a row: minus the log-probability of its label, by a fit that did not see it
    correct: NDArray[np.bool_]

    @property
    def mean_loss(self) -> float:
        return float(self.loss.mean())


def fit_rule(numbers: Numbers, labels: NDArray[np.int64], width: int) -> Rule:
    """The rule for labelled rows: `width` numbers a row, then its features; a label is the index of its number.

    With one number, the log-odds of TRUE, a label is 1 for TRUE and 0 for FALSE. Rows come in an order that has nothing to do
    with them, such as that of a hash: folds follow from it, and so does every bit of the rule.
    """
    return fit_beside(Features(numbers[:, width:]), numbers[:, :width], labels)


def fit_beside(features: Features, numbers: Numbers, labels: NDArray[np.int64]) -> Rule:
    """As `fit_rule`, for features that other rules are fitted to as well."""
    width = numbers.shape[1]
    rows = _Rows(_scores(numbers.astype(np.float64)), features.reduced, labels)
    candidates = _candidates(rows)
    chosen = _simplest(candidates)
    parameters = _fitted(chosen, rows)
    weights = _rounded(features.whole(parameters.weights) if chosen.kind is RuleKind.HEAD else np.zeros((0, rows.classes)))
    bias = parameters.bias - (features.mean @ weights if len(weights) else 0.0)
    if width == 1:
        weights, bias = weights[:, 1:] - weights[:, :1], bias[1:] - bias[:1]
    share = float(chosen.correct.mean())
    return Rule(
        chosen.kind,
        float(_rounded(np.array(parameters.scale))),
        _rounded(bias),
        weights,
        rows=len(labels),
        accuracy=share,
        error=float(np.sqrt(share * (1 - share) / len(labels))),
        zero_shot_accuracy=float(candidates[0].correct.mean()),
        guessing=float(np.bincount(labels).max() / len(labels)),
    )


@dataclass(frozen=True)
class _Rows:
    scores: Matrix  # [rows, classes]
    features: Matrix  # [rows, dimensions]
    labels: NDArray[np.int64]

    @property
    def classes(self) -> int:
        return int(self.scores.shape[1])

    def some(self, chosen: NDArray[np.bool_]) -> _Rows:
        return _Rows(self.scores[chosen], self.features[chosen], self.labels[chosen])

    @property
    def rough(self) -> _Rows:
        """In half the bits, and so half the time."""
        return _Rows(self.scores.astype(np.float32), self.features.astype(np.float32), self.labels)


_Parts = list[tuple[_Rows, _Rows]]
"""Of each fold, the rows that a fit sees, and those by which it is judged."""


def _scores(numbers: Matrix) -> Matrix:
    """A score a class: of one number, the log-odds of TRUE, half of it for TRUE and half against FALSE."""
    return np.hstack([-numbers / 2, numbers / 2]) if numbers.shape[1] == 1 else numbers


class Features:
    """Features of the labelled rows, each made to have mean 0 and deviation 1, and their dimensions cut to the rows' number."""

    def __init__(self, given: Numbers) -> None:
        features = given.astype(np.float64)
        self.mean = features.mean(axis=0)
        deviation = features.std(axis=0)
        used = deviation > 1e-6
        self._unit = np.where(used, 1 / np.where(used, deviation, 1.0), 0.0) / np.sqrt(max(1, int(used.sum())))
        left, lengths, self._axes = np.linalg.svd((features - self.mean) * self._unit, full_matrices=False)
        self.reduced: Matrix = left * lengths  # the rows in the axes of the space that they span: nothing is lost

    def whole(self, weights: Matrix) -> Matrix:
        """Weights of the features as they were given, from those of `reduced`."""
        return np.asarray(self._unit[:, None] * (self._axes.T @ weights))


def _candidates(rows: _Rows) -> list[_Candidate]:
    """One of each kind, from the simplest on; of heads the best."""
    folds = _folds(rows)
    parts = [(rows.some(folds != fold), rows.some(folds == fold)) for fold in range(folds.max() + 1)]
    nothing = unfitted(rows.classes, rows.features.shape[1])
    platts = [_platt(seen) for seen, _ in parts]
    found = [
        _judged(RuleKind.ZERO_SHOT, rows, folds, parts, [nothing] * len(parts)),
        _judged(RuleKind.PLATT, rows, folds, parts, platts),
    ]
    return [*found, _best_head(rows, folds, parts, platts)] if rows.features.size else found


def _best_head(rows: _Rows, folds: NDArray[np.int64], parts: _Parts, platts: list[Parameters]) -> _Candidate:
    """Ridges are tried from the strongest on, each fit beginning at the one before, until the loss rises."""
    best, starts, fitted = None, list[Parameters](), [_shared(platt, _SHARE) for platt in platts]
    rough = [seen.rough for seen, _ in parts]
    for ridge in _RIDGES:
        fitted = [_head(seen, ridge, start, _ROUGH) for seen, start in zip(rough, fitted, strict=True)]
        head = _judged(RuleKind.HEAD, rows, folds, parts, fitted, ridge, _SHARE)
        if best is not None and head.mean_loss > best.mean_loss:
            break
        best, starts = head, fitted
    assert best, "there are ridges"
    heads = [best]
    for share in _OTHER_SHARES:
        # The weights of one share are near those of another.
        shared = [replace(_shared(platt, share), weights=start.weights) for platt, start in zip(platts, starts, strict=True)]
        fitted = [_head(seen, best.ridge, start, _ROUGH) for seen, start in zip(rough, shared, strict=True)]
        heads.append(_judged(RuleKind.HEAD, rows, folds, parts, fitted, best.ridge, share))
    return min(heads, key=lambda head: head.mean_loss)


def _folds(rows: _Rows) -> NDArray[np.int64]:
    """A fold a row: each class is dealt out in the order of the rows, one class after the other."""
    count = _FOLDS if rows.scores.size <= _FEW_NUMBERS else _FOLDS // 2
    folds = np.empty(len(rows.labels), np.int64)
    folds[np.argsort(rows.labels, kind="stable")] = np.arange(len(rows.labels)) % count
    return folds


def _judged(
    kind: RuleKind,
    rows: _Rows,
    folds: NDArray[np.int64],
    parts: _Parts,
    fitted: list[Parameters],
    ridge: float = 0.0,
    share: float = 1.0,
) -> _Candidate:
    logs = np.empty_like(rows.scores)
    for fold, ((_, unseen), parameters) in enumerate(zip(parts, fitted, strict=True)):
        logs[folds == fold] = log_softmax(parameters.logits(unseen.scores, unseen.features))
    return _Candidate(kind, ridge, share, -logs[np.arange(len(logs)), rows.labels], logs.argmax(axis=1) == rows.labels)


def _platt(rows: _Rows) -> Parameters:
    """Scale and bias; no weight for any feature."""
    found = fit(rows.scores, rows.features[:, :0], rows.labels, 0.0, unfitted(rows.classes, 0))
    return Parameters(found.scale, found.bias, np.zeros((rows.features.shape[1], rows.classes)))


def _shared(platt: Parameters, share: float) -> Parameters:
    """A head that adds nothing yet to a share of the calibrated numbers."""
    return Parameters(share * platt.scale, share * platt.bias, platt.weights)


def _head(rows: _Rows, ridge: float, start: Parameters, tolerance: float = TOLERANCE) -> Parameters:
    return fit(rows.scores, rows.features, rows.labels, ridge, start, tolerance, scaled=False)


def _fitted(chosen: _Candidate, rows: _Rows) -> Parameters:
    """Parameters for all features, whether the kind uses them or not."""
    if chosen.kind is RuleKind.ZERO_SHOT:
        return unfitted(rows.classes, rows.features.shape[1])
    platt = _platt(rows)
    if chosen.kind is RuleKind.PLATT:
        return platt
    start, rough = _shared(platt, chosen.share), rows.rough
    for ridge in itertools.takewhile(lambda ridge: ridge >= chosen.ridge, _RIDGES):
        start = _head(rough, ridge, start, _ROUGH)
    return _head(rows, chosen.ridge, start)


def _simplest(kinds: list[_Candidate]) -> _Candidate:
    """The first, in that order, that is not worse than the best by more than one standard error of the difference."""
    best = min(kinds, key=lambda candidate: candidate.mean_loss)
    for candidate in kinds:
        worse = candidate.loss - best.loss
        if worse.mean() <= worse.std() / np.sqrt(len(worse)):
            return candidate
    raise AssertionError("the best is not worse than itself")


def _rounded(values: Matrix) -> Matrix:
    """Float32 numbers with the last bits of their fraction cleared."""
    mask = np.int32(-1 << (23 - _KEPT_BITS))
    return np.asarray((values.astype(np.float32).view(np.int32) & mask).view(np.float32), np.float64)
