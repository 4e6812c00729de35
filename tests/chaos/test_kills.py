"""Runs killed at seeded points: no kept answer is lost or asked twice, no table is half there, and the next run completes.

A dozen kills in the default run; `make chaos` runs 200 on the mock and 20 on a small model (QUAIL_CHAOS=200 and the slow test).
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from killed_run import MODELS, STEPS

from quail_engine.answers import AnswerStore
from quail_engine.settings import AnswersSettings

KILLS = int(os.environ.get("QUAIL_CHAOS", "13"))
MOCK = {"engine": "mock", "token_budget": 2_000}
SMOLLM = {"engine": "local", "model": "smollm2-135m", "token_budget": 512, "cpu_threads": 2}


@dataclass(frozen=True)
class Server:
    """The fork server of `killed_run`."""

    process: subprocess.Popen[str]
    settings: dict[str, Any]
    rows: int

    @property
    def namespace(self) -> str:
        return str(self.settings["engine"])

    def run(self, folder: Path, at: str | None = None, number: int = 0) -> int:
        """The exit code of a run in the folder, negative for the signal that killed it."""
        job = {"folder": str(folder), "at": at, "number": number, "settings": self.settings, "rows": self.rows}
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return int(json.loads(self.process.stdout.readline())["status"])

    def whole(self, folder: Path) -> dict[str, Any]:
        """The report of a run that nothing kills."""
        assert self.run(folder) == 0
        report: dict[str, Any] = json.loads((folder / "report.json").read_text())
        assert report["errors"] == []
        return report


@contextmanager
def serving(settings: dict[str, Any], rows: int) -> Iterator[Server]:
    command = [sys.executable, str(Path(__file__).with_name("killed_run.py")), settings["engine"]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Server(process, settings, rows)


@dataclass(frozen=True)
class Undisturbed:
    """What a run comes to that nothing kills."""

    keys: list[bytes]  # of all its answers
    tables: list[Any]
    counts: dict[str, int]  # how often each step occurred


def _undisturbed(server: Server, folder: Path) -> Undisturbed:
    folder.mkdir()
    report = server.whole(folder)
    keys = _log(folder)[0]
    assert report["asked"] == len(keys) == len(set(keys))
    assert {step for step in STEPS if not report["counts"].get(step)} == set(), "every step occurs"
    again = server.whole(folder)
    assert (again["asked"], _rows_of(again, "after")) == (0, _rows_of(report, "after"))
    return Undisturbed(keys, _rows_of(report, "after"), report["counts"])


def _stored(folder: Path, namespace: str, keys: list[bytes]) -> set[bytes]:
    store = AnswerStore(AnswersSettings(str(folder / "answers"), "read_only"), namespace)
    try:
        return set(store.recall(keys))
    finally:
        store.close()


def _log(folder: Path) -> tuple[list[bytes], dict[int, int]]:
    """Keys whose remembering returned, and the sizes to which files were synced, by inode."""
    kept, synced = [], {}
    path = folder / "log.jsonl"
    for line in path.read_text().splitlines() if path.exists() else ():
        said = json.loads(line)
        kept += map(bytes.fromhex, said.get("kept", ()))
        if "synced" in said:
            synced[said["synced"]] = said["size"]
    return kept, synced


def _cut_power(folder: Path, synced: dict[int, int], chance: random.Random) -> None:
    """Of what journals hold beyond their last sync a power cut leaves any part."""
    for path in (folder / "answers").rglob("*.journal"):
        status = path.stat()
        # A new file may have the number of one that is gone, and whose sizes were synced.
        os.truncate(path, chance.randint(min(synced.get(status.st_ino, 0), status.st_size), status.st_size))


def _rows_of(report: dict[str, Any], when: str) -> list[Any]:
    return [report[when][str(m)] for m in range(MODELS)]


def _kill(server: Server, folder: Path, at: str, undisturbed: Undisturbed, chance: random.Random) -> None:
    """One run killed at a drawn occurrence of a step, looked at, and run again."""
    folder.mkdir()
    # How often a step occurs depends a little on how threads meet: where one does not come an earlier one is drawn.
    number = undisturbed.counts[at]
    while True:
        number = chance.randint(1, number)
        code = server.run(folder, at, number)
        if code == -signal.SIGKILL or number == 1:
            break
        number -= 1
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    assert code == -signal.SIGKILL, (at, number)
    kept, synced = _log(folder)
    if chance.random() < 0.5:
        _cut_power(folder, synced, chance)
    assert len(set(kept)) == len(kept), "an answer was asked twice"
    stored = _stored(folder, server.namespace, undisturbed.keys)
    assert stored >= set(kept), "an answer that was kept is lost"
    again = server.whole(folder)
    for before, after in zip(_rows_of(again, "found"), undisturbed.tables, strict=True):
        assert before in (None, after), "a table is half there"
    assert _rows_of(again, "after") == undisturbed.tables
    assert again["asked"] == len(undisturbed.keys) - len(stored)
    store = AnswerStore(AnswersSettings(str(folder / "answers")), server.namespace)
    check = store.check()
    assert (check.damaged, check.torn) == ((), ())
    # A kill between sealing a journal and removing it leaves answers in both, until compaction.
    store.compact()
    assert store.stats().answers == len(undisturbed.keys)
    assert set(store.recall(undisturbed.keys)) == set(undisturbed.keys)
    store.close()


def _kills(server: Server, tmp_path: Path, kills: int, seed: int) -> Counter[str]:
    undisturbed = _undisturbed(server, tmp_path / "undisturbed")
    chance = random.Random(seed)
    offset = chance.randrange(len(STEPS))
    done: Counter[str] = Counter()
    for n in range(kills):
        at = STEPS[(offset + n * 5) % len(STEPS)]  # 5 and the number of steps have no common factor: all come equally often
        _kill(server, tmp_path / f"kill{n}", at, undisturbed, chance)
        done[at.rsplit(" ", 1)[0]] += 1
    return done


def test_killed_runs_lose_nothing(tmp_path: Path) -> None:
    with serving(MOCK, rows=30) as server:
        done = _kills(server, tmp_path, KILLS, seed=5)
    assert sum(done.values()) == KILLS
    if KILLS >= 200:
        assert min(done.values()) >= 10, done


@pytest.mark.slow
def test_killed_runs_on_a_real_model_lose_nothing(tmp_path: Path, model_folder: Any) -> None:
    model_folder(SMOLLM["model"])
    with serving(SMOLLM, rows=24) as server:
        done = _kills(server, tmp_path, 20, seed=6)
    assert sum(done.values()) == 20
