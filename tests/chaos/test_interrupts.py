"""Ctrl-C once and twice, and SIGTERM, at a real `dbt run`: it stops soon, keeps the answers, leaves no lock, no half table."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from quail_engine.answers import AnswerStore
from quail_engine.settings import AnswersSettings

# As many rows as take the slowed engine far longer than a signal takes to arrive, however busy the machine is.
MODELS, ROWS = 4, 1000
TOTAL = MODELS * ROWS
Signals = tuple[tuple[float, int], ...]

# dbt itself, on a mock that takes a while for each batch and writes down which it was asked.
BOOTSTRAP = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a test run in the background has switched off
from quail_engine.engine.mock import MockEngine
score, log = MockEngine.score, os.open("batches.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def slowly(engine, batch):
    os.write(log, f"{len(batch.reads)}\\n".encode())
    time.sleep(float(sys.argv[1]))
    return score(engine, batch)
MockEngine.score = slowly
from dbt.cli.main import cli
cli(sys.argv[2:])
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("interrupted")
    output = {"type": "quail", "path": "dev.duckdb", "threads": 4}
    quail = {"engine": "mock", "token_budget": 100, "answers": ".quail/answers"}
    profile = {"interrupted": {"target": "dev", "outputs": {"dev": {**output, "quail": quail}}}}
    (root / "profiles.yml").write_text(json.dumps(profile))
    (root / "dbt_project.yml").write_text(json.dumps({"name": "interrupted", "version": "1.0", "profile": "interrupted"}))
    (root / "models").mkdir()
    for m in range(MODELS):
        (root / "models" / f"m{m}.sql").write_text(
            "{{ config(materialized='table') }} "
            f"select i, AI_FILTER('{m}: does it say ''{m} end''?', 'note ' || i || ' end') as f from range({ROWS}) r(i)"
        )
    (root / "run.py").write_text(textwrap.dedent(BOOTSTRAP))
    return root


@dataclass(frozen=True)
class Run:
    code: int
    printed: str
    asked: int


def _run(project: Path, seconds_a_batch: float, signals: tuple[tuple[float, int], ...] = ()) -> Run:
    """`dbt run`; a signal is sent after some seconds, the first once some batches have been asked."""
    log = project / "batches.log"
    log.unlink(missing_ok=True)
    command = [sys.executable, "run.py", str(seconds_a_batch), "run", "--no-use-colors"]
    printed: list[str] = []
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout
        reader = threading.Thread(target=printed.extend, args=(process.stdout,))
        reader.start()
        while signals and process.poll() is None and not (log.exists() and log.read_text().count("\n") > 3):
            time.sleep(0.01)
        for seconds, number in signals:
            time.sleep(seconds)
            process.send_signal(number)
        code = process.wait(600)
        reader.join()
    return Run(code, "".join(printed), sum(map(int, log.read_text().split())))


def _stored(project: Path) -> int:
    store = AnswerStore(AnswersSettings(str(project / ".quail" / "answers"), "read_only"), "mock")
    try:
        return store.stats().answers
    finally:
        store.close()


def _tables(project: Path) -> dict[str, list[tuple[int, bool]]]:
    """What is in the database file, which opens only if nobody locks it."""
    with duckdb.connect(str(project / "dev.duckdb")) as database:
        names = [name for (name,) in database.execute("select table_name from duckdb_tables() order by 1").fetchall()]
        return {name: database.execute(f"from {name} order by i").fetchall() for name in names}


@pytest.mark.parametrize(
    ("seconds_a_batch", "signals", "codes"),
    [
        (0.3, ((0.0, signal.SIGINT),), {2}),
        # The second one finds threads that are still in a batch.
        (0.6, ((0.0, signal.SIGINT), (0.2, signal.SIGINT)), {1, 2, -signal.SIGINT}),
        (0.3, ((0.0, signal.SIGTERM),), {2}),
    ],
    ids=["Ctrl-C", "Ctrl-C twice", "SIGTERM"],
)
def test_an_interrupted_run_stops_and_the_next_goes_on(
    project: Path, seconds_a_batch: float, signals: Signals, codes: set[int]
) -> None:
    before, tables_before = _stored(project), _tables(project)
    run = _run(project, seconds_a_batch, signals)
    assert run.code in codes, run.printed
    assert run.asked < TOTAL / 4, "it stops soon, far from the end"
    assert _stored(project) == before + run.asked, "the batch in flight was kept"
    terminated = "Encountered an error:\nTerminated (SIGTERM). The answers that came are kept" in re.sub(
        r"\d\d:\d\d:\d\d  ", "", run.printed
    )
    assert terminated == (signals[0][1] == signal.SIGTERM), run.printed
    assert _stored(project) < TOTAL
    assert _tables(project) == tables_before == {}


def test_the_run_after_asks_the_rest(project: Path) -> None:
    stored = _stored(project)
    run = _run(project, 0.0)
    assert run.code == 0, run.printed
    assert run.asked == TOTAL - stored < TOTAL
    assert _tables(project) == {f"m{m}": [(i, str(i).endswith(str(m))) for i in range(ROWS)] for m in range(MODELS)}
