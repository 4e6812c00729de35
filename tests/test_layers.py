"""Imports flow one way, and heavy libraries stay in their package: CONTRIBUTING.md's table, held by a walk over imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
VOCABULARY = {"errors", "settings", "calls", "roofline", "arrow"}

# Package of quail_engine → the packages of ours that it may import, besides itself. `top` is every module that lies directly in
# quail_engine and is no vocabulary: the session, the loop, the command line.
MAY_IMPORT: dict[str, set[str]] = {
    "vocabulary": set(),
    "sql": {"vocabulary"},
    "prompts": {"vocabulary"},
    "answers": {"vocabulary"},
    "decisions": {"vocabulary"},
    "plan": {"vocabulary", "sql"},
    "batching": {"vocabulary", "prompts"},
    "engine": {"vocabulary", "prompts", "batching"},
    "models": {"vocabulary", "prompts"},
    "lookups": {"vocabulary", "sql"},
    "quality": {"vocabulary", "prompts", "batching", "engine", "models"},
    "top": {
        "vocabulary",
        "sql",
        "prompts",
        "answers",
        "plan",
        "batching",
        "engine",
        "models",
        "lookups",
        "decisions",
        "quality",
    },
    "cli": {"top", "vocabulary", "answers", "models", "sql", "quality"},
}

# Library → where it may be imported; a prefix of a dotted module name.
_DUCKDB_AT_THE_TOP = ("survey", "execute", "statement_run", "resolve", "lookups", "session", "oracle", "demo", "wording")
FENCES: dict[str, tuple[str, ...]] = {
    "torch": ("quail_engine.engine.local",),
    "triton": ("quail_engine.engine.local",),
    "flash_attn": ("quail_engine.engine.local",),
    "sqlglot": ("quail_engine.sql", "quail_engine.plan"),
    "duckdb": ("quail_engine.answers", *(f"quail_engine.{name}" for name in _DUCKDB_AT_THE_TOP), "dbt.adapters.quail"),
    "tokenizers": ("quail_engine.prompts.tokenizer",),
    "gguf": ("quail_engine.models",),
    "huggingface_hub": ("quail_engine.models",),
    "safetensors": ("quail_engine.models", "quail_engine.engine.local"),
    "rich": ("quail_engine.cli", "quail_engine.progress", "quail_engine.demo"),
    "fsspec": ("quail_engine.answers.remote",),
    "click": ("quail_engine.cli",),
    "transformers": (),  # a reference in tests, never a dependency
    "dbt": ("dbt", "quail_engine.demo"),
    "dbt_common": ("dbt",),
}


def _modules() -> dict[str, Path]:
    paths = [*(REPOSITORY / "quail_engine").rglob("*.py"), *(REPOSITORY / "dbt").rglob("*.py")]
    named = {}
    for path in sorted(paths):
        parts = path.relative_to(REPOSITORY).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


MODULES = _modules()


@cache
def _imports(module: str) -> set[str]:
    """Dotted names of the modules that a module imports anywhere, in functions too."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively: write the whole name"
            assert node.module
            # `from package import name` may name a submodule.
            found |= {name if (name := f"{node.module}.{alias.name}") in MODULES else node.module for alias in node.names}
    return found


OURS = sorted(module for module in MODULES if module.startswith("quail_engine"))
ADAPTER = sorted(module for module in MODULES if module.startswith("dbt"))


def _package(module: str) -> str:
    parts = module.split(".")
    if len(parts) > 1 and parts[1] in VOCABULARY:
        return "vocabulary"
    return parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT else "top"


def _inside(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == prefix or module.startswith(prefix + ".") for prefix in prefixes)


@pytest.mark.parametrize("module", OURS)
def test_imports_flow_one_way(module: str) -> None:
    package = _package(module)
    allowed = MAY_IMPORT[package] | {package}
    for name in sorted(_imports(module)):
        if _inside(name, ("quail_engine",)):
            assert _package(name) in allowed, f"{module} ({package}) may not import {name} ({_package(name)})"


def test_every_package_is_in_the_table() -> None:
    packages = {path.parent.name for path in (REPOSITORY / "quail_engine").glob("*/__init__.py")}
    assert packages == set(MAY_IMPORT) - {"vocabulary", "top"}


def test_no_import_cycles() -> None:
    graph = {module: {name for name in _imports(module) if name in MODULES and name != module} for module in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' ← '.join(error.args[1])}")


@pytest.mark.parametrize("library", FENCES)
def test_heavy_libraries_stay_in_their_package(library: str) -> None:
    importers = [module for module in MODULES if any(_inside(name, (library,)) for name in _imports(module))]
    outside = [module for module in importers if not _inside(module, FENCES[library])]
    assert not outside, f"{library} may be imported only in {FENCES[library]}"


@pytest.mark.parametrize("module", ADAPTER)
def test_the_adapter_knows_only_the_public_api(module: str) -> None:
    deep = [name for name in _imports(module) if name.startswith("quail_engine.")]
    assert not deep, f"{module} must import these names from quail_engine itself"


def test_namespace_packages_of_dbt_stay_open() -> None:
    for folder in ("dbt", "dbt/adapters", "dbt/include"):
        assert not (REPOSITORY / folder / "__init__.py").exists(), f"{folder}/__init__.py would hide every other adapter"


def _fresh(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=REPOSITORY).stdout


def test_import_takes_no_heavy_library_with_it() -> None:
    heavy = {"torch", "triton", "transformers", "tokenizers", "safetensors", "gguf", "huggingface_hub", "dbt", "dbt_common"}
    loaded = _fresh("import sys; from quail_engine import connect; print(*sys.modules)").split()
    assert not heavy & {name.split(".")[0] for name in loaded}


def test_import_adds_less_than_half_a_second() -> None:
    # Processor time, because the tests share their machine with whatever else it does. That alone can make it slow: then what
    # we add is held against what the two libraries take.
    clock = "from time import process_time as t; a = t(); import duckdb, sqlglot; b = t(); {}; print(b - a, t() - b)"
    runs = []
    for _ in range(5):  # one run that nothing has disturbed tells
        libraries, ours = map(float, _fresh(clock.format("from quail_engine import connect")).split())
        if ours < max(0.5, 4 * libraries):
            return
        runs.append((libraries, ours))
    pytest.fail(f"the two libraries, and what we add, in seconds: {runs}")
