"""The demo project."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from quail_engine import demo as demo_project
from quail_engine.cli.options import clear_errors


@click.command()
@click.option("--model", envvar="DEMO_MODEL", help="qwen2.5-coder-0.5b (default), smollm2-135m or mock.")
@click.option("--directory", type=click.Path(path_type=Path), default=Path("quail_demo"), show_default=True)
@clear_errors
def demo(model: str | None, directory: Path) -> None:
    """Build the demo dbt project and show its answers beside gold."""
    sys.exit(demo_project.run(model or None, directory, Console()))
