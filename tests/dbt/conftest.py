"""A dbt project on the mock engine: DuckDB in a file, answers in the project's own folder, four threads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# dbt's and its test fixtures' own; anything else stays an error.
_THIRD_PARTY_WARNINGS = (
    "ignore:(Class|Session)-scoped fixtures defined as instance methods:pytest.PytestRemovedIn10Warning",
    # dbt's logger drops its file handler without closing it; collected whenever the interpreter gets to it.
    "ignore:unclosed file .*dbt.log:ResourceWarning",
    # dbt leaves its pool of threads open when `dbt show`, `dbt compile` or a hook before the run ends with an error.
    "ignore:unclosed running multiprocessing pool <dbt.graph:ResourceWarning",
    # dbt-duckdb gives a Python model an event loop, two sockets with it, and does not close them.
    "ignore:unclosed event loop:ResourceWarning",
    "ignore:unclosed <socket.socket fd=[0-9]+, family=1, type=1:ResourceWarning",
)


def pytest_configure(config: pytest.Config) -> None:
    for warning in _THIRD_PARTY_WARNINGS:
        config.addinivalue_line("filterwarnings", warning)


@pytest.fixture(scope="class")
def dbt_profile_target(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    database = tmp_path_factory.mktemp("database") / "dev.duckdb"
    return {"type": "quail", "threads": 4, "path": str(database), "quail": {"engine": "mock"}}


@pytest.fixture
def every_line(project: Any) -> Callable[[], list[dict[str, Any]]]:
    """Gives the lines of quail_run.jsonl."""

    def lines() -> list[dict[str, Any]]:
        path = Path(project.project_root) / "target" / "quail_run.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    return lines


@pytest.fixture
def run_log(every_line: Callable[[], list[dict[str, Any]]]) -> Callable[[str], list[dict[str, Any]]]:
    """Gives the lines of quail_run.jsonl whose node is the one of that name."""
    return lambda name: [line for line in every_line() if (line["node"] or "").split(".")[2:3] == [name]]


@pytest.fixture(scope="class")
def logs_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """dbt's logs, outside of the checkout."""
    folder = str(tmp_path_factory.mktemp("logs"))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("DBT_LOG_PATH", folder)
        yield folder
