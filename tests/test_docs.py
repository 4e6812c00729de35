"""Documentation that can be checked is: links, the index, commands and targets, the table of layers, Python examples."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
import yaml
from test_layers import MAY_IMPORT, VOCABULARY

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
NAMES = [str(page.relative_to(REPOSITORY)) for page in PAGES]

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")


def _blocks(page: Path, language: str) -> list[str]:
    return [body for word, body in _FENCE.findall(page.read_text(encoding="utf-8")) if word == language]


def _commands(page: Path, program: str) -> set[str]:
    """The first word after `program` wherever it stands in code: a line of a block, or a span in the text."""
    text = page.read_text(encoding="utf-8")
    lines = [line.strip().removeprefix("$ ") for _, body in _FENCE.findall(text) for line in body.splitlines()]
    spans = _CODE.findall(_FENCE.sub("", text))
    return {words[1] for line in (*lines, *spans) if len(words := line.split()) > 1 and words[0] == program}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [target.split("#")[0] for target in _LINK.findall(text) if "://" not in target]
    missing = [target for target in targets if target and not (page.parent / target).exists()]
    assert not missing


def test_the_index_names_every_page() -> None:
    docs = REPOSITORY / "docs"
    for index in (docs / "README.md", docs / "decisions" / "README.md"):
        linked = {(index.parent / target).resolve() for target in _LINK.findall(index.read_text(encoding="utf-8"))}
        absent = [page.name for page in index.parent.glob("*.md") if page != index and page not in linked]
        assert not absent, f"{index} does not name {absent}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_make_targets_exist(page: Path) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    assert _commands(page, "make") <= targets


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_quail_commands_exist(page: Path) -> None:
    commands = importlib.import_module("quail_engine.cli").main.commands
    assert _commands(page, "quail") <= set(commands)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_yaml_is_yaml(page: Path) -> None:
    for block in _blocks(page, "yaml"):
        assert yaml.safe_load(block)


def test_the_workflow_runs_commands_that_exist() -> None:
    page = REPOSITORY / "docs" / "ci.md"
    (workflow,) = map(yaml.safe_load, _blocks(page, "yaml"))
    lines = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    known = {
        "quail": importlib.import_module("quail_engine.cli").main.commands,
        "dbt": importlib.import_module("dbt.cli.main").cli.commands,
        "pip": {"install": None},
    }
    assert {line.split()[0] for line in lines} == set(known)
    for line in lines:
        program, command = line.split()[:2]
        assert command in known[program], line


def test_contributing_has_the_table_that_the_code_is_held_to() -> None:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]*) \|$", text, re.MULTILINE)
    table = {name: set(allowed.split(", ")) for name, allowed in rows}
    assert table == {name: allowed for name, allowed in MAY_IMPORT.items() if name not in ("vocabulary", "top")}
    assert "| " + ", ".join(f"`{name}`" for name in sorted(VOCABULARY)) + " |" in text


EXAMPLES = [page for page in PAGES if _blocks(page, "python")]


@pytest.mark.parametrize("page", EXAMPLES, ids=[str(page.relative_to(REPOSITORY)) for page in EXAMPLES])
def test_python_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page's examples run in order, in one namespace and an empty folder; they use the mock engine."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "example"}
    for number, block in enumerate(_blocks(page, "python"), 1):
        exec(compile(block, f"{page.name}, example {number}", "exec"), namespace)
