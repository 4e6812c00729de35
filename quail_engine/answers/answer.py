"""What the store keeps for one question about one row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """Numbers of one request. Failed requests have none and are never stored."""

    values: tuple[float, ...]  # each a float32: JUDGE's margin, a number a label, or none where only features were read
    tokens: int  # tokens of the request, had it been asked alone
