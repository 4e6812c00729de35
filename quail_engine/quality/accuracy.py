"""How good answers are beside gold: a share, how sure it is, and what guessing would get."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

_Z_95 = 1.959964  # two-sided 95 % quantile of the normal distribution


def wilson(correct: int, n: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share; (0, 1) of nothing.

    It stays within [0, 1] and holds for few rows and shares near 0 or 1, where the usual interval does not.
    Source: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927).

    >>> tuple(round(bound, 3) for bound in wilson(8, 10))
    (0.49, 0.943)
    """
    if n == 0:
        return 0.0, 1.0
    share, z2 = correct / n, _Z_95**2
    centre = share + z2 / (2 * n)
    half = _Z_95 * sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    low, high = (centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n)
    # Rounding may step over a share of 0 or 1 by an ulp.
    return max(0.0, min(low, share)), min(1.0, max(high, share))


@dataclass(frozen=True)
class Accuracy:
    """One task's answers, counted."""

    task: str
    n: int  # rows with gold, all of them
    correct: int  # a missing answer is not
    majority: int  # rows of the most frequent gold answer

    @property
    def share(self) -> float:
        return self.correct / self.n if self.n else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.correct, self.n)

    @property
    def baseline(self) -> float:
        """What always giving the most frequent gold answer would get."""
        return self.majority / self.n if self.n else 0.0

    @property
    def better_than_guessing(self) -> bool:
        """Whether the interval's lower end exceeds the baseline."""
        return self.interval[0] > self.baseline
