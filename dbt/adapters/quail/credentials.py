"""The profile: every key of dbt-duckdb, and one `quail:` block with the settings of `quail_engine`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from dbt.adapters.duckdb.credentials import DuckDBCredentials
from dbt.flags import get_flags
from dbt_common.exceptions import DbtRuntimeError

from quail_engine import Settings, SettingsError

_ANSWERS_FOLDER = ".quail/answers"


@dataclass
class QuailCredentials(DuckDBCredentials):
    """A target of profiles.yml.

    After construction `path` and the paths in `quail` are absolute: dbt reads the profile before it changes into the
    project's folder, and `dbt debug` never does. Raises DbtRuntimeError for an unknown or impossible setting.
    """

    quail: Any = None  # a mapping; dbt's own check of a narrower type would name neither the key nor the reason

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.remote:
            raise DbtRuntimeError(
                "type: quail cannot run with `remote:` (a Buena Vista server): AI calls are answered inside this process, "
                "in the DuckDB instance that dbt opens. Remove `remote:` from the target, or use type: duckdb for it."
            )
        if self.quail is not None and not isinstance(self.quail, Mapping):
            raise DbtRuntimeError(
                f"`quail:` in the target is a block of settings, not {self.quail!r}. Write, on a line of its own and indented: "
                "`model: qwen2.5-coder-0.5b`, or `engine: mock`."
            )
        project = _project_folder()
        self.path = _absolute_database(self.path, project)
        self.quail = _with_absolute_paths(self.quail or {}, project)
        self.engine_settings()

    @property
    def type(self) -> str:
        return "quail"

    def engine_settings(self) -> Settings:
        """The `quail:` block, validated. Raises DbtRuntimeError with the known keys or values listed."""
        try:
            return Settings.of(self.quail or {})
        except SettingsError as error:
            raise DbtRuntimeError(f"In the `quail:` block of the target: {error}") from error

    def _connection_keys(self) -> tuple[str, ...]:
        return (*super()._connection_keys(), "quail")


def _project_folder() -> Path:
    """The folder of dbt_project.yml, from dbt's flags; the working directory outside of a dbt command."""
    return Path(os.path.abspath(getattr(get_flags(), "PROJECT_DIR", None) or Path.cwd()))


def _absolute_database(path: str, project: Path) -> str:
    """`:memory:` and addresses (`md:…`, `s3://…`, `ducklake:…`) are not files of the project and stay as they are."""
    return path if path.startswith(":") or urlparse(path).scheme else str(project / path)


def _absolute(place: str, project: Path) -> str:
    """A folder in the project, in the home (`~`) or absolute; a URL stays as it is."""
    return place if "://" in place else str(project / Path(place).expanduser())


def _with_absolute_paths(quail: Mapping[str, Any], project: Path) -> dict[str, Any]:
    """The block with its paths absolute, and with the answer store named even where it is the default.

    A model may be a name of the registry, a hub id or a path: it is taken as a path only if that file or folder exists.
    """
    block = dict(quail)
    answers = block.get("answers")
    if answers is None or isinstance(answers, str):
        block["answers"] = _absolute(answers or _ANSWERS_FOLDER, project)
    elif isinstance(answers, Mapping):
        block["answers"] = {**answers, "path": _absolute(answers.get("path") or _ANSWERS_FOLDER, project)}
        shared = answers.get("shared")
        if isinstance(shared, (list, tuple)) and all(isinstance(place, str) for place in shared):
            block["answers"]["shared"] = [_absolute(place, project) for place in shared]
    models_path = block.get("models_path")
    if isinstance(models_path, str) and not urlparse(models_path).scheme:
        block["models_path"] = _absolute(models_path, project)
    model = block.get("model")
    if isinstance(model, str) and (project / model).exists():
        block["model"] = str(project / model)
    return block
