"""Softmax regression beside given scores: the one model that every fitted decision is an instance of.

The logits of row i are `scale · scores[i] + bias + features[i] · weights`, a number a class. A ridge draws `scale` to 1 and
`bias` and `weights` to 0, that is, to the scores as they are. The objective is strictly convex, so it has one minimum, which
Newton's method finds with conjugate gradients in place of a matrix. Where no two features go together, as in the axes of a
singular value decomposition, the Hessian is nearly its diagonal, and a few steps of these do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating[Any]]

_WEAK = 0.01
"""Ridge on scale and bias: it only keeps them finite where the scores tell the classes apart without a mistake."""

_STEPS, _INNER_STEPS = 60, 200
TOLERANCE = 1e-9  # of the gradient, a row


@dataclass(frozen=True)
class Parameters:
    scale: float
    bias: Matrix  # [classes]
    weights: Matrix  # [features, classes]

    def logits(self, scores: Matrix, features: Matrix) -> Matrix:
        """[rows, classes]."""
        return np.asarray(self.scale * scores + self.bias + features @ self.weights)

    def plus(self, step: Parameters, length: float) -> Parameters:
        return Parameters(
            self.scale + length * step.scale, self.bias + length * step.bias, self.weights + length * step.weights
        )

    def dot(self, other: Parameters) -> float:
        return float(self.scale * other.scale + self.bias @ other.bias + np.vdot(self.weights, other.weights))

    def over(self, other: Parameters) -> Parameters:
        """Number by number."""
        return Parameters(self.scale / other.scale, self.bias / other.bias, self.weights / other.weights)


def log_softmax(logits: Matrix) -> Matrix:
    """Log-probabilities, over the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def unfitted(classes: int, features: int) -> Parameters:
    """The scores as they are."""
    return Parameters(1.0, np.zeros(classes), np.zeros((features, classes)))


def fit(
    scores: Matrix,
    features: Matrix,
    labels: NDArray[np.int64],
    ridge: float,
    start: Parameters,
    tolerance: float = TOLERANCE,
    scaled: bool = True,
) -> Parameters:
    """The minimum of the rows' log loss plus `ridge` / 2 times the square of the weights; `start` only saves time.

    With `scaled` False the scale stays that of `start`. All is computed in the precision of `scores` and `features`.
    """
    problem = _Problem(scores, features, np.eye(scores.shape[1], dtype=scores.dtype)[labels], ridge, scaled)
    start = Parameters(start.scale, start.bias.astype(scores.dtype), start.weights.astype(scores.dtype))
    at, value = start, problem.value(start)
    for _ in range(_STEPS):
        probabilities = np.exp(log_softmax(at.logits(scores, features)))
        gradient = problem.gradient(at, probabilities)
        enough = (tolerance * len(labels)) ** 2
        if gradient.dot(gradient) <= enough:
            break
        step = _conjugate_gradients(problem, probabilities, gradient, enough / 16)
        length, slope = 1.0, gradient.dot(step)
        while (new := problem.value(at.plus(step, length))) > value + 1e-4 * length * slope and length > 1e-10:
            length /= 2
        if new >= value:  # as exact as the numbers are
            break
        at, value = at.plus(step, length), new
    return at


@dataclass(frozen=True)
class _Problem:
    scores: Matrix
    features: Matrix
    wanted: Matrix  # one-hot labels
    ridge: float
    scaled: bool  # whether the scale is fitted

    def value(self, at: Parameters) -> float:
        logs = log_softmax(at.logits(self.scores, self.features))
        loss = -(self.wanted * logs).sum(dtype=np.float64)  # steps are judged by small differences of it
        weak = _WEAK * ((at.scale - 1) ** 2 + at.bias @ at.bias)
        return float(loss + (weak + self.ridge * np.vdot(at.weights, at.weights)) / 2)

    def gradient(self, at: Parameters, probabilities: Matrix) -> Parameters:
        return self._pulled(probabilities - self.wanted, Parameters(at.scale - 1, at.bias, at.weights))

    def curvature(self, step: Parameters, probabilities: Matrix) -> Parameters:
        """The Hessian times `step`."""
        moved = probabilities * step.logits(self.scores, self.features)
        return self._pulled(moved - probabilities * moved.sum(axis=1, keepdims=True), step)

    def diagonal(self, probabilities: Matrix) -> Parameters:
        """Of the Hessian."""
        variances = probabilities * (1 - probabilities)
        mean = (probabilities * self.scores).sum(axis=1)
        spread = (probabilities * self.scores**2).sum() - (mean**2).sum()
        weights = (self.features**2).T @ variances + self.ridge if self.features.size else self.features.T @ variances
        return Parameters(float(spread) + _WEAK, variances.sum(axis=0) + _WEAK, weights)

    def _pulled(self, residual: Matrix, ridged: Parameters) -> Parameters:
        return Parameters(
            float(np.vdot(residual, self.scores) + _WEAK * ridged.scale) if self.scaled else 0.0,
            residual.sum(axis=0) + _WEAK * ridged.bias,
            self.features.T @ residual + self.ridge * ridged.weights,
        )


def _conjugate_gradients(problem: _Problem, probabilities: Matrix, gradient: Parameters, least: float) -> Parameters:
    """A step that solves Hessian · step = -gradient, the more exactly the smaller the gradient is, until the square of what is
    left is `least`: more than the fit's own tolerance would be thrown away."""
    step = Parameters(0.0, np.zeros_like(gradient.bias), np.zeros_like(gradient.weights))
    residual, diagonal = step.plus(gradient, -1.0), problem.diagonal(probabilities)
    first = gradient.dot(gradient)
    enough = max(least, first * min(0.25, first**0.5 / len(probabilities)) ** 2)
    direction = residual.over(diagonal)
    square = residual.dot(direction)
    for _ in range(_INNER_STEPS):
        curved = problem.curvature(direction, probabilities)
        length = square / direction.dot(curved)
        step, residual = step.plus(direction, length), residual.plus(curved, -length)
        if residual.dot(residual) <= enough:
            break
        scaled = residual.over(diagonal)
        before, square = square, residual.dot(scaled)
        direction = scaled.plus(direction, square / before)
    return step
