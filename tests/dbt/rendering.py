"""Macros rendered by dbt itself, on this adapter and on stand-ins for adapters that are not installed. Nothing connects."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from dbt.adapters.base.plugin import AdapterPlugin
from dbt.adapters.duckdb import DuckDBAdapter, DuckDBCredentials
from dbt.adapters.duckdb.connections import DuckDBConnectionManager
from dbt.adapters.factory import FACTORY
from dbt.cli.main import dbtRunner
from dbt.clients.jinja import get_rendered
from dbt.context.providers import generate_runtime_macro_context

REPOSITORY = Path(__file__).resolve().parents[2]
_TARGET = "shop: {{target: dev, outputs: {{dev: {{type: {}, path: dev.duckdb}}}}}}"


def stand_in(name: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """An adapter of that type, without macros of its own."""
    include = folder / "include"
    include.mkdir()
    (include / "dbt_project.yml").write_text(f"name: dbt_{name}\nconfig-version: 2\n")
    manager = type("Manager", (DuckDBConnectionManager,), {"TYPE": name})
    module = ModuleType(f"dbt.adapters.{name}")
    module.__path__ = []
    module.Plugin = AdapterPlugin(  # type: ignore[attr-defined]
        adapter=type("Adapter", (DuckDBAdapter,), {"ConnectionManager": manager}),
        credentials=type("Credentials", (DuckDBCredentials,), {"type": property(lambda self: name)}),
        include_path=str(include),
        project_name=f"dbt_{name}",
    )
    version = ModuleType(f"{module.__name__}.__version__")
    version.version = "0.0.0"  # type: ignore[attr-defined]
    for each in (module, version):
        patch.setitem(sys.modules, each.__name__, each)


def renderer(adapter: str, folder: Path, packages: str) -> Callable[[str], str]:
    """Renders a text as in a macro of a project on that adapter. The repository is installed in it as a package.

    `packages` is the text of its packages.yml.
    """
    (folder / "dbt_project.yml").write_text("name: shop\nprofile: shop\nflags: {send_anonymous_usage_stats: false}\n")
    (folder / "profiles.yml").write_text(_TARGET.format(adapter))
    (folder / "packages.yml").write_text(packages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DBT_LOG_PATH", str(folder / "logs"))
        patch.chdir(folder)
        for command in ("deps", "parse"):
            done = dbtRunner().invoke([command, "--quiet", "--profiles-dir", str(folder), "--project-dir", str(folder)])
            assert done.success, done.exception
    manifest = done.result
    some_macro = manifest.macros["macro.dbt_quail.ai_filter"]
    context = generate_runtime_macro_context(some_macro, FACTORY.adapters[adapter].config, manifest, "shop")
    return lambda text: get_rendered(text, context)


LOCAL_PACKAGE = f"packages: [{{local: {REPOSITORY}}}]\n"
