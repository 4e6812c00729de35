# ruff: noqa: E501 - SQL is easier to read on one line
"""A whole dbt run before it runs: what is told of a node is what it then asks, and telling asks nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file
from pages import Page
from tickets import TICKETS, says

MODELS = {
    "urgent.sql": f"select id, body, {says('urgent')} as urgent from {{{{ ref('tickets') }}}}",
    # The same question about the same texts: known once `urgent` has run.
    "again.sql": f"select id from {{{{ ref('urgent') }}}} where {says('urgent')} and {says('down')}",
    "plain.sql": "select count(*) as n from {{ ref('tickets') }}",
    "inlined.sql": "{{ config(materialized='ephemeral') }} select id, body, "
    + says("refund")
    + " as refund from {{ ref('tickets') }}",
    "refunds.sql": "select * from {{ ref('inlined') }} where refund",
    "vendor.sql": "{{ config(quail_sql_dialect='snowflake') }} select AI_FILTER(PROMPT('Is {0} rude?', body)) as rude from {{ ref('tickets') }}",
    "broken.sql": "select AI_FILTER(PROMPT('Is it {0} or {1}?', body)) as a from {{ ref('tickets') }}",
    "schema.yml": "models: [{name: urgent, data_tests: [{ai_assert: {arguments: {question: 'Is it polite?', columns: [body]}}}]}]",
}
Forecast = Callable[..., dict[str, Any]]


@pytest.fixture(scope="class")
def seeds() -> dict[str, str]:
    return {"tickets.csv": TICKETS}


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    return MODELS


@pytest.fixture(scope="class")
def project_config_update() -> dict[str, Any]:
    return {"models": {"+materialized": "table"}}


@pytest.fixture
def forecast(project: Any) -> Forecast:
    """Runs the operation and gives its JSON, nodes by name."""

    def told(**arguments: str) -> dict[str, Any]:
        run_dbt(["run-operation", "quail_explain", "--args", json.dumps({**arguments, "json": "target/plan.json"})])
        data = json.loads(Path("target/plan.json").read_text())
        return {**data, "by_name": {node["node"].split(".")[2]: node for node in data["nodes"]}}

    return told


def figure(node: dict[str, Any], name: str) -> Any:
    return node["estimate"][name]["value"]


class TestBeforeARun:
    def test_told_and_then_asked(
        self, project: Any, forecast: Forecast, every_line: Callable[[], list[dict[str, Any]]]
    ) -> None:
        run_dbt(["seed"])
        told = forecast(exclude="broken")
        nodes = told["by_name"]
        assert "plain" not in nodes
        assert "inlined" not in nodes
        assert {
            name: (node["rows_from"], node["kind"]) for name, node in nodes.items() if name in ("urgent", "again", "refunds")
        } == {
            "urgent": ("now", "table"),
            "again": ("unknown", "table"),
            "refunds": ("now", "table"),
        }
        assert "urgent" in nodes["again"]["notes"][0]
        assert nodes["again"]["estimate"] is None
        assert set(told["unknown"]) == {node["node"] for node in told["nodes"] if node["estimate"] is None}
        assert every_line() == []

        run_dbt(["build", "--exclude", "broken"], expect_pass=False)
        asked = {line["node"].split(".")[2]: line["asked"] for line in every_line()}
        for name in ("urgent", "refunds", "vendor"):
            assert figure(nodes[name], "requests") == asked[name] == 4
        counted = [node for node in told["nodes"] if node["estimate"]]
        assert told["total"]["requests"]["value"] == sum(figure(node, "requests") for node in counted)

    def test_the_last_runs_rows_and_answers(self, project: Any, forecast: Forecast) -> None:
        run_dbt(["run", "--select", "again"])  # the build had skipped it, because a test of `urgent` fails
        told = forecast(select="urgent+")
        nodes = told["by_name"]
        assert {node["node"].split(".")[0] for node in told["nodes"]} == {"model", "test"}
        assert nodes["again"]["rows_from"] == "the last run"
        assert nodes["again"]["before"] == ["model.test.urgent"]
        for name in ("urgent", "again"):
            assert figure(nodes[name], "requests") == 0
        assert figure(nodes["urgent"], "recalled") == 4
        assert told["total"]["requests"]["value"] == 0
        assert told["unknown"] == []

    def test_what_a_node_asks_is_known_to_the_next(self, project: Any, forecast: Forecast) -> None:
        write_file(MODELS["urgent.sql"].replace("''urgent''", "''new''"), project.project_root, "models", "urgent.sql")
        write_file(MODELS["again.sql"].replace("''urgent''", "''new''"), project.project_root, "models", "again.sql")
        nodes = forecast(select="urgent again")["by_name"]
        assert figure(nodes["urgent"], "requests") == 4
        first = nodes["again"]["plans"][0]["steps"][0]["calls"][0]["estimate"]
        assert (first["requests"]["value"], first["recalled"]["value"]) == (0, 4)

    def test_a_node_that_cannot_be_planned_says_why(self, project: Any, forecast: Forecast) -> None:
        (node,) = forecast(select="broken")["nodes"]
        assert "{1}" in node["notes"][0]
        assert node["rows_from"] == "unknown"

    def test_the_log_and_the_page(self, project: Any) -> None:
        _, log = run_dbt_and_capture(
            ["run-operation", "quail_explain", "--args", json.dumps({"select": "vendor refunds", "html": "target/plan.html"})]
        )
        assert "model.test.vendor" in log
        assert "total" in log
        page = Page(Path("target/plan.html").read_text())
        *names, last = [row[0] for row in page.tables[0][1:]]
        assert (set(names), last) == ({"model.test.refunds", "model.test.vendor"}, "total")
        assert len(page.pictures) == 2
        _, log = run_dbt_and_capture(["run-operation", "quail_explain", "--args", "{select: plain}"])
        assert "nothing would be asked" in log
