"""Answers beside gold, row by row: how many are right, which are taken for which, and whether confidence can be believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from quail_engine.errors import QuailError
from quail_engine.quality.accuracy import Accuracy
from quail_engine.quality.figures import Bin, calibration_error, reliability

_NAMES = {"gold": "gold", "label": "gold", "answer": "answer", "score": "score", "text": "text"}

NO_ANSWER = "(no answer)"
"""How a NULL answer is named among the labels."""


@dataclass(frozen=True)
class Judged:
    """One row that has gold."""

    text: str
    answer: str | None  # None: NULL, which is a wrong answer
    gold: str
    right: bool
    confidence: float | None  # stated probability that the answer is right; None: not stated


@dataclass(frozen=True)
class Evaluation:
    """One question's answers against gold."""

    name: str
    rows: tuple[Judged, ...]
    node: str = ""  # of dbt, whose cost it stands beside

    @cached_property
    def accuracy(self) -> Accuracy:
        frequent = Counter(row.gold for row in self.rows).most_common(1)
        return Accuracy(self.name, len(self.rows), sum(row.right for row in self.rows), frequent[0][1] if frequent else 0)

    @cached_property
    def confusion(self) -> dict[tuple[str, str], int]:
        """Rows by gold and answer."""
        return Counter((row.gold, NO_ANSWER if row.answer is None else row.answer) for row in self.rows)

    @cached_property
    def labels(self) -> list[str]:
        """Gold labels, the most frequent first, and then what else was answered."""
        found = Counter(row.gold for row in self.rows)
        also = Counter(answer for _, answer in self.confusion if answer not in found)
        return [label for label, _ in (*found.most_common(), *also.most_common())]

    @cached_property
    def bins(self) -> tuple[Bin, ...]:
        """The reliability curve."""
        return reliability((row.confidence, row.right) for row in self.rows if row.confidence is not None)

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error; None where no confidence is stated."""
        return calibration_error(self.bins)

    def mistakes(self, most: int) -> list[Judged]:
        """Wrong answers, the most confident first."""
        return sorted((row for row in self.rows if not row.right), key=lambda row: -(row.confidence or 0.0))[:most]


def judging_query(sql: str, columns: Sequence[tuple[str, str]]) -> str:
    """The query that judges the rows of `sql`, whose columns have these names and DuckDB types.

    Its columns are gold or label, and answer, score or both; text if rows are to be shown. Its rows are those of `Judged`. A
    score beside a BOOLEAN answer is the probability of TRUE, and of at least 0.5 where there is no answer; beside any other
    answer it is that of the answer. Raises QuailError for other columns.
    """
    given: dict[str, str] = {}
    for name, type_ in columns:
        role = _NAMES.get(name.lower())
        if role is None or role in given:
            raise QuailError(
                f"The query of --gold has a column {name}. Its columns are gold (or label), answer and/or score, and text: "
                "select body as text, is_urgent as answer, p_urgent as score, truth as gold from …"
            )
        given[role] = type_
    if "gold" not in given or not {"answer", "score"} & given.keys():
        raise QuailError(f"The query of --gold has the columns {', '.join(given)}; it needs gold, and answer or score.")
    gold = next(name for name, _ in columns if _NAMES[name.lower()] == "gold")
    yes_no = given.get("answer", "BOOLEAN") == "BOOLEAN"
    answer = "answer" if "answer" in given else "score >= 0.5"
    sure = "score" if not yes_no else f"CASE WHEN ({answer}) THEN score ELSE 1 - score END"
    text, confidence = ("text" if "text" in given else "''"), (sure if "score" in given else "NULL")
    return (
        f"SELECT CAST({text} AS VARCHAR), CAST(({answer}) AS VARCHAR), CAST({gold} AS VARCHAR), "
        f"coalesce(({answer}) = {gold}, false), CAST({confidence} AS DOUBLE) FROM (\n{sql}\n) WHERE {gold} IS NOT NULL"
    )


def evaluation(name: str, rows: Sequence[tuple[str | None, str | None, str, bool, float | None]], node: str = "") -> Evaluation:
    """Of the rows of a `judging_query`."""
    judged = (Judged(text or "", answer, gold, right, confidence) for text, answer, gold, right, confidence in rows)
    return Evaluation(name, tuple(judged), node)
