"""How fast are look-ups, and how much memory do many missing inputs take?

    python -m bench.lookups --rows 1000000
    python -m bench.lookups --rows 10000000 --measure asked --answers off

Writes a JSON line a measure. The texts come from a view, so the table itself takes no memory. Measures:

* `noted`: a run of the statement in which every row is a distinct input that nobody has met, some 100 bytes of text each
* `known`: a run in which every row has its answer
* `asked`: a whole statement over such rows on the mock engine, which answers by a rule and costs little beside the road there

`seconds_cpu` is processor time of all threads, which other work on the machine disturbs less than `seconds`; `peak_mb` is the
process's highest resident memory so far, so measure one thing a process to compare it.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np

import quail_engine
from quail_engine.lookups import StatementLookUps, register
from quail_engine.settings import Settings
from quail_engine.sql import analyze, render, split

_QUESTION = "SELECT count(*) FROM texts WHERE AI_FILTER('Does the customer sound angry?', body)"
_TEXTS = (
    "CREATE VIEW texts AS SELECT 'Ticket ' || i || ': the parcel is late for the second time, and I ask for "
    "a refund of the amount of ' || i AS body FROM range({rows}) r(i)"
)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--measure", choices=("lookups", "asked", "all"), default="all")
    parser.add_argument("--answers", choices=("off", "memory", "disk"), default="off")
    parser.add_argument("--missing-bytes", type=int, default=Settings().missing_bytes)
    options = parser.parse_args(arguments)
    if options.measure in ("lookups", "all"):
        for line in look_ups(options.rows, options.missing_bytes):
            _write(line)
    if options.measure in ("asked", "all"):
        with tempfile.TemporaryDirectory() as folder:
            _write(asked(options.rows, options.answers, options.missing_bytes, folder))


def look_ups(rows: int, missing_bytes: int) -> Iterator[dict[str, Any]]:
    """The runs of one statement apart from any engine."""
    with duckdb.connect() as connection:
        register(connection)
        connection.execute(_TEXTS.format(rows=rows))
        query = analyze(_QUESTION, next(iter(split(_QUESTION))))
        found = StatementLookUps(query.calls, Settings.of({"engine": "mock", "missing_bytes": missing_bytes}))
        sql = render(query, found.tags, {}, [])
        found.start(0)
        yield {"measure": "noted", "rows": rows, **_timed(lambda: connection.execute(sql).fetchall())}
        inquiry = found.inquiry(0)
        missing = inquiry.taken()
        assert len(missing) == rows, "every row is noted once"
        missing.close()
        margins = np.random.default_rng(0).normal(size=(rows, 1)).astype(np.float32)
        inquiry.settle(np.arange(rows), margins)
        found.start(0)
        yield {"measure": "known", "rows": rows, **_timed(lambda: connection.execute(sql).fetchall())}
        assert not found.missing(), "every row is known"
        found.close()


def asked(rows: int, answers: str, missing_bytes: int, folder: str) -> dict[str, Any]:
    """A whole statement on the mock."""
    kept: Any = {"off": {"mode": "off"}, "memory": None, "disk": folder}[answers]
    limits: dict[str, Any] = {"max_requests": rows, "max_seconds": 86_400, "missing_bytes": missing_bytes}
    with quail_engine.connect(engine="mock", answers=kept, **limits) as connection:
        connection.sql(_TEXTS.format(rows=rows))
        timed = _timed(lambda: connection.sql(_QUESTION))
        assert connection.report.asked == rows, "every row is asked once"
    return {"measure": "asked", "rows": rows, "answers": answers, **timed, "inputs_per_second_cpu": rows / timed["seconds_cpu"]}


def _timed(work: Callable[[], object]) -> dict[str, float]:
    begun, begun_cpu = time.perf_counter(), time.process_time()
    work()
    seconds, seconds_cpu = time.perf_counter() - begun, time.process_time() - begun_cpu
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform != "darwin" else 1024)
    return {"seconds": round(seconds, 2), "seconds_cpu": round(seconds_cpu, 2), "peak_mb": round(kilobytes / 1024)}


def _write(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
