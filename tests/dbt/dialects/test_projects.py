"""Twenty models a vendor, as teams write them, in one dbt project: what each builds, and how many answers it needs.

A file holds the models, each under a line `-- number name: n answers [rows]`.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

_HEAD = re.compile(r"^-- \d+ (\w+): (\d+) answers (.*)\n", re.MULTILINE)
_OURS = "{{ config(materialized='table', quail_sql_dialect='duckdb') }} "
TICKETS = """
select * from (values
    (1, 'c1', 'north', 'the kettle leaks and is broken', date '2024-01-01'),
    (2, 'c1', 'north', 'a billing question about the kettle', date '2024-01-02'),
    (3, 'c2', 'south', 'late delivery and billing error', date '2024-01-03'),
    (4, 'c2', 'south', null, date '2024-01-04'),
    (5, 'c3', 'south', 'praise for the toaster', date '2024-01-05'),
    (6, 'c3', 'west', 'the toaster is broken', date '2024-01-06')
) v(id, customer_id, region, body, created_at)
"""
PRODUCTS = "select unnest(['shiny kettle', 'red toaster', 'desk lamp']) as name"


def written(vendor: str) -> dict[str, tuple[str, int, list[Any]]]:
    """By name: SQL, answers, rows."""
    text = (Path(__file__).parent / f"{vendor}_models.sql").read_text(encoding="utf-8")
    _, *parts = _HEAD.split(text)
    found = zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True)
    return {name: (sql, int(answers), ast.literal_eval(rows)) for name, answers, rows, sql in found}


class Project:
    vendor: str

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
        database = tmp_path_factory.mktemp("database") / "dev.duckdb"
        return {"type": "quail", "threads": 4, "path": str(database), "quail": {"engine": "mock", "sql_dialect": self.vendor}}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {"+materialized": "table"}}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "tickets.sql": _OURS + TICKETS,
            "products.sql": _OURS + PRODUCTS,
            **{f"{name}.sql": sql for name, (sql, _, _) in written(self.vendor).items()},
        }

    def test_the_models(self, project: Any, dbt_profile_target: dict[str, Any]) -> None:
        expected = written(self.vendor)
        assert len(expected) == 20
        results = {result.node.name: result.adapter_response for result in run_dbt(["run"])}
        found = {
            name: (
                results[name].get("asked", 0) + results[name].get("recalled", 0),
                sorted(map(tuple, project.run_sql(f"select * from {{schema}}.{name}", fetch="all")), key=repr),
            )
            for name in expected
        }
        assert found == {name: (answers, sorted(rows, key=repr)) for name, (_, answers, rows) in expected.items()}
        later = run_dbt(["run", "--select", "grows", "--vars", "upto: 6"])
        assert later[0].adapter_response["asked"] == 2
        assert project.run_sql("select count(*) from {schema}.grows", fetch="one")[0] == 6


class TestSnowflake(Project):
    vendor = "snowflake"


class TestBigQuery(Project):
    vendor = "bigquery"
