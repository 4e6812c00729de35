"""A process killed while labelled rows are read: the next one asks the rows that have no answer yet, and no other."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import quail_engine
from quail_engine.answers import AnswerStore
from quail_engine.settings import AnswersSettings

ROWS = 60
WORDS = {True: "great lovely", False: "awful boring"}
SETTINGS = {"engine": "mock", "token_budget": 60}

# Killed when the fourth batch is about to be run. What it is to run comes as an argument.
PROGRAM = f"""
import itertools, os, signal, sys
import quail_engine
from quail_engine.engine.mock import MockEngine
score, batches = MockEngine.score, itertools.count(1)
def killed(engine, batch):
    if next(batches) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return score(engine, batch)
MockEngine.score = killed
quail_engine.connect(**{SETTINGS!r}, answers=sys.argv[1]).sql(sys.argv[2])
"""


def statement(answers: dict[bool, str], call: str) -> str:
    rows = [(f"{WORDS[i % 2 == 0]} film {i}", answers[i % 2 == 0]) for i in range(ROWS)]
    examples = ", ".join(f"{{'input': '{text}', 'answer': {answer}}}" for text, answer in rows)
    return f"select {call}, {{'examples': [{examples}]}}) as a from (values ('great film'), ('boring film')) t(body)"


@pytest.mark.parametrize(
    "sql",
    [
        statement({True: "true", False: "false"}, "AI_SCORE('Is the review positive?', body"),
        statement({True: "'praise'", False: "'complaint'"}, "AI_CLASSIFY(body, ['praise', 'complaint']"),
    ],
)
def test_rows_that_were_read_are_not_asked_again(tmp_path: Path, sql: str) -> None:
    folder = str(tmp_path / "killed" / "answers")
    killed = subprocess.run([sys.executable, "-c", PROGRAM, folder, sql], check=False)
    assert killed.returncode == -signal.SIGKILL
    store = AnswerStore(AnswersSettings(folder, "read_only"), "mock")
    kept = store.stats().answers
    store.close()
    with quail_engine.connect(**SETTINGS, answers=str(tmp_path / "undisturbed" / "answers")) as con:
        wanted, whole = con.sql(sql), con.report.asked
    with quail_engine.connect(**SETTINGS, answers=folder) as con:
        assert con.sql(sql) == wanted
        assert con.report.asked == whole - kept
    assert 0 < kept < ROWS
