"""The answers that are kept."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click
from rich.table import Table

from quail_engine.answers import AnswerStore, CheckReport, Failure, StoreStats
from quail_engine.cli.options import clear_errors, count, plain_console
from quail_engine.settings import Settings


@click.group()
@click.option("--path", default=".quail/answers", show_default=True, help="Folder or URL of the answer store.")
@click.option("--mock", is_flag=True, help="The mock's answers instead of the models'.")
@click.pass_context
def answers(context: click.Context, path: str, mock: bool) -> None:
    """The answers that are kept."""
    settings = Settings.of({"answers": path}).answers
    context.obj = AnswerStore(settings, "mock" if mock else "local", lambda text: click.echo(text, err=True))


def _files(found: StoreStats | CheckReport) -> str:
    return f"{count(found.answers, 'answer')} in {count(found.segments, 'segment')} and {count(found.journals, 'journal')}"


@answers.command()
@click.pass_obj
@clear_errors
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
        plain_console().print(table)
    elif (Path(found.path) / "mock").is_dir():
        click.echo("The mock's answers are told with --mock: quail answers --mock stats")


@answers.command()
@click.option("--prompt", help="Only questions that contain this text.")
@click.option("--rows", default=20, show_default=True, help="Lines to print.")
@click.pass_obj
@clear_errors
def errors(store: AnswerStore, prompt: str | None, rows: int) -> None:
    """The inputs that failed or are too long, and why. Newest first."""
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
    plain_console().print(table)
    if len(groups) > rows:
        click.echo(f"{len(groups) - rows:,} more: --rows shows more of them.")


@answers.command()
@click.pass_obj
@clear_errors
def compact(store: AnswerStore) -> None:
    """Rewrite the segments: one answer a key, fewer files."""
    store.compact()
    click.echo("compacted")


@answers.command("check")
@click.pass_obj
@clear_errors
def check_answers(store: AnswerStore) -> None:
    """Read every file. A damaged segment is moved away and loses only itself."""
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
@clear_errors
def clear(store: AnswerStore, question: str | None, model: str | None, before: datetime | None, yes: bool) -> None:
    """Delete answers; without a filter, all of them."""
    if not yes:
        which = "these" if question or model or before else f"all {store.stats().answers:,}"
        click.confirm(f"Asking again costs what it cost the first time. Delete {which} answers?", abort=True)
    click.echo(f"{count(store.clear(question, model, before and before.astimezone()), 'answer')} deleted")


@answers.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--prompt", help="Only questions that contain this text.")
@click.option("--model", help="Only this model's answers.")
@click.option("--since", type=click.DateTime(), help="Only answers given since then.")
@click.pass_obj
@clear_errors
def export(store: AnswerStore, file: Path, prompt: str | None, model: str | None, since: datetime | None) -> None:
    """Write answers to a Parquet file."""
    click.echo(f"{count(store.export(file, prompt, model, since and since.astimezone()), 'answer')} in {file}")


@answers.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_obj
@clear_errors
def import_answers(store: AnswerStore, file: Path) -> None:
    """Add the answers of an exported file."""
    click.echo(f"{count(store.import_(file), 'answer')} of {file} in {store.place}")
