"""dbt-duckdb's own functional tests, run with `type: duckdb` and with `type: quail`, compared by name.

    python tests/dbt/compare_suites.py [--suite FOLDER] [--profile file|memory] [--workers N] [pytest's arguments …]

The suite is the one of the installed dbt-duckdb: from its source distribution, which pip fetches, or from FOLDER, where that
is unpacked. It is copied, and in the copy every profile's type is replaced. Tests that need the network, a server or a package
that is not here fail in both runs and do not count. Ends with 1 if a test passes with duckdb and not with quail.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.markup import escape
from rich.table import Table

Outcomes = dict[str, str]  # of each test, by its name

TYPES = ("duckdb", "quail")
# MotherDuck's tests talk to its servers.
SUITE = ("tests/functional", "--ignore=tests/functional/plugins/motherduck", "-p", "no:cacheprovider", "-q", "--tb=short")


def fetch(folder: Path) -> Path:
    """The unpacked source distribution of the installed dbt-duckdb, in `folder`."""
    name = f"dbt-duckdb=={version('dbt-duckdb')}"
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--dest",
        str(folder),
        name,
    ]
    subprocess.run(command, check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    return unpacked


def copy(suite: Path, folder: Path, adapter: str) -> None:
    """The tests alone: beside them lies dbt-duckdb's source, which would be imported in place of the installed one."""
    shutil.copytree(suite / "tests", folder / "tests")
    shutil.copy(suite / "pytest.ini", folder)
    replaced = 0
    for file in (folder / "tests").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        replaced += text.count('"type": "duckdb"')
        file.write_text(text.replace('"type": "duckdb"', f'"type": "{adapter}"'), encoding="utf-8")
    assert replaced, "no profile found in the suite"


def run(folder: Path, arguments: Sequence[str]) -> Outcomes:
    """Runs the copy in `folder`. Its output is kept in output.txt there."""
    results = folder / "results.xml"
    command = [sys.executable, "-m", "pytest", *SUITE, f"--junit-xml={results}", *arguments]
    with (folder / "output.txt").open("w") as output:
        subprocess.run(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, check=False)
    if not results.exists():
        sys.exit((folder / "output.txt").read_text())
    return {
        f"{case.get('classname')}::{case.get('name')}": outcome(case) for case in ElementTree.parse(results).iter("testcase")
    }


def outcome(case: ElementTree.Element) -> str:
    kinds = [child.tag for child in case]
    return next((kind for kind in ("error", "failure", "skipped") if kind in kinds), "passed")


def report(outcomes: dict[str, Outcomes], console: Console) -> list[str]:
    """Prints counts, and every test that does not pass in both; returns those that pass with duckdb alone."""
    counts = Table("type", "passed", "failure", "error", "skipped")
    for adapter, by_name in outcomes.items():
        number = Counter(by_name.values())
        counts.add_row(adapter, *(str(number[kind]) for kind in ("passed", "failure", "error", "skipped")))
    console.print(counts)
    duckdb, quail = outcomes["duckdb"], outcomes["quail"]
    others = Table("test", "duckdb", "quail")
    for name in sorted(duckdb | quail):
        pair = duckdb.get(name, "absent"), quail.get(name, "absent")
        if pair not in (("passed", "passed"), ("skipped", "skipped")):
            others.add_row(escape(name), *pair)
    console.print(others)
    return sorted(name for name in duckdb if duckdb[name] == "passed" and quail.get(name) != "passed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=Path, help="unpacked source distribution of dbt-duckdb")
    parser.add_argument("--profile", choices=("memory", "file"), default="file")
    parser.add_argument("--workers", type=int, default=2)
    options, arguments = parser.parse_known_args()
    arguments += ["--profile", options.profile, "-n", str(options.workers), "--dist", "loadfile"]
    with tempfile.TemporaryDirectory(prefix="compare-suites-") as name:
        folder = Path(name)
        suite = options.suite or fetch(folder)
        outcomes = {}
        for adapter in TYPES:
            copy(suite, folder / adapter, adapter)
            outcomes[adapter] = run(folder / adapter, arguments)
        lost = report(outcomes, Console(width=160))
    if lost:
        sys.exit("pass with duckdb and not with quail:\n" + "\n".join(lost))


if __name__ == "__main__":
    main()
