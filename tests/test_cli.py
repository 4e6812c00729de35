"""What the `quail` command prints of users' own texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import quail_engine
from quail_engine.cli import main
from quail_engine.dbt_command import Project
from quail_engine.run_plan import NOTHING_ASKED


def test_brackets_of_a_question_and_of_a_row_are_printed(tmp_path: Path) -> None:
    with quail_engine.connect(engine="mock", answers=str(tmp_path)) as con:
        con.sql("select AI_CLASSIFY('a parcel', ['money', 'parcel'])")
    printed = CliRunner().invoke(main, ["answers", "--path", str(tmp_path), "--mock", "stats"]).output
    assert "[money, parcel]" in " ".join(printed.replace("│", " ").split())
    query = "select '[red] :x:' as b, AI_FILTER('Does it say ''x''?', 'x') as a"
    assert "[red] :x:" in CliRunner().invoke(main, ["run", query, "--engine", "mock"]).output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["select 1", "--select", "urgent"], "--select is for a dbt project"),
        (["select 1", "--project-dir", "."], "--project-dir is for a dbt project"),
        (["--database", "dev.duckdb"], "--database is for SQL"),
        (["--engine", "mock"], "--engine is for SQL"),
        (["--analyze"], "--analyze is for SQL"),
        (["tag:nightly+"], "quail explain --select tag:nightly+"),
    ],
)
def test_explain_refuses_what_it_would_ignore(arguments: list[str], told: str) -> None:
    done = CliRunner().invoke(main, ["explain", *arguments])
    assert done.exit_code == 2
    assert told in " ".join(done.output.split())


def test_nodes_without_a_call_ask_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def operation(project: Project, macro: str, arguments: dict[str, Any]) -> None:
        Path(arguments["json"]).write_text(json.dumps({"nodes": []}))

    monkeypatch.setattr(Project, "run_operation", operation)  # for dbt's own part: tests/dbt
    (tmp_path / "dbt_project.yml").write_text("name: shop")
    done = CliRunner().invoke(main, ["explain", "--project-dir", str(tmp_path), "--select", "gold"])
    assert done.output == f"{NOTHING_ASKED}\n"


def test_a_report_of_a_project_refuses_what_it_would_ignore(tmp_path: Path) -> None:
    (tmp_path / "dbt_project.yml").write_text("name: shop")
    for option in ("--engine", "--model", "--answers", "--run-log"):
        done = CliRunner().invoke(main, ["report", "--project-dir", str(tmp_path), option, "mock"])
        assert done.exit_code == 2
        assert f"{option} is for --database" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("sql", "code", "told"),
    [
        ("select 1 from nowhere where AI_FILTER('Is it?', x)", 1, "Table with name nowhere does not exist!"),
        ("select AI_FLITER('Is it?', 'x')", 1, "Did you mean AI_FILTER?"),
        ("select AI_FILTER('Is it?', i::varchar::date::varchar) from range(3) t(i)", 0, "Nothing is estimated."),
        ("select 1", 0, "No AI calls"),
    ],
)
def test_explain_fails_where_the_statement_would(sql: str, code: int, told: str) -> None:
    done = CliRunner().invoke(main, ["explain", sql, "--engine", "mock"])
    assert (done.exit_code, told in done.output) == (code, True), done.output


@pytest.mark.parametrize("command", [["explain", "select 1"], ["report", "--gold", "select true as answer, true as gold"]])
def test_a_mistyped_database_is_an_error_and_no_empty_file(command: list[str], tmp_path: Path) -> None:
    database = tmp_path / "devv.duckdb"
    done = CliRunner().invoke(main, [*command, "--database", str(database), "--engine", "mock"])
    assert (done.exit_code, database.exists()) == (2, False)
    assert "There is no database file" in done.output


def test_commands_say_what_they_do_in_a_line() -> None:
    for group in (main, *(command for command in main.commands.values() if isinstance(command, click.Group))):
        shown = CliRunner().invoke(group, ["--help"], terminal_width=80).output
        assert "..." not in shown.partition("Commands:")[2]
