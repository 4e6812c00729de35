"""How much memory do 1,000,000 documents take, and how long, from the file to the finished table?

    python -m bench.many [--documents 1000000] [--bytes 200] [--measure 'filter' 'classify'] [--answers disk]

The documents lie in a Parquet file and the table goes into a database file, each statement in a process of its own, with the
mock engine, which costs little beside the road to it. Writes a JSON line a statement: `peak_mb` is the process's highest
resident memory and `baseline_mb` what it was before the statement; `mb_at` is what it was at each tenth of a round's answers,
so what grows with the rows shows; `seconds_cpu` is processor time of all threads.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb

import quail_engine
from bench.memory import peak_mb, resident_mb
from quail_engine.progress import Answered, Event

_LABELS = ["refund", "delivery", "damage", "account", "other"]
STATEMENTS = {
    "filter": "SELECT * FROM texts WHERE AI_FILTER('Does the customer sound angry?', body)",
    "two filters": """SELECT * FROM texts WHERE AI_FILTER('Does the customer sound angry?', body)
        AND AI_FILTER('Is the parcel late?', body)""",
    "two filters, limit": """SELECT * FROM texts WHERE AI_FILTER('Does the customer sound angry?', body)
        AND AI_FILTER('Is the parcel late?', body) LIMIT 1000""",
    "classify": f"SELECT id, AI_CLASSIFY(body, {_LABELS!r}) AS label FROM texts",
}
_WORDS = [
    "late",
    "parcel",
    "refund",
    "again",
    "damaged",
    "account",
    "order",
    "second",
    "time",
    "please",
    "answer",
    "driver",
    "letter",
    "week",
    "money",
    "box",
]


def write_texts(path: Path, documents: int, size: int) -> None:
    """Different texts of about `size` bytes, the same on every machine."""
    count = max(1, (size - 14) * len(_WORDS) // len(" ".join(_WORDS)))
    word = f"list_extract({list(_WORDS)!r}, 1 + (hash(i * 1000 + w) % {len(_WORDS)})::INT)"
    body = f"'Ticket ' || i || ': ' || list_aggregate([{word} FOR w IN range({count})], 'string_agg', ' ')"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT i AS id, {body} AS body FROM range({documents}) r(i)) TO '{path}' (FORMAT parquet)")


def measure(name: str, documents: int, answers: str, duckdb_memory: str, folder: Path) -> dict[str, Any]:
    kept: Any = {"mode": "off"} if answers == "off" else str(folder / "answers")
    limits: dict[str, Any] = {"max_requests": 10**9, "max_seconds": 86_400}
    at: dict[str, int] = {}

    def watch(event: Event) -> None:
        if isinstance(event, Answered):
            at.setdefault(f"{10 * event.done // event.requests * 10}%", resident_mb())

    settings = quail_engine.Settings.of({"engine": "mock", "answers": kept, **limits})
    session = quail_engine.Session(settings, watch)
    with duckdb.connect(str(folder / "found.duckdb")) as connection:
        session.register(connection)
        connection.execute(f"CREATE VIEW texts AS FROM read_parquet('{folder / 'texts.parquet'}')")
        if duckdb_memory:
            connection.execute(f"SET memory_limit = '{duckdb_memory}'")
        before = resident_mb()
        begun, begun_cpu = time.perf_counter(), time.process_time()
        report = session.execute(connection, f"CREATE TABLE found AS {STATEMENTS[name]}")
        seconds, seconds_cpu = time.perf_counter() - begun, time.process_time() - begun_cpu
    session.close()
    limited = "limit" in name
    assert report.failed == 0, "requests failed"
    assert limited or report.asked >= documents, "every document is asked"
    assert name != "classify" or report.rows == documents, "rows are missing"
    return {
        "statement": name, "documents": documents, "answers": answers, "duckdb_memory": duckdb_memory or "default",
        "asked": report.asked, "rows": report.rows, "seconds": round(seconds, 1), "seconds_cpu": round(seconds_cpu, 1),
        "asked_per_second_cpu": round(report.asked / seconds_cpu), "peak_mb": peak_mb(), "baseline_mb": before, "mb_at": at,
    }  # fmt: skip


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench.many", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=200, help="of a document")
    parser.add_argument("--measure", nargs="+", choices=list(STATEMENTS), default=list(STATEMENTS))
    parser.add_argument("--answers", choices=("off", "disk"), default="disk")
    parser.add_argument("--duckdb-memory", default="", help="DuckDB's memory_limit, such as 256MB; its own default if left out")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # of texts that are written: the measuring process
    given = parser.parse_args(arguments)
    if given.folder:
        line = measure(given.measure[0], given.documents, given.answers, given.duckdb_memory, given.folder)
        sys.stdout.write(json.dumps(line) + "\n")
        return
    with tempfile.TemporaryDirectory() as texts:
        write_texts(Path(texts) / "texts.parquet", given.documents, given.bytes)
        for name in given.measure:
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "texts.parquet").symlink_to(Path(texts) / "texts.parquet")
                again = [sys.executable, "-m", "bench.many", "--folder", folder, "--measure", name, "--answers", given.answers]
                sizes = ["--documents", str(given.documents), "--duckdb-memory", given.duckdb_memory]
                subprocess.run([*again, *sizes], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
