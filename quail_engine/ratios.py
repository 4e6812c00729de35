"""What fails a statement before it writes: inputs too long where that is an error, and too many requests that failed."""

from __future__ import annotations

from quail_engine.calls import Task
from quail_engine.errors import EngineError
from quail_engine.lookups import Inquiry

_RATIO_FROM = 20
"""Asked rows from which on the share of failed ones can fail a statement."""


def refuse_overlong(rows: int, longest: int, room: int) -> None:
    """`rows`: that are too long, of which the longest has so many tokens, and `room` of them fit."""
    if rows:
        raise EngineError(
            f"{rows:,} of the inputs are too long for the model: the longest has {longest:,} tokens and "
            f"{room:,} fit beside the question. Shorten them, or set on_overlong to null or truncate."
        )


def refuse_failures(inquiry: Inquiry) -> None:
    ratio = inquiry.max_error_ratio
    if inquiry.asked >= _RATIO_FROM and inquiry.failed > ratio * inquiry.asked:
        unlabelled = inquiry.question.task is not Task.JUDGE and not inquiry.question.labels
        of_labels = (
            "Its labels come from a column: each row needs a list of two or more different texts. " if unlabelled else ""
        )
        raise EngineError(
            f"{inquiry.failed:,} of {inquiry.asked:,} requests of '{inquiry.question.title}' failed, more than "
            f"max_error_ratio ({ratio:g}) allows. Nothing was written; the answers that came are kept. "
            f"{of_labels}Raise max_error_ratio to take the failed rows as NULL."
        )
