"""What AI statements cost, as dbt shows it: a node's `adapter_response`, `target/quail_run.jsonl`, and a line at the end."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from dbt.adapters.contracts.connection import AdapterResponse
from dbt_common.invocation import get_invocation_id

from quail_engine import RunReport, amount, duration


@dataclass
class QuailAdapterResponse(AdapterResponse):
    """A node's response. The counts are sums over all of its AI statements, and absent for a node that has none."""

    asked: int | None = None  # distinct requests sent to the engine
    recalled: int | None = None  # answered from the store
    pruned: int | None = None  # requests that the bound allowed and the plan did not need
    failed: int | None = None
    overlong: int | None = None
    tokens_fresh: int | None = None  # prefilled
    tokens_reused: int | None = None  # whose KV another request had already computed
    tokens_per_second: float | None = None  # fresh tokens a second of engine time; absent when nothing was prefilled
    model: str | None = None
    decided: list[str] | None = None  # what decides each question with labelled rows; absent where none has

    @classmethod
    def of(cls, rows: int, report: RunReport | None) -> QuailAdapterResponse:
        """`rows` is what DuckDB says of a statement: affected rows, or -1 for one that affects none."""
        response = cls(_message="", rows_affected=rows if rows >= 0 else None)
        response.count(report)
        return response

    def count(self, report: RunReport | None) -> None:
        """Takes the counts of the node so far; None: it had no AI statement."""
        if report is not None:
            self.asked, self.recalled, self.pruned = report.asked, report.recalled, report.pruned
            self.failed, self.overlong = report.failed, report.overlong
            self.tokens_fresh, self.tokens_reused = report.tokens_fresh, report.tokens_reused
            self.tokens_per_second = report.tokens_per_second or None
            self.model = report.model or None
            self.decided = list(report.decided) or None
        self._message = _message(self.rows_affected, report)


def _message(rows: int | None, report: RunReport | None) -> str:
    """`1,204 rows, 312 asked, 892 recalled, 41k tok/s`; dbt's console shows it as the node's status."""
    parts = [] if rows is None else [f"{rows:,} {'row' if rows == 1 else 'rows'}"]
    if report is not None:
        parts += _counts(report)
        if report.tokens_per_second:
            parts.append(f"{amount(report.tokens_per_second)} tok/s")
    return ", ".join(parts) or "OK"


def _counts(report: RunReport) -> list[str]:
    counts = [f"{report.asked:,} asked", f"{report.recalled:,} recalled"]
    missing = [f"{n:,} {what}" for n, what in ((report.failed, "failed"), (report.overlong, "overlong")) if n]
    listed = "quail answers --mock errors" if report.model == "mock" else "quail answers errors"
    return counts + ([f"{' and '.join(missing)} (NULL: {listed})"] if missing else [])


class RunLog:
    """`quail_run.jsonl` in the target folder: a line a statement with an AI call, of this and earlier invocations; and the sums
    of this one. Used by all threads."""

    def __init__(self, folder: Path, share: float = 1.0) -> None:
        """`share`: of the rows, that the invocation reads."""
        self._path = folder / "quail_run.jsonl"
        self._share = share
        self._lock = threading.Lock()
        self._nodes: set[str | None] = set()
        self._sums = RunReport()

    def append(self, node: str | None, sql: str, report: RunReport) -> None:
        """`node` is the unique id of dbt's node; None where dbt names none, as in a run-operation."""
        line: dict[str, Any] = {
            "timestamp": datetime.now(timezone.utc).isoformat(),
            "invocation_id": get_invocation_id(),
            "node": node,
            "sql_sha256": hashlib.sha256(sql.encode()).hexdigest(),
            **report.as_dict(),
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # One write to a file opened for appending: lines of threads and processes do not mix.
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, (json.dumps(line) + "\n").encode())
        finally:
            os.close(file)
        with self._lock:
            self._nodes.add(node)
            self._sums += replace(report, plan="", warnings=())

    def summary(self) -> str:
        """What the invocation asked so far, in a line, and begins anew; empty where nothing was asked or recalled."""
        with self._lock:
            nodes, sums = self._nodes, self._sums
            self._nodes, self._sums = set(), RunReport()
        if not (sums.asked or sums.recalled):
            return ""
        parts = [f"{len(nodes):,} {'node' if len(nodes) == 1 else 'nodes'} with AI calls", *_counts(sums)]
        if sums.asked:
            parts.append(f"{amount(sums.tokens_fresh)} tokens in {duration(sums.seconds_engine)}")
        return ", ".join(parts) + (_of_all(sums, self._share) if self._share < 1 else "")


def _of_all(sums: RunReport, share: float) -> str:
    """What all rows would come to, by those that a sample has read and that are answered now."""
    sampled = sums.asked + sums.recalled
    inputs = round(sampled / share)
    rest = inputs - sampled
    cost = ""
    if sums.asked:
        tokens, seconds = (rest * spent / sums.asked for spent in (sums.tokens_fresh, sums.seconds_engine))
        cost = f" (≈ {amount(tokens)} tokens, ≈ {duration(seconds)})"
    return f"; a sample of {share:.3g} of the rows: all of them would be ≈ {inputs:,} inputs, {rest:,} to be asked yet{cost}"
