"""What a statement did: counts, tokens, seconds, and its plan."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class RunReport:
    """One statement's report; reports add up. Counts of requests are distinct inputs, not rows."""

    calls: int = 0  # rows that look-ups and answer tables answered in the last round
    asked: int = 0  # distinct requests sent to the engine
    recalled: int = 0  # distinct inputs answered from the store
    sampled: int = 0  # of the asked, those of a sample that chose an order; most of them the rows need anyway
    pruned: int = 0  # inputs of conditions that others made needless; 0 where nobody counted them, as without an order
    failed: int = 0  # asked, without an answer
    overlong: int = 0  # longer than the model's context; NULL, or truncated
    tokens_fresh: int = 0  # tokens prefilled
    tokens_reused: int = 0  # tokens that shared prefixes saved
    seconds: float = 0.0
    seconds_engine: float = 0.0  # of them, in the engine
    rows: int = -1  # rows that the statement wrote; -1 for a query
    model: str = ""
    plan: str = ""
    decided: tuple[str, ...] = ()  # a question with labelled rows: what decides it, and how well by cross-validation
    warnings: tuple[str, ...] = ()

    def __add__(self, other: RunReport) -> RunReport:
        """Counts add; a text of one side, or both beneath each other when they differ."""
        merged: dict[str, Any] = {}
        for field in fields(self):
            one, two = getattr(self, field.name), getattr(other, field.name)
            if field.name == "rows":
                merged["rows"] = two if one < 0 else one if two < 0 else one + two
            elif isinstance(one, str):
                merged[field.name] = "\n".join(dict.fromkeys(text for text in (one, two) if text))
            elif isinstance(one, tuple):
                merged[field.name] = tuple(dict.fromkeys(one + two))
            else:
                merged[field.name] = one + two
        return RunReport(**merged)

    @property
    def tokens_per_second(self) -> float:
        """Fresh tokens a second of engine time; 0 when nothing was asked."""
        return self.tokens_fresh / self.seconds_engine if self.seconds_engine else 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
