"""Four processes with four threads each write into one store: nothing lost, nothing wrong.

For a second in the default run; `make chaos` sets QUAIL_WRITERS to a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from writers import THREADS, answer, key

from quail_engine.answers import AnswerStore
from quail_engine.settings import AnswersSettings

SECONDS = float(os.environ.get("QUAIL_WRITERS", "1"))
PROCESSES = 4


def test_processes_and_threads_write_at_once(tmp_path: Path) -> None:
    folder, program = str(tmp_path / "answers"), str(Path(__file__).with_name("writers.py"))
    commands = [[sys.executable, program, folder, str(n), str(SECONDS)] for n in range(PROCESSES)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    reports = [json.loads(process.communicate()[0]) for process in processes]
    assert [report["mistakes"] for report in reports] == [[]] * PROCESSES
    expected = {
        key(process, thread, number): answer(process, thread, number)
        for process, report in enumerate(reports)
        for thread in range(THREADS)
        for number in range(report["written"][thread])
    }
    assert min(min(report["written"]) for report in reports) > 0
    store = AnswerStore(AnswersSettings(folder), "local")
    assert store.recall(list(expected)) == expected
    check = store.check()
    assert (check.damaged, check.torn) == ((), ())
    store.compact()
    assert store.stats().answers == len(expected)
    assert store.recall(list(expected)) == expected
    store.close()
