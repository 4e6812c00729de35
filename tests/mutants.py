"""Mutants: faults put into a copy of the package, one at a time; the fast SQL tests must catch each of them.

    python tests/mutants.py [name …]

Each fault replaces text that must occur exactly once: a replacement that no longer applies fails loudly, so that this list
follows the code. Ends with 1 if a mutant survives, or if the package without a fault does not pass.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
DIALECTS = ("tests/dialects",)
SUITE = ("tests/test_requests.py", "tests/test_limits.py", "tests/test_existence.py", "tests/test_plan.py", "tests/exactness")


@dataclass(frozen=True)
class Mutant:
    name: str
    edits: tuple[tuple[str, str, str], ...]  # file of the package, text that stands there once, what replaces it
    suite: tuple[str, ...] = SUITE  # the tests that must catch it


_FILL = "taken = values.take(codes)\n    return taken.fill_null(False) if taken.type == pa.bool_() else taken"

MUTANTS = (
    Mutant("NULL as FALSE", (("lookups/functions.py", "return values.take(codes)", _FILL),)),
    Mutant(
        "OR as AND in the guard",
        (
            (
                "sql/guards.py",
                'IS NOT TRUE") for s in _siblings(child, around, exp.Or)',
                'IS TRUE") for s in _siblings(child, around, exp.Or)',
            ),
        ),
    ),
    Mutant("dropped guard", (("sql/guards.py", 'return " AND ".join(dict.fromkeys(conditions))', 'return ""'),)),
    Mutant("dropped dependency", (("sql/query.py", "depends_of(node, place, found.chosen)", "()"),)),
    Mutant(
        "dependency that a key replaces",
        (("sql/depends.py", "(*depends, PIN) if moves and may_be_pinned(call, place) else tuple(depends)", "tuple(depends)"),),
    ),
    Mutant("several levels in one round", (("resolve.py", "if higher:", "if False:"),)),
    Mutant("level ignored", (("lookups/statement.py", "self.noting = self.level <= level and asks", "self.noting = asks"),)),
    Mutant(
        "dropped deduplication",
        (
            ("lookups/statement.py", "self.inquiries.setdefault(about, ", "self.inquiries.setdefault((about, i), "),
            ("answering.py", "Repeats() if may_repeat(inquiries) else None", "None"),
        ),
    ),
    Mutant(
        "swapped arguments",
        (("lookups/chunks.py", "return codes, picked", "return codes, picked[::-1]"),),
    ),
    Mutant("wrong outer side", (("sql/pairs.py", 'not in ("", "LEFT")', 'not in ("", "LEFT", "RIGHT", "FULL")'),)),
    Mutant("LIMIT ignored", (("sql/query.py", "find_limit(tree, nodes, source)", "None"),)),
    Mutant(
        "threshold above, not from",
        (
            (
                "lookups/values.py",
                "probability(float(_margin(middle))) >= threshold",
                "probability(float(_margin(middle))) > threshold",
            ),
        ),
    ),
    Mutant(
        "stale key",
        (("answers/keys.py", "[[label.text, label.description] for label in question.labels]", "len(question.labels)"),),
    ),
    Mutant(
        "label in quotes",
        (
            (
                "sql/dialects/variant.py",
                "return exp.JSONExtractScalar(this=node.this.copy(), expression=node.expression.copy())",
                "return exp.cast(node.copy(), 'text')",
            ),
        ),
        DIALECTS,
    ),
    Mutant(
        "details dropped",
        (("sql/dialects/snowflake.py", "return _with_details(made, made) if details else made", "return made"),),
        DIALECTS,
    ),
    Mutant(
        "a text in mode single",
        (("sql/dialects/bigquery.py", 'if mode == "single" else made', "if False else made"),),
        DIALECTS,
    ),
    Mutant("offsets from one", (("sql/dialects/bigquery.py", 'exp.column("n") - 1', 'exp.column("n") - 0'),), DIALECTS),
    Mutant("braces as places", (("sql/dialects/prompts.py", "piece.translate(_ESCAPES)", "piece"),), DIALECTS),
    Mutant("inner FLATTEN", (("sql/dialects/variant.py", 'join.set("side", "LEFT")', "pass"),), DIALECTS),
    Mutant(
        "errors in the translated text",
        (("sql/dialects/transpile.py", "if not inside:", "if True:"),),
        DIALECTS,
    ),
    Mutant("tag per site", (("lookups/statement.py", "same = (id(inquiry), ", "same = (call.start, id(inquiry), "),)),
)


def main(names: Sequence[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    unmatched = [problem for mutant in chosen for problem in problems(mutant)]
    if unmatched or not chosen:
        _say("\n".join(unmatched) or f"no such mutant; known: {', '.join(m.name for m in MUTANTS)}")
        return 1
    if caught := _run(Mutant("none", (), tuple(dict.fromkeys(test for mutant in chosen for test in mutant.suite)))):
        _say(f"the package passes no more, without any fault: {caught}")
        return 1
    survived = []
    for mutant in chosen:
        begun = time.perf_counter()
        caught = _run(mutant)
        _say(f"{mutant.name:28}{'caught by ' + caught if caught else 'SURVIVED'}  ({time.perf_counter() - begun:.0f} s)")
        survived += [] if caught else [mutant.name]
    _say(f"{len(chosen) - len(survived)} of {len(chosen)} caught" + (f"; survived: {', '.join(survived)}" if survived else ""))
    return 1 if survived else 0


def problems(mutant: Mutant) -> list[str]:
    found = []
    for file, old, _ in mutant.edits:
        count = (REPOSITORY / "quail_engine" / file).read_text(encoding="utf-8").count(old)
        if count != 1:
            found.append(f"{mutant.name}: the text to replace stands {count} times in {file}, not once: {old!r}")
    return found


def _run(mutant: Mutant) -> str:
    """The first test that fails on a copy with the fault; empty when none does."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        shutil.copytree(REPOSITORY / "quail_engine", copy / "quail_engine", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(REPOSITORY / "tests", copy / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(REPOSITORY / "pyproject.toml", copy)
        for file, old, new in mutant.edits:
            path = copy / "quail_engine" / file
            path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "--no-header",
            "--tb=no",
            "-p",
            "no:cacheprovider",
            *mutant.suite,
        ]
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("QUAIL_DIFFERENTIAL", None)
        # A fault may also make rounds go on for ever: that counts as caught, as a time-out of the tests would.
        try:
            done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            return "its time limit"
        if done.returncode == 0:
            return ""
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if done.returncode != 1 or not failed:
            raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return failed[0].split(" - ")[0].split(" ", 1)[1]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
