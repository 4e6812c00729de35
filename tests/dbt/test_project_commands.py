"""`quail explain --select` and `quail report` in a project, as a user types them: dbt runs in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import yaml
from click.testing import CliRunner
from pages import Page

from quail_engine.cli import main

_ACCURACY = {"ai_accuracy": {"arguments": {"gold": "ref('gold')", "key": "id", "at_least": 0.5, "gold_column": "truth"}}}
PROJECT = {
    "dbt_project.yml": yaml.safe_dump(
        {"name": "shop", "profile": "shop", "version": "1.0", "models": {"+materialized": "table"}}
    ),
    "profiles.yml": yaml.safe_dump(
        {"shop": {"target": "dev", "outputs": {"dev": {"type": "quail", "path": "shop.duckdb", "quail": {"engine": "mock"}}}}}
    ),
    "models/gold.sql": "select i as id, 'text ' || i as body, i < 3 as truth from range(6) t(i)",
    "models/judged.sql": "select id, AI_FILTER('Does it say ''text 1''?', body) as answer from {{ ref('gold') }}",
    "models/schema.yml": yaml.safe_dump(
        {"models": [{"name": "judged", "columns": [{"name": "answer", "data_tests": [_ACCURACY]}]}]}
    ),
}


def quail(*arguments: str) -> str:
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == 0, done.output
    return done.output


def test_explain_and_report_in_a_project(tmp_path: Path) -> None:
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    where = ["--project-dir", str(tmp_path), "--profiles-dir", str(tmp_path)]
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute("create table gold as select 1 as id, 'text 1' as body")

    shown = quail("explain", "--select", "judged", *where, "--html", str(tmp_path / "plan.html"))
    assert [line.split()[0] for line in shown.splitlines() if " table " in line] == ["judged"]
    assert len(Page((tmp_path / "plan.html").read_text()).pictures) == 1

    log = tmp_path / "target" / "quail_run.jsonl"
    log.write_text(
        json.dumps(
            {"invocation_id": "one", "timestamp": "2026-01-01T00:00:00", "node": "model.shop.judged", "model": "m", "asked": 1}
        )
        + "\n"
    )
    quail(
        "report", *where, "--html", str(tmp_path / "report.html"), "--gold", "select true as answer, id = 1 as gold from gold"
    )
    page = Page((tmp_path / "report.html").read_text())
    assert [row[:3] for row in page.tables[1][1:]] == [["gold", "1", "1"]]


def test_where_there_is_no_project(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["explain", "--project-dir", str(tmp_path)])
    assert done.exit_code == 2
    assert "dbt_project.yml" in done.output
