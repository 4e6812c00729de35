"""Every road an AI call takes through dbt, on the mock engine: the rows, and how many questions were asked for them.

The seed holds six tickets: four different texts, one of them twice, and a NULL. So a node that asks its own question of every
ticket asks 4: a NULL is not asked, and equal texts are asked once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture

Lines = Callable[[str], list[dict[str, Any]]]

TICKETS = """id,body
1,urgent: the server is down
2,all fine
3,please refund me
4,hello there
5,all fine
6,
"""


def says(word: str) -> str:
    """An AI call that the mock answers TRUE where the ticket contains the word."""
    return f"AI_FILTER(PROMPT('Does {{0}} say ''{word}''?', body))"


MODELS = {
    "a_table.sql": "{{ config(materialized='table') }} select id, "
    + says("urgent")
    + " as is_urgent from {{ ref('tickets') }}",
    "a_view.sql": f"select id, {says('fine')} as is_fine from {{{{ ref('tickets') }}}}",
    "a_plain_view.sql": "select id from {{ ref('a_table') }} -- no AI_FILTER(body) here",
    "an_incremental.sql": "{{ config(materialized='incremental', unique_key='id') }} select id, "
    + says("refund")
    + " as wants_money from {{ ref('tickets') }} where id <= {{ var('upto', 3) }}"
    + " {% if is_incremental() %} and id > (select max(id) from {{ this }}) {% endif %}",
    "a_contract.sql": "{{ config(materialized='table', contract={'enforced': true}) }} select id, "
    + says("hello")
    + " as greets from {{ ref('tickets') }}",
    "a_file.sql": "{{ config(materialized='external') }} select id, " + says("server") + " as s from {{ ref('tickets') }}",
    "an_ephemeral.sql": "{{ config(materialized='ephemeral') }} select id, " + says("down") + " as d from {{ ref('tickets') }}",
    "consumer_1.sql": "{{ config(materialized='table') }} select count(*) as n from {{ ref('an_ephemeral') }} where d",
    "consumer_2.sql": "{{ config(materialized='table') }} select id from {{ ref('an_ephemeral') }} where d",
    "a_hook.sql": "{{ config(materialized='table', pre_hook=\"create or replace table {{ this.schema }}.hooked as select id, "
    + says("please")
    + ' as polite from {{ this.schema }}.tickets") }} select 1 as one -- {{ ref("tickets") }}',
    "a_python_model.py": f"""
def model(dbt, con):
    tickets = dbt.ref('tickets')
    return con.sql(\"select id, {says("the")} as t from tickets\")
""",
    "schema.yml": """
models:
  - name: a_contract
    columns:
      - {name: id, data_type: integer}
      - {name: greets, data_type: boolean}
unit_tests:
  - name: a_unit_test
    model: a_table
    given:
      - input: ref('tickets')
        rows:
          - {id: 1, body: so URGENT}
          - {id: 2, body: nothing new}
    expect:
      rows:
        - {id: 1, is_urgent: true}
        - {id: 2, is_urgent: false}
""",
}

SNAPSHOTS = {
    "a_snapshot.sql": "{% snapshot a_snapshot %} {{ config(unique_key='id', strategy='check', check_cols=['m']) }} select id, "
    + says("me")
    + " as m from {{ ref('tickets') }} {% endsnapshot %}"
}

TESTS = {
    "a_test.sql": f"select id from {{{{ ref('tickets') }}}} where {says('lawyer')}",
    "a_stored_test.sql": "{{ config(store_failures=true, severity='warn') }} select id from {{ ref('tickets') }} where "
    + says("there"),
    "a_viewed_test.sql": "{{ config(store_failures_as='view', severity='warn') }} select id from {{ ref('tickets') }} where "
    + says("all"),
}


@pytest.fixture(scope="class")
def seeds() -> dict[str, str]:
    return {"tickets.csv": TICKETS}


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    return MODELS


@pytest.fixture(scope="class")
def snapshots() -> dict[str, str]:
    return SNAPSHOTS


@pytest.fixture(scope="class")
def tests() -> dict[str, str]:
    return TESTS


def responses(results: Any) -> dict[str, dict[str, Any]]:
    return {result.node.name: result.adapter_response for result in results}


def rows(project: Any, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in project.run_sql(sql, fetch="all")]


@pytest.fixture(scope="class")
def built(project: Any) -> dict[str, dict[str, Any]]:
    """The adapter responses of a first `dbt build`, by node."""
    return responses(run_dbt(["build"]))


class TestBuild:
    def test_a_table_asks_each_text_once(self, project: Any, built: dict[str, Any]) -> None:
        response = built["a_table"]
        assert (response["asked"], response["recalled"], response["failed"]) == (4, 0, 0)
        assert response["rows_affected"] == 6
        assert response["_message"].startswith("6 rows, 4 asked, 0 recalled, ")
        expected = [(1, True), (2, False), (3, False), (4, False), (5, False), (6, None)]
        assert rows(project, "select * from {schema}.a_table order by id") == expected

    def test_a_node_without_an_ai_call_reports_rows_only(self, built: dict[str, Any]) -> None:
        assert built["tickets"]["rows_affected"] == 6
        assert "asked" not in built["tickets"]
        assert "asked" not in built["a_plain_view"]

    def test_a_view_is_stored_as_a_table(self, project: Any, built: dict[str, Any]) -> None:
        assert built["a_view"]["asked"] == 4
        kinds = rows(project, "select table_name, table_type from information_schema.tables where table_schema = '{schema}'")
        assert dict(kinds)["a_view"] == "BASE TABLE"
        assert dict(kinds)["a_plain_view"] == "VIEW"
        assert rows(project, "select id from {schema}.a_view where is_fine order by id") == [(2,), (5,)]

    def test_a_contract_asks_nothing_for_its_probes(self, project: Any, built: dict[str, Any], run_log: Lines) -> None:
        assert built["a_contract"]["asked"] == 4
        assert sum(line["asked"] for line in run_log("a_contract")) == 4
        assert rows(project, "select id from {schema}.a_contract where greets") == [(4,)]

    def test_an_external_file_reports_its_questions(self, project: Any, built: dict[str, Any]) -> None:
        assert built["a_file"]["asked"] == 4
        assert rows(project, "select id from read_parquet('a_file.parquet') where s") == [(1,)]
        assert rows(project, "select id from {schema}.a_file where s") == [(1,)]

    def test_an_ephemeral_model_is_asked_once_for_all_its_readers(self, project: Any, built: dict[str, Any]) -> None:
        assert built["consumer_1"]["asked"] + built["consumer_2"]["asked"] == 4
        assert rows(project, "select n from {schema}.consumer_1") == [(1,)]
        assert rows(project, "select id from {schema}.consumer_2") == [(1,)]

    def test_a_snapshot_asks_once(self, project: Any, built: dict[str, Any]) -> None:
        assert built["a_snapshot"]["asked"] == 4
        assert rows(project, "select id from {schema}.a_snapshot where m and dbt_valid_to is null") == [(3,)]

    def test_a_unit_test_asks_about_its_fixture_only(self, built: dict[str, Any]) -> None:
        assert built["a_unit_test"]["asked"] == 2

    def test_a_data_test_asks_and_passes(self, built: dict[str, Any]) -> None:
        assert built["a_test"]["asked"] == 4

    def test_stored_failures_are_asked_once(self, project: Any, built: dict[str, Any], run_log: Lines) -> None:
        assert sum(line["asked"] for line in run_log("a_stored_test")) == 4
        assert sum(line["asked"] for line in run_log("a_viewed_test")) == 4
        audit = project.test_schema + "_dbt_test__audit"
        assert rows(project, f"select id from {audit}.a_stored_test") == [(4,)]
        assert rows(project, f"select id from {audit}.a_viewed_test order by id") == [(2,), (5,)]

    def test_a_hook_counts_for_its_node(self, project: Any, built: dict[str, Any]) -> None:
        assert built["a_hook"]["asked"] == 4
        assert rows(project, "select id from {schema}.hooked where polite") == [(3,)]

    def test_a_python_model_is_answered(self, project: Any, built: dict[str, Any], run_log: Lines) -> None:
        assert sum(line["asked"] for line in run_log("a_python_model")) == built["a_python_model"]["asked"] == 4
        assert rows(project, "select id from {schema}.a_python_model where t order by id") == [(1,), (4,)]


class TestLater:
    def test_a_second_build_asks_nothing(self, project: Any, built: dict[str, Any]) -> None:
        again = responses(run_dbt(["build"]))
        assert {name: r["asked"] for name, r in again.items() if r.get("asked")} == {}
        assert again["a_table"]["recalled"] == 4
        assert again["a_snapshot"]["recalled"] == 4
        assert rows(project, "select count(*) from {schema}.a_snapshot") == [(6,)]

    def test_an_incremental_run_asks_about_new_rows_only(self, project: Any, built: dict[str, Any]) -> None:
        assert built["an_incremental"]["asked"] == 3
        later = responses(run_dbt(["run", "-s", "an_incremental", "--vars", "{upto: 6}"]))["an_incremental"]
        assert (later["asked"], later["recalled"]) == (1, 1)
        expected = [(1, False), (2, False), (3, True), (4, False), (5, False), (6, None)]
        assert rows(project, "select * from {schema}.an_incremental order by id") == expected

    def test_nothing_is_asked_by_commands_that_need_no_answer(self, project: Any, built: dict[str, Any]) -> None:
        log = Path(project.project_root) / "target" / "quail_run.jsonl"
        before = log.read_text()
        for command in (["compile"], ["parse"], ["docs", "generate"]):
            run_dbt(command)
        assert log.read_text() == before

    def test_empty_asks_nothing(self, project: Any, built: dict[str, Any]) -> None:
        emptied = responses(run_dbt(["run", "--empty", "-s", "a_table", "a_contract", "consumer_1", "a_file"]))
        assert {name: (r["asked"], r["recalled"]) for name, r in emptied.items()} == dict.fromkeys(emptied, (0, 0))
        assert len(emptied) == 4

    def test_show_asks_and_prints(self, project: Any, built: dict[str, Any]) -> None:
        query = f"select id from {{{{ ref('tickets') }}}} where {says('nobody wrote this')} or id = 4"
        results, output = run_dbt_and_capture(["show", "--inline", query])
        assert results.results[0].adapter_response["asked"] == 3  # `id = 4` needs no answer
        assert "|  4 |" in output
