"""A run of several models at once that dies where it is told to. Run as a program it is a server that forks one such run a job.

A job is a line of JSON on standard input, the run's report a line on standard output. The server imports everything and opens
nothing, so a fork costs little and inherits no thread.

Steps are instrumented from here: the modules that write files get another `os`, named functions and the DuckDB cursor are
wrapped. A step's occurrences are numbered through all threads of a run; the run dies at one of them.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from quail_engine import Session, Settings
from quail_engine.answers import files, frames, segments, store, upkeep
from quail_engine.engine.mock import MockEngine

STEPS = tuple(
    f"{step} {side}"
    for step, sides in {
        "journal write": ("before", "half", "after"),
        "fsync": ("before", "after"),
        "seal": ("before", "between", "after"),
        "rename": ("before", "after"),
        "batch": ("before", "after"),
        "temp table": ("before", "after"),
        "CTAS": ("before", "after"),
        "commit": ("before", "after"),
    }.items()
    for side in sides
)
MODELS = 4  # m0 and m1 ask the same
_SEAL_ANSWERS = 24
_STATEMENTS = {"create or replace temp table": "temp table", "create table m": "CTAS", "commit": "commit"}


class Steps:
    """Counts what happens and, at the n-th time that `at` does, kills the process."""

    def __init__(self, at: str | None, number: int, log: Path) -> None:
        self._at, self._number = at, number
        self._lock = threading.Lock()
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.counts: Counter[str] = Counter()

    def reach(self, step: str) -> None:
        with self._lock:
            self.counts[step] += 1
            if (step, self.counts[step]) == (self._at, self._number):
                os.kill(os.getpid(), signal.SIGKILL)

    def dies_next(self, step: str) -> bool:
        with self._lock:
            return (step, self.counts[step] + 1) == (self._at, self._number)

    def say(self, **what: Any) -> None:
        """A line that outlives the process."""
        os.write(self._log, (json.dumps(what) + "\n").encode())

    def around(self, step: str, function: Callable[..., Any], say: Callable[..., dict[str, Any]] | None = None) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.reach(f"{step} before")
            result = function(*args, **kwargs)
            if say:
                self.say(**say(*args))
            self.reach(f"{step} after")
            return result

        return wrapped


class _Os:
    """`os` for the modules that write: its `write` and `fsync` are steps."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        # Nothing waits for a disk: what a power cut would leave is worked out from the sizes that were synced.
        self.fsync = steps.around("fsync", lambda descriptor: None, _synced)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, descriptor: int, data: bytes) -> int:
        self._steps.reach("journal write before")
        if self._steps.dies_next("journal write half"):
            os.write(descriptor, data[: len(data) // 2])
        self._steps.reach("journal write half")
        written = os.write(descriptor, data)
        self._steps.reach("journal write after")
        return written


def _synced(descriptor: int) -> dict[str, Any]:
    status = os.fstat(descriptor)
    return {"synced": status.st_ino, "size": status.st_size}


class _Cursor:
    """A DuckDB cursor whose statements are steps."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, steps: Steps) -> None:
        self._cursor, self._steps = cursor, steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def execute(self, sql: str, *args: Any) -> Any:
        step = next((step for start, step in _STATEMENTS.items() if sql.lower().startswith(start)), None)
        run = self._cursor.execute
        return (self._steps.around(step, run) if step else run)(sql, *args)


def _instrument(steps: Steps, local: bool) -> None:
    frames.os = files.os = _Os(steps)  # type: ignore[assignment]
    Path.rename = steps.around("rename", Path.rename)  # type: ignore[method-assign]
    Path.replace = steps.around("rename", Path.replace)  # type: ignore[method-assign]
    upkeep.seal = steps.around("seal", upkeep.seal)
    write = segments.write

    def write_segment(*args: Any) -> Path:
        path = write(*args)
        steps.reach("seal between")
        return path

    segments.write = write_segment
    store.SEAL_ANSWERS = _SEAL_ANSWERS
    frames.SYNC_SECONDS = 0.0
    say = lambda store, question, template, answers, *_: {"kept": [key.hex() for key, _ in answers]}  # noqa: E731
    store.AnswerStore.remember = steps.around("remember", store.AnswerStore.remember, say)  # type: ignore[method-assign]
    engine = _local_engine() if local else MockEngine
    engine.score = steps.around("batch", engine.score)


def _local_engine() -> Any:
    from quail_engine.engine.local.engine import LocalEngine

    return LocalEngine


def questions(model: int, rows: int) -> str:
    phrase = max(model, 1)
    notes = f"select i, 'note ' || i || if(i % 2 = 0, ' even', ' odd') as body from range({rows}) r(i)"
    return (
        f"select i, AI_FILTER('{phrase}: does it say ''note {phrase}''?', body) as f, "
        f"AI_CLASSIFY(body, ['odd', 'even', 'neither {phrase}']) as c from ({notes}) where i % {model + 2} > 0"
    )


def run(folder: Path, settings: Settings, rows: int, steps: Steps) -> dict[str, Any]:
    """Builds every model as dbt does, in a thread each: a new table, then it takes the old one's name, in one transaction."""
    database = duckdb.connect(str(folder / "dev.duckdb"))
    session = Session(settings, listener=lambda event: None)
    session.register(database)
    found = {m: tables(database, m) for m in range(MODELS)}
    asked = recalled = 0
    errors: list[str] = []
    lock = threading.Lock()

    def build(m: int, cursor: Any) -> None:
        nonlocal asked, recalled
        try:
            cursor.execute("begin")
            cursor.execute(f"drop table if exists m{m}_new")
            report = session.execute(cursor, f"create table m{m}_new as {questions(m, rows)}")
            cursor.execute(f"drop table if exists m{m}")
            cursor.execute(f"alter table m{m}_new rename to m{m}")
            cursor.execute("commit")
            with lock:
                asked, recalled = asked + report.asked, recalled + report.recalled
        except Exception as error:  # noqa: BLE001 - told to the test
            errors.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=build, args=(m, _Cursor(database.cursor(), steps))) for m in range(MODELS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session.close()
    after = {m: tables(database, m) for m in range(MODELS)}
    database.close()
    return {"found": found, "after": after, "asked": asked, "recalled": recalled, "errors": errors, "counts": steps.counts}


def tables(database: duckdb.DuckDBPyConnection, model: int) -> list[list[Any]] | None:
    """A model's rows in order, None where there is no table; a leftover of a build is a mistake."""
    names = {name for (name,) in database.execute("select table_name from duckdb_tables()").fetchall()}
    assert f"m{model}_new" not in names, "half a build was committed"
    return [list(row) for row in database.execute(f"from m{model} order by i").fetchall()] if f"m{model}" in names else None


def _child(job: dict[str, Any]) -> None:
    folder = Path(job["folder"])
    steps = Steps(job.get("at"), job.get("number", 0), folder / "log.jsonl")
    _instrument(steps, job["settings"]["engine"] == "local")
    report = run(folder, Settings.of({**job["settings"], "answers": str(folder / "answers")}), job["rows"], steps)
    (folder / "report.json").write_text(json.dumps(report))


def serve() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            code = 1
            try:
                _child(job)
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), flush=True)  # noqa: T201 - the answer to the job


if __name__ == "__main__":
    if "local" in sys.argv:
        _local_engine()
    serve()
