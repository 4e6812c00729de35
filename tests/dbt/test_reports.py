"""What a node's status line and the run log say."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dbt.adapters.quail.reports import QuailAdapterResponse, RunLog
from quail_engine import RunReport

REPORT = RunReport(
    calls=1204, asked=312, recalled=892, tokens_fresh=9000, tokens_reused=4000, seconds=4.0, seconds_engine=3.0, model="m"
)


def report(**counts: int) -> RunReport:
    return RunReport(**{**REPORT.as_dict(), **counts})


@pytest.mark.parametrize(
    ("rows", "made", "message"),
    [
        (1204, REPORT, "1,204 rows, 312 asked, 892 recalled"),
        (1, report(failed=12), "1 row, 312 asked, 892 recalled, 12 failed (NULL in their rows)"),
        (
            -1,
            report(failed=1, overlong=2),
            "312 asked, 892 recalled, 1 failed and 2 overlong (NULL in their rows)",
        ),
        (0, None, "0 rows"),
        (-1, None, "OK"),
    ],
)
def test_status_line(rows: int, made: RunReport | None, message: str) -> None:
    assert str(QuailAdapterResponse.of(rows, made)) == message


def test_a_response_holds_the_counts() -> None:
    assert QuailAdapterResponse.of(1204, REPORT).to_dict(omit_none=True) == {
        "_message": "1,204 rows, 312 asked, 892 recalled",
        "rows_affected": 1204,
        "asked": 312,
        "recalled": 892,
        "pruned": 0,
        "failed": 0,
        "overlong": 0,
        "tokens_fresh": 9000,
        "tokens_reused": 4000,
        "tokens_per_second": 3000.0,
        "model": "m",
    }


def test_lines_of_threads_do_not_mix(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "target")
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda i: log.append(f"model.p.m{i}", "select 1" * 500, REPORT), range(200)))
    lines = [json.loads(line) for line in (tmp_path / "target" / "quail_run.jsonl").read_text().splitlines()]
    assert {line["node"] for line in lines} == {f"model.p.m{i}" for i in range(200)}
    assert {line["asked"] for line in lines} == {312}
    assert len(lines[0]["sql_sha256"]) == 64
