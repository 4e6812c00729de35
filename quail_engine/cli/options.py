"""What commands share: options, errors as a paragraph, tables of what users wrote."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from quail_engine.errors import QuailError
from quail_engine.session import DatabaseError
from quail_engine.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])


_FOLDER = click.Path(file_okay=False, path_type=Path)
_SETTINGS = (
    click.option("--engine", type=click.Choice(["local", "mock"]), default="local", show_default=True),
    click.option("--model", help="A name of `quail models list`, a converted folder or a GGUF file."),
    click.option("--answers", help="Folder of the answer store.  [default: .quail/answers]"),
)
_PROJECT = (
    click.option("--project-dir", type=_FOLDER, default=Path("."), show_default=True, help="Folder of the dbt project."),
    click.option("--profiles-dir", type=_FOLDER, help="Folder of profiles.yml."),
    click.option("--target", help="A target of the profile."),
)


def settings_options(command: Command) -> Command:
    """The options that say which engine answers and where answers are kept."""
    return _with(_SETTINGS, command)


def project_options(command: Command) -> Command:
    """The options that name a dbt project and its target."""
    return _with(_PROJECT, command)


def _with(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    """Decorators apply from the last to the first, and --help shows the one applied last first."""
    for option in reversed(options):
        command = option(command)
    return command


def database_to_read(database: str) -> str:
    """The database of a command that only reads it. DuckDB would make an empty file of a name that was mistyped."""
    if ":" not in database and not Path(database).is_file():
        raise click.UsageError(f"There is no database file {database}.")
    return database


def settings_of(engine: str, model: str | None, answers: str | None) -> Settings:
    return Settings.of({k: v for k, v in {"engine": engine, "model": model, "answers": answers}.items() if v is not None})


def plain_console() -> Console:
    """For tables of what users wrote: a question may hold `[a, b]` or `:x:`, which is no markup."""
    return Console(markup=False, emoji=False)


def clear_errors(command: Command) -> Command:
    """A user's error is a paragraph on standard error and exit code 1, never a traceback."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (QuailError, DatabaseError) as error:
            Console(stderr=True).print(str(error), markup=False, highlight=False, soft_wrap=True)
            sys.exit(1)

    return run  # type: ignore[return-value]


def count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
