"""The demo project built again and again by eight threads, each time from nothing: no failure, the same rows and counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from dbt.cli.main import dbtRunner
from rich.console import Console

from dbt.adapters.quail.connections import QuailConnectionManager
from quail_engine import demo

THREADS = 8

Tables = dict[str, list[tuple[Any, ...]]]


def build(folder: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Tables, int]:
    """Every table's rows after a `dbt build` in a new folder, and the number of questions asked for them."""
    demo.copy_project(folder, Console(quiet=True))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DEMO_MODEL", model)
    result = dbtRunner().invoke(["build", "--profiles-dir", ".", "--threads", str(THREADS), "--quiet"])
    assert result.success, [(r.node.name, r.message) for r in result.result or () if r.status in ("error", "fail")]
    QuailConnectionManager.close_all_connections()
    with duckdb.connect(str(folder / demo.DATABASES[model]), read_only=True) as connection:
        names = connection.sql("select table_schema || '.' || table_name from information_schema.tables").fetchall()
        tables = {name: connection.sql(f"from {name} order by all").fetchall() for (name,) in names}
    lines = (folder / "target" / "quail_run.jsonl").read_text(encoding="utf-8").splitlines()
    return tables, sum(json.loads(line)["asked"] for line in lines)


def build_again(times: int, model: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, asked = build(folder / "0", model, monkeypatch)
    assert asked > 0
    assert all(first[name] for name in ("main.urgent_tickets", "main.ticket_topics", "main.zero_shot_reactions"))
    for turn in range(1, times):
        tables, asked_now = build(folder / str(turn), model, monkeypatch)
        assert tables == first, f"other rows in build {turn}"
        assert asked_now == asked, f"other questions in build {turn}"


@pytest.mark.slow
def test_twenty_builds_on_the_mock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs_dir: str) -> None:
    build_again(20, "mock", tmp_path, monkeypatch)


@pytest.mark.slow
def test_three_builds_on_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs_dir: str, model_folder: Callable[[str], Path]
) -> None:
    model_folder("smollm2-135m")
    build_again(3, "smollm2-135m", tmp_path, monkeypatch)
