"""What the `quail` command prints of users' own texts."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import quail_engine
from quail_engine.cli import main


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
