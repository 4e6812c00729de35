"""What a node's status line, the run log, the line at the end of a run and the lines of progress say."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from dbt_common.events.contextvars import log_contextvars

from dbt.adapters.quail.progress import ProgressLog
from dbt.adapters.quail.reports import QuailAdapterResponse, RunLog
from quail_engine import Answered, Asking, RunReport, Warned

REPORT = RunReport(
    calls=1204, asked=312, recalled=892, tokens_fresh=9000, tokens_reused=4000, seconds=4.0, seconds_engine=3.0, model="m"
)


def report(**counts: int) -> RunReport:
    return RunReport(**{**REPORT.as_dict(), **counts})


@pytest.mark.parametrize(
    ("rows", "made", "message"),
    [
        (1204, REPORT, "1,204 rows, 312 asked, 892 recalled, 3k tok/s"),
        (1, report(failed=12), "1 row, 312 asked, 892 recalled, 12 failed (NULL: quail answers errors), 3k tok/s"),
        (
            -1,
            report(failed=1, overlong=2),
            "312 asked, 892 recalled, 1 failed and 2 overlong (NULL: quail answers errors), 3k tok/s",
        ),
        (0, RunReport(recalled=3), "0 rows, 0 asked, 3 recalled"),
        (0, None, "0 rows"),
        (-1, None, "OK"),
    ],
)
def test_status_line(rows: int, made: RunReport | None, message: str) -> None:
    assert str(QuailAdapterResponse.of(rows, made)) == message


def test_a_response_holds_the_counts() -> None:
    assert QuailAdapterResponse.of(1204, REPORT).to_dict(omit_none=True) == {
        "_message": "1,204 rows, 312 asked, 892 recalled, 3k tok/s",
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


def test_the_end_of_a_run_sums_up(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    assert log.summary() == ""
    log.append("model.p.a", "select 1", REPORT)
    log.append("model.p.a", "select 2", report(asked=1, recalled=0, failed=1))
    log.append("test.p.b", "select 3", RunReport(recalled=7))
    assert log.summary() == (
        "2 nodes with AI calls, 313 asked, 899 recalled, 1 failed (NULL: quail answers errors), 18k tokens in 6.0 s"
    )
    log.append("test.p.b", "select 3", RunReport(recalled=7))
    assert log.summary() == "1 node with AI calls, 0 asked, 7 recalled"
    log.append("model.p.a", "select 4", RunReport())  # an empty batch
    assert log.summary() == ""


class Said:
    """Stands for dbt's logger."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __getattr__(self, level: str) -> object:
        return lambda text: self.lines.append((level, text))

    def take(self) -> list[tuple[str, str]]:
        lines, self.lines = self.lines, []
        return lines


def test_progress_is_told_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    said, now = Said(), 0.0
    monkeypatch.setattr("dbt.adapters.quail.progress.logger", said)
    log = ProgressLog(clock=lambda: now)
    with log_contextvars(node_info={"node_name": "urgent"}):
        log(Asking(300, 31_000, 80.0, "m", recalled=100))
        assert said.take() == [("info", "urgent: asking 300 (31k tokens, ≈ 80 s); 100 recalled (25%)")]
        # 100 batches of a second each: a line every ten.
        for now in range(1, 101):
            log(Answered(3 * now, 300, 310 * now, float(now), 2.0 * now, recalled=100))
        lines = [text for level, text in said.take() if level == "info"]
        assert len(lines) == 10
        assert lines[0] == "urgent: 30 of 300 answered, 310 tokens/s, ≈ 180 s left; 100 recalled (25%)"
        assert lines[-1] == "urgent: 300 of 300 answered, 310 tokens/s; 100 recalled (25%)"
        # Many short rounds of one node are told as seldom.
        for now in range(101, 141):  # noqa: B007
            log(Asking(5, 500, 5.0, "m"))
            log(Answered(5, 5, 500, 1.0, 1.0))
        assert [level for level, _ in said.take()].count("info") == 4
    with log_contextvars(node_info={"node_name": "next"}):
        log(Asking(5, 500, 0.2, "m"))
        log(Answered(5, 5, 500, 0.2, 0.2))
        assert {level for level, _ in said.take()} == {"debug"}
        log(Warned("a surplus argument"))
        log(Warned("a surplus argument"))
        assert said.take() == [("warning", "next: a surplus argument")]
