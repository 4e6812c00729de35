"""What AI statements cost, as dbt shows it: a node's `adapter_response` and `target/quail_run.jsonl`."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from dbt.adapters.contracts.connection import AdapterResponse
from dbt_common.invocation import get_invocation_id

from quail_engine import RunReport


@dataclass
class QuailAdapterResponse(AdapterResponse):
    """A node's response. The counts are sums over all of its AI statements so far, and absent for a node that has none."""

    asked: int | None = None  # distinct requests sent to the engine
    recalled: int | None = None  # answered from the store
    pruned: int | None = None  # requests that the bound allowed and the plan did not need
    failed: int | None = None
    overlong: int | None = None
    tokens_fresh: int | None = None  # prefilled
    tokens_reused: int | None = None  # whose KV another request had already computed
    tokens_per_second: float | None = None  # fresh tokens a second of engine time; absent when nothing was prefilled
    model: str | None = None

    @classmethod
    def of(cls, rows: int, report: RunReport | None) -> QuailAdapterResponse:
        """`rows` is what DuckDB says of the last statement: affected rows, or -1 for one that affects none."""
        rows_affected = rows if rows >= 0 else None
        if report is None:
            return cls(_message=_message(rows_affected, None), rows_affected=rows_affected)
        return cls(
            _message=_message(rows_affected, report),
            rows_affected=rows_affected,
            asked=report.asked,
            recalled=report.recalled,
            pruned=report.pruned,
            failed=report.failed,
            overlong=report.overlong,
            tokens_fresh=report.tokens_fresh,
            tokens_reused=report.tokens_reused,
            tokens_per_second=report.tokens_per_second or None,
            model=report.model or None,
        )


def _message(rows: int | None, report: RunReport | None) -> str:
    """`1,204 rows, 312 asked, 892 recalled`; dbt's console shows it as the node's status."""
    parts = [] if rows is None else [f"{rows:,} {'row' if rows == 1 else 'rows'}"]
    if report is not None:
        parts += [f"{report.asked:,} asked", f"{report.recalled:,} recalled"]
        missing = [f"{n:,} {what}" for n, what in ((report.failed, "failed"), (report.overlong, "overlong")) if n]
        if missing:
            parts.append(f"{' and '.join(missing)} (NULL in their rows)")
    return ", ".join(parts) or "OK"


class RunLog:
    """`quail_run.jsonl` in the target folder: a line a statement with an AI call, of this and earlier invocations."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "quail_run.jsonl"

    def append(self, node: str | None, sql: str, report: RunReport) -> None:
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
