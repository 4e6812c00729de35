"""What is compared runs in turn, several times: ratios are taken within a turn, so that a slower machine slows both."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any


def in_turn(runs: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each, as it tells them, turn by turn. The first turn, which warms up, does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            found = run()
            if turn:
                seconds[name].append(found)
    return seconds


def ratios(seconds: Mapping[str, list[float]], base: str) -> dict[str, Any]:
    """Median seconds, and how many times as long as `base` each of the others took: the median of the turns' ratios."""
    medians = {name: round(statistics.median(values), 3) for name, values in seconds.items()}
    times = {
        name: round(statistics.median(a / b for a, b in zip(values, seconds[base], strict=True)), 2)
        for name, values in seconds.items()
        if name != base
    }
    return {"seconds": medians, "times": times}
