"""Whether an installation works, and which calls in a vendor's SQL will run."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from quail_engine.cli.options import clear_errors, count, settings_of, settings_options
from quail_engine.session import Session
from quail_engine.settings import DIALECTS
from quail_engine.sql.dialects import findings


@click.command()
@settings_options
@click.option("--dialect", type=click.Choice(DIALECTS[1:]), help="Say of each AI call in PATHS if it will run.")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@clear_errors
def doctor(engine: str, model: str | None, answers: str | None, dialect: str | None, paths: tuple[Path, ...]) -> None:
    """Say whether the model, its files and the answer store work.

    The files are verified; the model is loaded and answers one question.

    With --dialect: read the SQL files in PATHS, list their AI calls and say which will run as they are; ends with 1 if one will
    not. Needs no model.
    """
    if dialect or paths:
        return _check_files(dialect, paths)
    session = Session(settings_of(engine, model, answers))
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
    click.echo(f"{count(calls, 'AI call')} in {count(len(files), 'file')}, {refused or 'none'} will not run")
    if refused:
        sys.exit(1)
