"""dbt commands of this package, run in a process of their own, as a user would run them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quail_engine.errors import QuailError

# Not the `dbt` script, which need not be on the path, nor the one of this interpreter.
DBT = (sys.executable, "-c", "from dbt.cli.main import cli; cli()", "--no-use-colors")


@dataclass(frozen=True)
class Project:
    """Where a dbt project is, and which of its targets is meant; what is None is dbt's to find."""

    directory: Path
    profiles: Path | None = None
    target: str | None = None

    @property
    def is_there(self) -> bool:
        return (self.directory / "dbt_project.yml").is_file()

    def run_operation(self, macro: str, arguments: dict[str, Any]) -> None:
        """Runs a macro in the project. Raises QuailError with what dbt says where it fails."""
        options = ["--project-dir", str(self.directory)]
        options += ["--profiles-dir", str(self.profiles)] if self.profiles else []
        options += ["--target", self.target] if self.target else []
        given = json.dumps({name: value for name, value in arguments.items() if value is not None})
        command = [*DBT, "--quiet", "run-operation", macro, "--args", given, *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8")
        if done.returncode:
            raise QuailError(f"dbt run-operation {macro} failed in {self.directory}:\n{done.stdout.strip()}")
