"""What the store keeps for one question about one row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """Numbers of one request. Failed requests have none and are never stored."""

    values: tuple[float, ...]  # each exactly a float32: the margin for JUDGE, a number a label else
    tokens: int  # tokens of the request, had it been asked alone
