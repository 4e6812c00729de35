"""What commands share: options, errors as a paragraph, tables of what users wrote."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from quail_engine.errors import QuailError
from quail_engine.session import DatabaseError
from quail_engine.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])


def settings_options(command: Command) -> Command:
    """The options that say which engine answers and where answers are kept."""
    for option in (
        click.option("--engine", type=click.Choice(["local", "mock"]), default="local", show_default=True),
        click.option("--model", help="A name of `quail models list`, a converted folder or a GGUF file."),
        click.option("--answers", help="Folder of the answer store.  [default: .quail/answers]"),
    ):
        command = option(command)
    return command


def settings_of(engine: str, model: str | None, answers: str | None) -> Settings:
    return Settings.of({k: v for k, v in {"engine": engine, "model": model, "answers": answers}.items() if v is not None})


def project_options(command: Command) -> Command:
    """The options that name a dbt project and its target."""
    folder = click.Path(file_okay=False, path_type=Path)
    for option in (
        click.option("--target", help="A target of the profile."),
        click.option("--profiles-dir", type=folder, help="Folder of profiles.yml."),
        click.option("--project-dir", type=folder, default=Path("."), show_default=True, help="Folder of the dbt project."),
    ):
        command = option(command)
    return command


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
