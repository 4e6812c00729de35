"""How long are 100,000 answers recalled from a store of 1,000,000, and in how much memory?

    python -m bench.recall [--answers 1000000] [--keys 100000] [--compact]

Builds a store in a temporary folder as a long run does: segments of 65,536 answers and a journal with the rest (`--compact`
merges it first). Then recalls a part of it twice in a process of its own, and prints a JSON line: seconds of the first recall,
which checks every file, and of the second, by the clock and in processor time (of all threads); peak of resident memory and
what it was before, in MB; bytes on disk.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from quail_engine.answers import Answer, AnswerStore
from quail_engine.settings import AnswersSettings

QUESTION = hashlib.sha256(b"question").digest()
BATCH = 4_096  # answers that are remembered at once


def key(number: int) -> bytes:
    return hashlib.sha256(number.to_bytes(8, "little")).digest()


def store(folder: Path) -> AnswerStore:
    return AnswerStore(AnswersSettings(str(folder)), "local")


def build(folder: Path, answers: int, compact: bool) -> None:
    written = store(folder)
    for start in range(0, answers, BATCH):
        numbers = range(start, min(answers, start + BATCH))
        written.remember(QUESTION, "Is it urgent? {0}", [(key(n), Answer((n / 4,), 30)) for n in numbers], "model", "float32")
    if compact:
        written.compact()
    written.close()


def measure(folder: Path, answers: int, keys: int) -> dict[str, float]:
    wanted = [key(number) for number in range(0, answers, max(1, answers // keys))][:keys]
    before = _memory_mb()
    opened = store(folder)
    figures: dict[str, float] = {}
    for run in ("first", "second"):
        began, busy = time.perf_counter(), time.process_time()
        found = opened.recall(wanted)
        figures[f"seconds_{run}"] = round(time.perf_counter() - began, 3)
        figures[f"cpu_seconds_{run}"] = round(time.process_time() - busy, 3)
        assert len(found) == len(wanted), "an answer is missing"
    return {**figures, "peak_mb": _memory_mb(), "baseline_mb": before}


def _memory_mb() -> int:
    """Peak of resident memory, where the system tells it for this program alone (Linux)."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--answers", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--compact", action="store_true")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # of a store that is built: the measuring process
    given = parser.parse_args()
    if given.folder:
        sys.stdout.write(json.dumps(measure(given.folder, given.answers, given.keys)) + "\n")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "answers"
        began = time.perf_counter()
        build(folder, given.answers, given.compact)
        built = time.perf_counter() - began
        again = [sys.executable, "-m", "bench.recall", "--folder", str(folder)]
        sizes = ["--answers", str(given.answers), "--keys", str(given.keys)]
        done = subprocess.run([*again, *sizes], check=True, capture_output=True, text=True)
        about = {
            "answers": given.answers,
            "keys": given.keys,
            "segments": len(list((folder / "segments").glob("*.parquet"))),
            "disk_bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
            "seconds_build": round(built, 1),
        }
        sys.stdout.write(json.dumps({**about, **json.loads(done.stdout)}) + "\n")


if __name__ == "__main__":
    main()
