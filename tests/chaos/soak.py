# ruff: noqa: T201, E501 - a program that prints, and SQL is easier to read on one line
"""Eight threads build models of all kinds for a while; memory and file handles must stay flat: `make soak` (SOAK_SECONDS).

Each turn of a thread asks new questions and old ones, in filters, joins, classifications, early stops and DML, in a table of its
own; one turn in ten is cancelled, one in ten rolled back. Every minute the store is compacted. A line is printed every ten
seconds.

What is held in memory on purpose, the answers of the journal and token ids, has a bound that such a run would reach after most
of its time. Here the bounds are small, so that all of it is full after some seconds and what grows from then on is a leak. Ends
with 1 where in the last quarter resident memory (median) is more than a tenth above the second quarter's, Python's objects
(the most) more than a twentieth, or where more files are open (the fewest).
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import duckdb

from quail_engine import QuailError, Session, Settings
from quail_engine.answers import store
from quail_engine.prompts import token_store

THREADS = 8
_MEMORY_GROWTH, _OBJECT_GROWTH, _HANDLE_GROWTH = 1.10, 1.05, 4
_SEAL_ANSWERS, _MEMORY_TOKENS = 1 << 12, 1 << 16  # a 16th and a 64th of what they are
_COMPACT_EVERY = 6  # lines

_STATEMENTS = [
    "create or replace table o{t} as select i, {f} as f from d{t}",
    "create or replace table o{t} as select *, AI_CLASSIFY(body, ['red', 'green', 'blue']) as c from d{t} where i % 3 = 0 and {f}",
    "create or replace table o{t} as select a.i from d{t} a join w on AI_JOIN(PROMPT('{{0}} shares {{1}}', a.body, w.word)) where a.i < 20",
    "create or replace table o{t} as select i from d{t} where {f} order by i limit 5",
    "create or replace table o{t} as select i from w where exists (select 1 from d{t} where d{t}.i = w.i and {f})",
    "update d{t} set body = body || ' seen' where i % 7 = 0 and {f}",
    "select AI_SCORE('turn {n} of {t}: is it late?', body) as s from d{t} order by s limit 3",
]


def _resident_mb() -> float:
    """Resident memory of this process in MB; Linux."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _handles() -> int:
    return len(os.listdir("/proc/self/fd"))


class _Count:
    def __init__(self) -> None:
        self.statements = self.asked = self.recalled = self.cancelled = self.failed = 0


def _work(session: Session, database: duckdb.DuckDBPyConnection, t: int, ends: float, count: _Count) -> None:
    chance, cursor, n = random.Random(t), database.cursor(), 0
    while time.monotonic() < ends:
        n += 1
        if n % 5 == 1:
            cursor.execute(
                f"create or replace table d{t} as select i, 'note ' || i || ' of {t}.{n} ' || "
                "['red', 'green late', 'blue urgent'][1 + i % 3] as body from range(120) r(i)"
            )
        f = f"AI_FILTER('does it say ''{chance.choice(['late', 'urgent', 'red', str(n % 3)])}''?', body)"
        cancelled = threading.Event()
        if chance.random() < 0.1:
            threading.Timer(0.01, cancelled.set).start()
        cursor.execute("begin")
        try:
            sql = chance.choice(_STATEMENTS).format(t=t, f=f, n=n)
            report = session.execute(cursor, sql, cancelled=cancelled)
            cursor.execute("commit" if chance.random() < 0.9 else "rollback")
            count.asked, count.recalled = count.asked + report.asked, count.recalled + report.recalled
        except QuailError as error:
            count.cancelled += "cancelled" in str(error)
            if "cancelled" not in str(error):
                count.failed += 1
                print(error, flush=True)
            cursor.execute("rollback")
        count.statements += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        database = duckdb.connect(f"{folder}/dev.duckdb", config={"memory_limit": "512MB"})
        store.SEAL_ANSWERS, token_store._MEMORY_TOKENS = _SEAL_ANSWERS, _MEMORY_TOKENS
        settings = Settings.of({"engine": "mock", "answers": f"{folder}/answers", "token_budget": 4_000})
        session = Session(settings, listener=lambda event: None)
        session.register(database)
        database.execute("create table w as select i, ['late', 'urgent', 'green'][1 + i % 3] as word from range(30) r(i)")
        began, counts, samples = time.monotonic(), [_Count() for _ in range(THREADS)], []
        work = [threading.Thread(target=_work, args=(session, database, t, began + seconds, counts[t])) for t in range(THREADS)]
        for thread in work:
            thread.start()
        while any(thread.is_alive() for thread in work):
            time.sleep(min(10.0, seconds / 20))
            samples.append((_resident_mb(), sys.getallocatedblocks(), _handles()))
            done = {name: sum(getattr(count, name) for count in counts) for name in vars(counts[0])}
            print(
                f"{time.monotonic() - began:6.0f} s  {samples[-1][0]:7.1f} MB  {samples[-1][1]:9,} objects  "
                f"{samples[-1][2]:4d} handles  {done}",
                flush=True,
            )
            if len(samples) % _COMPACT_EVERY == 0:
                session._store.compact()
        failed = sum(count.failed + (count.statements == 0) for count in counts)
        session.close()
        database.close()
    return _verdict(samples[: len(samples) - 1] or samples, failed)


def _verdict(samples: list[tuple[float, int, int]], failed: int) -> int:
    quarter = max(1, len(samples) // 4)
    early, late = samples[quarter : 2 * quarter] or samples, samples[-quarter:]
    memory, objects, handles = (
        [fold(sample[n] for sample in part) for part in (early, late)] for n, fold in enumerate((statistics.median, max, min))
    )
    print(
        f"memory {memory[0]:.0f} → {memory[1]:.0f} MB, objects {objects[0]:,} → {objects[1]:,}, handles {handles[0]} → "
        f"{handles[1]}, statements that failed and threads that did nothing: {failed}"
    )
    grown = (
        memory[1] > memory[0] * _MEMORY_GROWTH,
        objects[1] > objects[0] * _OBJECT_GROWTH,
        handles[1] > handles[0] + _HANDLE_GROWTH,
    )
    return 1 if any(grown) or failed else 0


if __name__ == "__main__":
    sys.exit(main())
