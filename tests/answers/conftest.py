"""Stores on one folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from answer_cases import Open

from quail_engine.answers import AnswerStore
from quail_engine.settings import AnswersSettings


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Open]:
    """Opens stores on one folder; those still open at the end are closed."""
    opened: list[AnswerStore] = []

    def open_(mode: str = "read_write", namespace: str = "local", path: Path | None = None) -> AnswerStore:
        opened.append(AnswerStore(AnswersSettings(str(path or tmp_path / "answers"), mode), namespace))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()
