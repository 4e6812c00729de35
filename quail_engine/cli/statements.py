"""Commands about SQL and dbt projects: what would be asked, what is answered, how right it was."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Container
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich import box
from rich.table import Table

from quail_engine.cli.options import (
    clear_errors,
    database_to_read,
    plain_console,
    project_options,
    settings_of,
    settings_options,
)
from quail_engine.dbt_command import Project
from quail_engine.report_page import run_lines, run_page
from quail_engine.run_plan import COLUMNS, NOTHING_ASKED, run_plan_rows
from quail_engine.session import connect

# Parameters that mean something with SQL only, and in a dbt project only.
_OF_SQL = {"database", "analyze", "engine", "model", "answers"}
_OF_PROJECTS = {"select", "exclude", "project_dir", "profiles_dir", "target"}


@click.command()
@click.argument("sql", required=False)
@click.option("--database", default=":memory:", show_default=True, help="A DuckDB file.")
@click.option("--select", help="Nodes of a dbt project, as in `dbt build --select`, instead of SQL.")
@click.option("--exclude", help="Nodes of a dbt project that are left out.")
@click.option("--json", "as_json", is_flag=True, help="The plan as data, for programs.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with a picture to this file.")
@click.option("--analyze", is_flag=True, help="Run the statement, and show what happened beside it.")
@project_options
@settings_options
@clear_errors
def explain(
    sql: str | None,
    database: str,
    select: str | None,
    exclude: str | None,
    as_json: bool,
    html: Path | None,
    analyze: bool,
    project_dir: Path,
    profiles_dir: Path | None,
    target: str | None,
    engine: str,
    model: str | None,
    answers: str | None,
) -> None:
    """Say what would be asked and what it would cost. Nothing is asked.

    With SQL: the plan of a statement. Without: what the nodes of a dbt project would ask, all of them or those that --select
    names; the project's profile says which database and model.
    """
    if sql is None:
        _refuse(_OF_SQL, "for SQL; of a dbt project its profile says that, and dbt runs its nodes")
    else:
        _refuse(_OF_PROJECTS, "for a dbt project, and there is SQL")
        if len(sql.split()) == 1 and "(" not in sql:
            raise click.UsageError(f"{sql} is no SQL. A node of a dbt project: quail explain --select {sql}")
    if sql is None:
        return _explain_project(Project(project_dir, profiles_dir, target), select, exclude, as_json, html)
    with connect(database_to_read(database), settings=settings_of(engine, model, answers)) as connection:
        if html:
            html.write_text(connection.explain(sql, "html", analyze), encoding="utf-8")
            click.echo(f"{html} is written")
        elif as_json:
            click.echo(json.dumps(connection.explain(sql, "json", analyze), indent=2))
        else:
            click.echo(connection.explain(sql, analyze=analyze))


def _refuse(ignored: Container[str], why: str) -> None:
    """Raises UsageError for a parameter that was given and would be ignored."""
    context = click.get_current_context()
    given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    for parameter in context.command.params:
        if parameter.name in given and parameter.name in ignored:
            raise click.UsageError(f"{parameter.opts[0]} is {why}.")


def _explain_project(project: Project, select: str | None, exclude: str | None, as_json: bool, html: Path | None) -> None:
    if not project.is_there:
        absent = project.directory / "dbt_project.yml"
        raise click.UsageError(f"Give SQL, or the folder of a dbt project: there is no {absent}.")
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "plan.json"
        page = None if html is None else str(html.absolute())
        project.run_operation("quail_explain", {"select": select, "exclude": exclude, "json": str(found), "html": page})
        data = json.loads(found.read_text(encoding="utf-8"))
    if as_json:
        return click.echo(json.dumps(data, indent=2))
    if data["nodes"]:
        plain_console().print(_table_of_nodes(data))
    else:
        click.echo(NOTHING_ASKED)
    if html:
        click.echo(f"{html} is written")


def _table_of_nodes(data: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE)
    for column in COLUMNS[:-1]:
        table.add_column(column, no_wrap=True)
    table.add_column(COLUMNS[-1], overflow="fold")
    for node, *rest in run_plan_rows(data):
        table.add_row(node.split(".")[2] if "." in node else node, *rest)
    return table


@click.command()
@click.argument("sql")
@click.option("--database", default=":memory:", show_default=True, help="A DuckDB file.")
@click.option("--rows", default=20, show_default=True, help="Rows to print.")
@settings_options
@clear_errors
def run(sql: str, database: str, rows: int, engine: str, model: str | None, answers: str | None) -> None:
    """Run a statement with AI calls and print its rows."""
    with connect(database, settings=settings_of(engine, model, answers)) as connection:
        result = connection.sql(sql)
        table = Table(*map(str, result.column_names))
        for row in result.slice(0, rows).to_pylist():
            table.add_row(*("" if value is None else str(value) for value in row.values()))
        console = plain_console()
        console.print(table)
        report = connection.report
        shown = min(rows, result.num_rows)
        console.print(
            f"{shown:,} of {result.num_rows:,} rows; {report.asked:,} asked, {report.recalled:,} recalled, "
            f"{report.tokens_fresh:,} tokens in {report.seconds_engine:.1f} s",
            highlight=False,
        )


@click.command()
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("target/quail_report.html"),
    show_default=True,
    help="Where the page goes.",
)
@click.option("--gold", help="A query of answers beside gold: columns gold (or label), answer and/or score, text.")
@click.option("--invocation", help="Id of a dbt run in the run log.  [default: the last one]")
@project_options
@click.option("--database", help="A DuckDB file to ask instead of the dbt project's.")
@click.option(
    "--run-log",
    type=click.Path(path_type=Path),
    default=Path("target/quail_run.jsonl"),
    show_default=True,
    help="Without a dbt project: the log of its run.",
)
@settings_options
@clear_errors
def report(
    html: Path,
    gold: str | None,
    invocation: str | None,
    project_dir: Path,
    profiles_dir: Path | None,
    target: str | None,
    database: str | None,
    run_log: Path,
    engine: str,
    model: str | None,
    answers: str | None,
) -> None:
    """Write a page on a run: its cost beside its accuracy. Nothing is asked.

    In a dbt project, what its ai_accuracy tests judge is in it. With --database only what --gold selects.
    """
    project = Project(project_dir, profiles_dir, target)
    if database is None and project.is_there:
        _refuse(_OF_SQL | {"run_log"}, "for --database; of a dbt project its profile says that")
        project.run_operation("quail_report", {"to": str(html.absolute()), "invocation": invocation, "gold": gold})
    else:
        lines = run_lines(run_log, invocation) if run_log.is_file() or not gold else []
        evaluations = []
        if gold:
            with connect(database_to_read(database or ":memory:"), settings=settings_of(engine, model, answers)) as connection:
                evaluations.append(connection.judge(gold, "gold"))
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(run_page(lines, evaluations), encoding="utf-8")
    click.echo(f"{html} is written")
