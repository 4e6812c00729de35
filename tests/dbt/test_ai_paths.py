"""Every road an AI call takes through a `dbt build`, on the mock engine: the rows, and how many questions were asked for them.

Each node asks a question of its own, of every ticket: see `tickets` for why that is 4 questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt
from tickets import TICKETS, responses, rows, says

from quail_engine.batching.batch import Batch
from quail_engine.engine.mock import MockEngine

Lines = Callable[[str], list[dict[str, Any]]]

MODELS = {
    "a_table.sql": "{{ config(materialized='table') }} select id, {{ ai_filter('Does {0} say \"urgent\"?', 'body') }}"
    " as is_urgent from {{ ref('tickets') }}",
    "a_view.sql": f"select id, {says('fine')} as is_fine from {{{{ ref('tickets') }}}}",
    "a_plain_view.sql": "select id from {{ ref('a_table') }} -- no AI_FILTER(body) here",
    "an_incremental.sql": "{{ config(materialized='incremental', unique_key='id') }} select id, "
    + says("refund")
    + " as wants_money from {{ ref('tickets') }}",
    "a_contract.sql": "{{ config(materialized='table', contract={'enforced': true}) }} select id, "
    + says("hello")
    + " as greets from {{ ref('tickets') }}",
    "a_file.sql": "{{ config(materialized='external') }} select id, " + says("server") + " as s from {{ ref('tickets') }}",
    "a_csv_file.sql": "{{ config(materialized='external', format='csv') }} select id from {{ ref('tickets') }} where "
    + says(": the"),
    "an_empty_file.sql": "{{ config(materialized='external') }} select id from {{ ref('tickets') }} where " + says("nothing"),
    "an_ephemeral.sql": "{{ config(materialized='ephemeral') }} select id, " + says("down") + " as d from {{ ref('tickets') }}",
    "consumer_1.sql": "{{ config(materialized='table') }} select count(*) as n from {{ ref('an_ephemeral') }} where d",
    "consumer_2.sql": "{{ config(materialized='table') }} select id from {{ ref('an_ephemeral') }} where d",
    "a_hook.sql": "{{ config(materialized='table', pre_hook=\"create or replace table {{ this.schema }}.hooked as select id, "
    + says("please")
    + ' as polite from {{ this.schema }}.tickets",'
    + ' post_hook="insert into {{ this }} select 2 from {{ this.schema }}.tickets where '
    + says("is")
    + '") }} select 1 as one -- {{ ref("tickets") }}',
    "a_python_model.py": f"""
def model(dbt, session):
    dbt.config(materialized='table')
    tickets = dbt.ref('tickets')
    asked = session.sql("select id, {says("ere")} as t from tickets")
    session.execute("create or replace temp table polite as select count(*) as n from tickets where {says("me")}")
    return asked.filter('t').aggregate('count(*) as n, (select n from polite) as polite')
""",
    "a_python_frame.py": f"""
def model(dbt, session):
    dbt.config(materialized='table')
    tickets = dbt.ref('tickets')
    return session.sql("select id from tickets where {says("fi")}").df()
""",
    "schema.yml": """
models:
  - name: a_contract
    columns:
      - {name: id, data_type: integer}
      - {name: greets, data_type: boolean}
  - name: a_table
    columns:
      - {name: is_urgent, data_tests: [{accepted_values: {arguments: {values: [true, false], quote: false}}}]}
unit_tests:
  - name: a_unit_test
    model: a_table
    given: &given
      - input: ref('tickets')
        rows: [{id: 1, body: so URGENT}, {id: 2, body: nothing new}]
    expect:
      rows: [{id: 1, is_urgent: true}, {id: 2, is_urgent: false}]
  - name: a_unit_test_without_a_model
    model: a_table
    overrides: {macros: {ai_filter: id = 2}}
    given: *given
    expect:
      rows: [{id: 1, is_urgent: false}, {id: 2, is_urgent: true}]
""",
}

SNAPSHOTS = {
    "a_snapshot.sql": "{% snapshot a_snapshot %} {{ config(unique_key='id', strategy='check', check_cols=['m']) }} select id, "
    + says("ll")
    + " as m from {{ ref('tickets') }} {% endsnapshot %}"
}

TESTS = {
    "a_test.sql": f"select id from {{{{ ref('tickets') }}}} where {says('lawyer')}",
    "a_stored_test.sql": "{{ config(store_failures=true, severity='warn') }} select id from {{ ref('tickets') }} where "
    + says("there"),
    "a_viewed_test.sql": "{{ config(store_failures_as='view', severity='warn') }} select id from {{ ref('tickets') }} where "
    + says("all"),
}

SEEDS = {
    "tickets.csv": TICKETS,
    "calls.csv": "id,ai_filter\n1,AI_FILTER(body)\n",
    "slow_calls.csv": "id,ai_filter\n1,AI_FILTER(body)\n",
}


@pytest.fixture(scope="class")
def seeds() -> dict[str, str]:
    return SEEDS


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    return MODELS


@pytest.fixture(scope="class")
def snapshots() -> dict[str, str]:
    return SNAPSHOTS


@pytest.fixture(scope="class")
def tests() -> dict[str, str]:
    return TESTS


@pytest.fixture(scope="class")
def project_config_update() -> dict[str, Any]:
    ended = "create or replace table {{ target.schema }}.ended as select id from {{ target.schema }}.tickets where "
    return {
        "seeds": {"test": {"slow_calls": {"fast": False}}},
        "on-run-end": [ended + says("own")],
    }


@pytest.fixture(scope="class")
def engine_requests() -> Iterator[list[int]]:
    """Grows by the number of requests of each batch that the mock is given, however the product counts them."""
    batches: list[int] = []
    score = MockEngine.score

    def counted(engine: MockEngine, batch: Batch) -> Any:
        batches.append(sum(read.part == 0 for read in batch.reads))
        return score(engine, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MockEngine, "score", counted)
        yield batches


@pytest.fixture(scope="class")
def built(project: Any, engine_requests: list[int]) -> dict[str, dict[str, Any]]:
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
        for node in ("tickets", "a_plain_view", "accepted_values_a_table_is_urgent__False__True__False"):
            assert "asked" not in built[node]

    def test_a_seed_that_mentions_a_call_is_only_text(self, project: Any, built: dict[str, Any], run_log: Lines) -> None:
        for seed in ("calls", "slow_calls"):
            assert rows(project, f"select ai_filter from {{schema}}.{seed}") == [("AI_FILTER(body)",)]
            assert "asked" not in built[seed]
            assert run_log(seed) == []

    def test_a_view_is_stored_as_a_table(self, project: Any, built: dict[str, Any]) -> None:
        assert built["a_view"]["asked"] == 4
        kinds = rows(project, "select table_name, table_type from information_schema.tables where table_schema = '{schema}'")
        assert dict(kinds)["a_view"] == "BASE TABLE"
        assert dict(kinds)["a_plain_view"] == "VIEW"
        assert rows(project, "select id from {schema}.a_view where is_fine order by id") == [(2,), (5,)]

    def test_a_first_incremental_run_is_a_table(self, project: Any, built: dict[str, Any]) -> None:
        assert (built["an_incremental"]["asked"], built["an_incremental"]["rows_affected"]) == (4, 6)
        assert rows(project, "select id from {schema}.an_incremental where wants_money") == [(3,)]

    def test_a_contract_asks_nothing_for_its_probes(self, project: Any, built: dict[str, Any], run_log: Lines) -> None:
        assert (built["a_contract"]["asked"], built["a_contract"]["rows_affected"]) == (4, 6)
        assert sum(line["asked"] for line in run_log("a_contract")) == 4
        assert rows(project, "select id from {schema}.a_contract where greets") == [(4,)]

    def test_an_external_file_reports_its_rows_and_questions(self, project: Any, built: dict[str, Any]) -> None:
        assert {n: (built[n]["rows_affected"], built[n]["asked"]) for n in ("a_file", "a_csv_file", "an_empty_file")} == {
            "a_file": (6, 4),
            "a_csv_file": (1, 4),
            "an_empty_file": (0, 4),
        }
        assert rows(project, "select id from read_parquet('a_file.parquet') where s") == [(1,)]
        assert rows(project, "select id from {schema}.a_file where s") == [(1,)]
        assert rows(project, "select id from {schema}.a_csv_file") == [(1,)]
        assert rows(project, "select id from {schema}.an_empty_file") == []

    def test_an_ephemeral_model_is_asked_once_for_all_its_readers(self, project: Any, built: dict[str, Any]) -> None:
        assert built["consumer_1"]["asked"] + built["consumer_2"]["asked"] == 4
        assert rows(project, "select n from {schema}.consumer_1") == [(1,)]
        assert rows(project, "select id from {schema}.consumer_2") == [(1,)]

    def test_a_snapshot_asks_once(self, project: Any, built: dict[str, Any]) -> None:
        assert (built["a_snapshot"]["asked"], built["a_snapshot"]["rows_affected"]) == (4, 6)
        assert rows(project, "select id from {schema}.a_snapshot where m and dbt_valid_to is null order by id") == [
            (2,),
            (4,),
            (5,),
        ]

    def test_a_unit_test_asks_about_its_fixture_only(self, built: dict[str, Any], run_log: Lines) -> None:
        assert built["a_unit_test"]["asked"] == 2
        assert "asked" not in built["a_unit_test_without_a_model"]
        assert run_log("a_unit_test_without_a_model") == []

    def test_a_data_test_asks_and_passes(self, built: dict[str, Any]) -> None:
        assert built["a_test"]["asked"] == 4

    def test_stored_failures_are_asked_once(self, project: Any, built: dict[str, Any], run_log: Lines) -> None:
        assert sum(line["asked"] for line in run_log("a_stored_test")) == built["a_stored_test"]["asked"] == 4
        assert sum(line["asked"] for line in run_log("a_viewed_test")) == built["a_viewed_test"]["asked"] == 4
        audit = project.test_schema + "_dbt_test__audit"
        assert rows(project, f"select id from {audit}.a_stored_test") == [(4,)]
        assert rows(project, f"select id from {audit}.a_viewed_test order by id") == [(2,), (5,)]

    def test_hooks_count_for_their_node(self, project: Any, built: dict[str, Any]) -> None:
        assert (built["a_hook"]["asked"], built["a_hook"]["rows_affected"]) == (4 + 4, 1)
        assert rows(project, "select id from {schema}.hooked where polite") == [(3,)]
        assert rows(project, "select * from {schema}.a_hook order by 1") == [(1,), (2,)]

    def test_a_hook_of_the_run_is_answered(self, project: Any, built: dict[str, Any], run_log: Lines) -> None:
        assert [line["asked"] for line in run_log("test-on-run-end-0")] == [4]
        assert rows(project, "select * from {schema}.ended") == [(1,)]

    def test_a_python_model_is_answered(self, project: Any, built: dict[str, Any], run_log: Lines) -> None:
        assert sum(line["asked"] for line in run_log("a_python_model")) == built["a_python_model"]["asked"] == 4 + 4
        assert rows(project, "select * from {schema}.a_python_model") == [(1, 1)]
        assert built["a_python_frame"]["asked"] == 4
        assert rows(project, "select id from {schema}.a_python_frame order by id") == [(2,), (5,)]

    def test_the_counts_are_what_the_engine_was_given(
        self, project: Any, built: dict[str, Any], engine_requests: list[int], every_line: Callable[[], list[dict[str, Any]]]
    ) -> None:
        assert sum(engine_requests) == sum(line["asked"] for line in every_line())

    def test_a_second_build_asks_nothing(self, project: Any, built: dict[str, Any], engine_requests: list[int]) -> None:
        engine_requests.clear()
        again = responses(run_dbt(["build", "--threads", "1"]))
        assert engine_requests == []
        assert {name: r["asked"] for name, r in again.items() if r.get("asked")} == {}
        assert {name: r["recalled"] for name, r in again.items() if "recalled" in r} == {
            name: r["asked"] + r["recalled"] for name, r in built.items() if "asked" in r
        }
        assert rows(project, "select count(*) from {schema}.a_snapshot") == [(6,)]
        assert rows(project, "select id from {schema}.an_incremental where wants_money") == [(3,)]
        assert Path(project.project_root, "a_csv_file.csv").read_text().split() == ["id", "1"]
