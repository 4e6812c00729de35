# ruff: noqa: E501 - SQL is easier to read on one line
"""`quail report`: the page of a run shows what its nodes cost and what SQL says of its answers, and asks nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from dbt.tests.util import run_dbt, run_dbt_and_capture
from pages import Page

from quail_engine.cli import main
from quail_engine.quality.accuracy import wilson

HOSTILE = "<script>alert(1)</script> & </td>"
TICKETS = [
    (
        i,
        f"{'urgent' if i % 3 == 0 else 'calm'} {'billing' if i % 2 else 'praise'} {i}" + (HOSTILE if i == 5 else ""),
        i % 4 == 0,
    )
    for i in range(40)
]
MODELS = {
    "tickets.sql": "select * from (values "
    + ", ".join(f"({i}, '{text}', {str(urgent).lower()})" for i, text, urgent in TICKETS)
    + ") t(id, body, really_urgent)",
    "gold.sql": "select id, really_urgent, case when id % 5 = 0 then 'praise' when id < 30 then 'billing' end as topic from {{ ref('tickets') }}",
    "answers.sql": """select id, body, AI_FILTER('Does it say ''urgent''?', body) as urgent,
        AI_SCORE('Does it say ''urgent''?', body) as p, AI_CLASSIFY(body, ['billing', 'praise']) as topic from {{ ref('tickets') }}""",
    "schema.yml": yaml.safe_dump(
        {
            "models": [
                {
                    "name": "answers",
                    "columns": [
                        {
                            "name": "urgent",
                            "data_tests": [
                                {
                                    "ai_accuracy": {
                                        "arguments": {
                                            "gold": "ref('gold')",
                                            "key": "id",
                                            "at_least": 0.1,
                                            "gold_column": "really_urgent",
                                            "text": "body",
                                            "score": "p",
                                        }
                                    }
                                }
                            ],
                        },
                        {
                            "name": "topic",
                            "data_tests": [
                                {"ai_accuracy": {"arguments": {"gold": "ref('gold')", "key": "id", "at_least": 0.1}}}
                            ],
                        },
                    ],
                }
            ]
        }
    ),
}


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    return MODELS


@pytest.fixture(scope="class")
def project_config_update() -> dict[str, Any]:
    return {"models": {"+materialized": "table"}}


@pytest.fixture(scope="class")
def page(project: Any) -> Page:
    run_dbt(["build"])
    run_dbt(["run-operation", "quail_report"])
    return Page((Path(project.project_root) / "target" / "quail_report.html").read_text())


def table(page: Page, first: str) -> list[list[str]]:
    return next(table for table in page.tables if table[0][0] == first)


class TestReport:
    def test_costs_are_those_of_the_run_log(self, page: Page, every_line: Callable[[], list[dict[str, Any]]]) -> None:
        columns, *rows = table(page, "node")
        lines = every_line()
        by_node = {row[0]: dict(zip(columns, row, strict=True)) for row in rows}
        shown = by_node["model.test.answers"]
        own = [line for line in lines if line["node"] == "model.test.answers"]
        for column, name in (
            ("asked", "asked"),
            ("recalled", "recalled"),
            ("tokens fresh", "tokens_fresh"),
            ("reused", "tokens_reused"),
        ):
            assert shown[column] == f"{sum(line[name] for line in own):,}"
            assert by_node["all"][column] == f"{sum(line[name] for line in lines):,}"
        assert shown["asked"] == "80"

    def test_accuracy_is_what_sql_says(self, project: Any, page: Page) -> None:
        columns, *rows = table(page, "question")
        by_name = {row[0]: dict(zip(columns, row, strict=True)) for row in rows}
        for name, answer, gold in (("urgent", "urgent", "really_urgent"), ("topic", "a.topic", "g.topic")):
            ((n, right),) = project.run_sql(
                f"select count(*), count(*) filter (where {answer} = {gold}) from {{schema}}.answers a "
                f"join {{schema}}.gold g using (id) where {gold} is not null",
                fetch="all",
            )
            low, high = wilson(right, n)
            shown = by_name[f"answers.{name}"]
            assert (shown["rows"], shown["right"]) == (str(n), str(right))
            assert (shown["accuracy"], shown["95 %"]) == (f"{right / n:.3f}", f"{low:.3f} to {high:.3f}")
        assert by_name["answers.topic"]["calibration error"] == "–"
        ((error,),) = project.run_sql(
            "with rows as (select urgent = really_urgent as is_right, case when urgent then p else 1 - p end as sure "
            "from {schema}.answers a join {schema}.gold g using (id)), "
            "bins as (select count(*) as n, avg(is_right::int) as share, avg(sure) as sure from rows group by least(floor(sure * 10), 9)) "
            "select sum(n * abs(share - sure)) / sum(n) from bins",
            fetch="all",
        )
        assert by_name["answers.urgent"]["calibration error"] == f"{error:.3f}"

    def test_confusion_is_what_sql_says(self, project: Any, page: Page) -> None:
        urgent, topic = (found for found in page.tables if found[0][0] == "")
        for found, answer, gold in ((urgent, "urgent", "really_urgent"), (topic, "a.topic", "g.topic")):
            counted = project.run_sql(
                f"select cast({gold} as varchar), cast({answer} as varchar), count(*) from {{schema}}.answers a "
                f"join {{schema}}.gold g using (id) where {gold} is not null group by all",
                fetch="all",
            )
            columns, *rows = found
            shown = {
                (row[0], column): int(n) for row in rows for column, n in zip(columns[1:], row[1:], strict=True) if n != "0"
            }
            assert shown == {(gold, answer): n for gold, answer, n in counted}

    def test_mistakes_are_the_most_confident_and_text_is_text(self, project: Any, page: Page) -> None:
        mistakes = table(page, "text")
        confidences = [float(row[3]) for row in mistakes[1:]]
        assert confidences == sorted(confidences, reverse=True)
        wrong = project.run_sql(
            "select body from {schema}.answers join {schema}.gold using (id) where urgent != really_urgent", fetch="all"
        )
        assert {row[0] for row in mistakes[1:]} <= {body for (body,) in wrong}
        assert len(mistakes) == 1 + min(20, len(wrong))
        assert len(page.pictures) == 1

    def test_nothing_is_asked(self, project: Any, page: Page, every_line: Callable[[], list[dict[str, Any]]]) -> None:
        lines = every_line()
        gold = "select AI_FILTER('Does it say ''urgent''?', body) as answer, really_urgent as gold from {schema}.tickets"
        schema = project.test_schema
        run_dbt(["run-operation", "quail_report", "--args", str({"gold": gold.format(schema=schema), "to": "target/two.html"})])
        (shown,) = [row for row in table(Page(Path("target/two.html").read_text()), "question") if row[0] == "gold"]
        assert shown[1:3] == table(page, "question")[1][1:3]
        new = gold.replace("urgent''", "something new''").format(schema=schema)
        _, log = run_dbt_and_capture(["run-operation", "quail_report", "--args", str({"gold": new})], expect_pass=False)
        assert "a report asks nothing" in log
        assert "max_requests" not in log  # to raise it would not help
        assert every_line() == lines

    def test_from_the_command_line(self, project: Any, page: Page, tmp_path: Path) -> None:
        log, html = Path(project.project_root) / "target" / "quail_run.jsonl", tmp_path / "report.html"
        project.run_sql("checkpoint")
        shutil.copy(project.adapter.config.credentials.path, tmp_path / "copy.duckdb")
        gold = f"select p as score, really_urgent as label from {project.test_schema}.answers join {project.test_schema}.gold using (id)"
        options = ["--engine", "mock", "--run-log", str(log), "--database", str(tmp_path / "copy.duckdb"), "--html", str(html)]
        done = CliRunner().invoke(main, ["report", *options, "--gold", gold])
        assert done.exit_code == 0, done.output
        found = Page(html.read_text())
        assert table(found, "question")[1][1:] == table(page, "question")[1][1:]
        assert table(found, "node")[0] == table(page, "node")[0]
        done = CliRunner().invoke(main, ["report", *options, "--gold", "select 1 as number"])
        assert done.exit_code == 1
        done = CliRunner().invoke(main, ["report", *options, "--invocation", "nobody"])
        assert done.exit_code == 1
