"""The `quail` command: parse, call one public function, print."""

from __future__ import annotations

import click

from quail_engine.cli.answers import answers
from quail_engine.cli.demo import demo
from quail_engine.cli.doctor import doctor
from quail_engine.cli.models import models
from quail_engine.cli.statements import explain, report, run


@click.group()
@click.version_option(package_name="dbt-quail")
def main() -> None:
    """AI predicates in SQL, answered on this machine by an open-weight model that is only prefilled."""


for command in (demo, explain, run, report, models, answers, doctor):
    main.add_command(command)
