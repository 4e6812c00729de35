"""What the `quail` command prints of users' own texts."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

import quail_engine
from quail_engine.cli import main


def test_brackets_of_a_question_and_of_a_row_are_printed(tmp_path: Path) -> None:
    with quail_engine.connect(engine="mock", answers=str(tmp_path)) as con:
        con.sql("select AI_CLASSIFY('a parcel', ['money', 'parcel'])")
    printed = CliRunner().invoke(main, ["answers", "--path", str(tmp_path), "--mock", "stats"]).output
    assert "[money, parcel]" in " ".join(printed.replace("│", " ").split())
    query = "select '[red] :x:' as b, AI_FILTER('Does it say ''x''?', 'x') as a"
    assert "[red] :x:" in CliRunner().invoke(main, ["run", query, "--engine", "mock"]).output
