# ruff: noqa: E501
"""Unit tests, snapshots and singular tests of a vendor's SQL: dbt writes DuckDB's SQL around it, and fixtures into it."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt

TICKETS = """{{ config(materialized='table', quail_sql_dialect='duckdb') }}
select * from (values (1, 'alpha beta', date '2024-01-01', ['x']), (2, 'it''s beta', date '2024-01-02', ['y', 'z'])) v(id, body, day, tags)"""
MODELS = {
    "snowflake": "select id, AI_CLASSIFY(body, ['alpha', 'beta']):labels[0]::varchar as label, iff(AI_FILTER('Is it \\'beta\\'?', body), 1, 0) as n, body, day, array_size(tags) as tags from {{ ref('tickets') }}",
    "bigquery": "select id, AI.CLASSIFY(body, ['alpha', 'beta']) as label, if(AI.IF((\"Is it 'beta'? \", body)), 1, 0) as n, body, day, array_length(tags) as tags from {{ ref('tickets') }}",
}
UNIT_TESTS = r"""
unit_tests:
  - name: of_mappings
    model: labelled
    given: [{input: ref('tickets'), rows: [{id: 1, body: "it's C:\\new \"alpha\"", day: 2024-01-01}, {id: 2}]}]
    expect:
      rows:
        - {id: 1, label: alpha, n: 0, body: "it's C:\\new \"alpha\"", day: 2024-01-01, tags: null}
        - {id: 2, label: null, n: 0, body: null, day: null, tags: null}
  - name: of_csv
    model: labelled
    given: [{input: ref('tickets'), format: csv, rows: "id,body\n1,beta\n"}]
    expect: {format: csv, rows: "id,label,n\n1,beta,1\n"}
  - name: of_sql
    model: labelled
    given: [{input: ref('tickets'), format: sql, rows: "select 1 as id, 'beta' as body, null as day, [] as tags"}]
    expect: {format: sql, rows: "select 1 as id, 'beta' as label, 1 as n, 'beta' as body, null as day, 0 as tags"}
"""
SNAPSHOT = """{% snapshot kept %}
{{ config(strategy='check', unique_key='id', check_cols=['label', 'n'], target_schema=schema SETTING) }}
MODEL
{% endsnapshot %}"""


class NodeKinds:
    vendor: str
    of_the_profile: bool

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
        database = tmp_path_factory.mktemp("database") / "dev.duckdb"
        quail = {"engine": "mock", **({"sql_dialect": self.vendor} if self.of_the_profile else {})}
        return {"type": "quail", "threads": 2, "path": str(database), "quail": quail}

    def named(self, sql: str) -> str:
        """A model that says its dialect, where the profile does not."""
        return sql if self.of_the_profile else f"{{{{ config(quail_sql_dialect='{self.vendor}') }}}}\n{sql}"

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        model = "{{ config(materialized='table') }}\n" + self.named(MODELS[self.vendor])
        return {"tickets.sql": TICKETS, "labelled.sql": model, "schema.yml": UNIT_TESTS}

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        setting = "" if self.of_the_profile else f", quail_sql_dialect='{self.vendor}'"
        return {"kept.sql": SNAPSHOT.replace("SETTING", setting).replace("MODEL", MODELS[self.vendor])}

    @pytest.fixture(scope="class")
    def tests(self) -> dict[str, str]:
        return {
            "none_is_gamma.sql": self.named(
                MODELS[self.vendor].replace("select", "select 'x' as x,", 1) + " where body = 'gamma'"
            )
        }

    def test_every_kind_of_node(self, project: Any) -> None:
        results = {r.node.name: r for r in run_dbt(["build"])}
        assert {name: r.status for name, r in results.items()} == {
            "tickets": "success", "labelled": "success", "kept": "success", "none_is_gamma": "pass",
            "of_mappings": "pass", "of_csv": "pass", "of_sql": "pass",
        }  # fmt: skip
        assert (
            sum(results[name].adapter_response["asked"] for name in ("labelled", "kept")) == 4
        )  # two questions about two texts
        rows = project.run_sql("select id, label, n from {schema}.kept where dbt_valid_to is null order by id", fetch="all")
        assert rows == [(1, "alpha", 1), (2, "beta", 1)]
        again = run_dbt(["snapshot"])
        assert again[0].adapter_response["asked"] == 0
        assert project.run_sql("select count(*) from {schema}.kept", fetch="one")[0] == 2


class TestSnowflakeOfTheProfile(NodeKinds):
    vendor, of_the_profile = "snowflake", True


class TestSnowflakeOfTheModel(NodeKinds):
    vendor, of_the_profile = "snowflake", False


class TestBigQueryOfTheProfile(NodeKinds):
    vendor, of_the_profile = "bigquery", True


class TestBigQueryOfTheModel(NodeKinds):
    vendor, of_the_profile = "bigquery", False
