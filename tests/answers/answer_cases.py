"""Questions and answers that the store's tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from quail_engine.answers import Answer, AnswerStore, answer_key, question_key
from quail_engine.calls import Question, Task, Template

Q = question_key("weights", "full", "qwen2.5/1", Question(Task.JUDGE, Template(("Is it urgent? ", 0))))
Open = Callable[..., AnswerStore]


def key(text: str) -> bytes:
    return answer_key(Q, [text])


def rows(start: int, end: int) -> list[tuple[bytes, Answer]]:
    """Answers whose margins are told by their numbers."""
    return [(key(str(i)), Answer((i / 4,), i % 50)) for i in range(start, end)]


def segment_files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "answers" / "segments").glob("*.parquet"))


def journal_files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "answers" / "journals").glob("*.journal"))
