"""The fewest tokens that a set of requests can be prefilled with: a trie over their ids, which imports nothing of ours.

The layout's cuts stay: a token is the same as another's if all runs before its own are equal, and its own up to it. A run is a
segment of the request or a piece of a readout's suffix, cut every `chunk` tokens from its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def min_tokens(requests: Iterable[Sequence[Sequence[int]]], chunk: int) -> int:
    """Tokens of the trie of `requests`, each the runs of one path from the prompt's first token to a place that is read."""
    root: dict[object, object] = {}
    tokens = 0
    for runs in requests:
        place = root
        for run in runs:
            for start in range(0, len(run), chunk):
                for token in run[start : start + chunk]:
                    if token not in place:
                        place[token] = {}
                        tokens += 1
                    place = place[token]  # type: ignore[assignment]
                place = place.setdefault("cut", {})  # type: ignore[assignment]
    return tokens
