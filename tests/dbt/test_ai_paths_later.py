"""AI calls in what dbt runs again over a table that is there: incremental strategies, microbatches, snapshots."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture
from tickets import responses, rows, says

Lines = Callable[[str], list[dict[str, Any]]]

# Five days, two of them without tickets; three different texts.
STAMPED = """id,sent,body
1,2026-01-01 08:00:00,urgent: the server is down
2,2026-01-01 09:00:00,all fine
3,2026-01-03 08:00:00,please refund me
4,2026-01-05 08:00:00,all fine
"""

_NEW = "{% if is_incremental() %} and id > (select max(id) from {{ this }}) {% endif %}"
_AGAIN = "{% if is_incremental() %} and id >= (select max(id) from {{ this }}) {% endif %}"


def incremental(strategy: str, word: str, condition: str) -> str:
    """A model over the rows up to the variable `upto`."""
    config = f"materialized='incremental', unique_key='id', incremental_strategy='{strategy}'"
    selected = f"select id, {says(word)} as said from {{{{ ref('stamped') }}}} where id <= {{{{ var('upto', 2) }}}} {condition}"
    return f"{{{{ config({config}) }}}} {selected}"


def snapshot(name: str, config: str, word: str) -> str:
    selected = f"select id, sent, {says(word)} as said from {{{{ ref('stamped') }}}}"
    return f"{{% snapshot {name} %}} {{{{ config(unique_key='id', {config}) }}}} {selected} {{% endsnapshot %}}"


MODELS = {
    "appended.sql": incremental("append", "fine", _NEW),
    "replaced.sql": incremental("delete+insert", "urgent", _AGAIN),
    "merged.sql": incremental("merge", "refund", _AGAIN),
    "batched.sql": "{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='sent',"
    " batch_size='day', begin='2026-01-01', concurrent_batches=true) }}"
    f" select id, sent, {says('e')} as said from {{{{ ref('stamped') }}}}",
}

SNAPSHOTS = {
    "stamps.sql": snapshot("stamps", "strategy='timestamp', updated_at='sent', hard_deletes='invalidate'", "server"),
    "checks.sql": snapshot("checks", "strategy='check', check_cols=['said'], hard_deletes='new_record'", "all"),
}


@pytest.fixture(scope="class")
def seeds() -> dict[str, str]:
    seed = "seeds: [{name: stamped, config: {event_time: sent, column_types: {sent: timestamp}}}]"
    return {"stamped.csv": STAMPED, "seeds.yml": seed}


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    return MODELS


@pytest.fixture(scope="class")
def snapshots() -> dict[str, str]:
    return SNAPSHOTS


@pytest.fixture(scope="class")
def seeded(project: Any) -> None:
    run_dbt(["seed"])


def costs(response: dict[str, Any]) -> tuple[int, int, int]:
    return response["rows_affected"], response["asked"], response["recalled"]


@pytest.mark.usefixtures("seeded")
class TestLater:
    def test_incremental_strategies_ask_about_new_texts_only(self, project: Any, run_log: Lines) -> None:
        selected = ["run", "-s", "appended", "replaced", "merged"]
        first = responses(run_dbt(selected))
        assert {name: costs(r) for name, r in first.items()} == dict.fromkeys(first, (2, 2, 0))
        # Row 3 is new; `replaced` and `merged` read row 2 again.
        later = responses(run_dbt([*selected, "--vars", "{upto: 3}"]))
        assert {name: costs(r) for name, r in later.items()} == {
            "appended": (1, 1, 0),
            "replaced": (2, 1, 1),
            "merged": (2, 1, 1),
        }
        assert rows(project, "select * from {schema}.appended order by id") == [(1, False), (2, True), (3, False)]
        assert rows(project, "select * from {schema}.replaced order by id") == [(1, True), (2, False), (3, False)]
        assert rows(project, "select * from {schema}.merged order by id") == [(1, False), (2, False), (3, True)]
        refreshed = responses(run_dbt([*selected, "--vars", "{upto: 4}", "--full-refresh"]))
        assert {name: costs(r) for name, r in refreshed.items()} == dict.fromkeys(refreshed, (4, 0, 3))
        assert len(run_log("appended")) == 3

    def test_a_batch_asks_its_own_rows_and_an_empty_one_nothing(self, project: Any, run_log: Lines) -> None:
        days = ["run", "-s", "batched", "--event-time-start", "2026-01-01", "--event-time-end", "2026-01-06", "--threads", "8"]
        results, output = run_dbt_and_capture(days)
        assert results.results[0].adapter_response == {}  # dbt's own: it makes the whole model's result itself
        assert batches(output) == {
            "2026-01-01": "2 rows, 2 asked, 0 recalled",
            "2026-01-02": "0 rows, 0 asked, 0 recalled",
            "2026-01-03": "1 row, 1 asked, 0 recalled",
            "2026-01-04": "0 rows, 0 asked, 0 recalled",
            "2026-01-05": "1 row, 0 asked, 1 recalled",
        }
        assert "1 node with AI calls, 3 asked, 1 recalled" in output
        project.run_sql("update {schema}.stamped set body = 'never mind' where id = 3")
        _, output = run_dbt_and_capture([*days, "--full-refresh"])
        assert batches(output)["2026-01-03"] == "1 row, 1 asked, 0 recalled"
        assert batches(output)["2026-01-01"] == "2 rows, 0 asked, 2 recalled"
        assert rows(project, "select id, said from {schema}.batched order by id") == [
            (1, True),
            (2, True),
            (3, True),
            (4, True),
        ]
        assert sum(line["asked"] for line in run_log("batched")) == 4
        assert len(run_log("batched")) == 10
        project.run_sql("update {schema}.stamped set body = 'please refund me' where id = 3")

    def test_snapshots_ask_about_what_changed(self, project: Any, run_log: Lines) -> None:
        assert {name: costs(r) for name, r in responses(run_dbt(["snapshot"])).items()} == {
            "stamps": (4, 3, 0),
            "checks": (4, 3, 0),
        }
        again = responses(run_dbt(["snapshot"]))
        assert {name: (r["asked"], r["recalled"]) for name, r in again.items()} == dict.fromkeys(again, (0, 3))
        history = "select id, said, dbt_valid_to is null from {schema}.%s order by id, dbt_valid_from"
        assert len(rows(project, history % "stamps")) == len(rows(project, history % "checks")) == 4

        # One text changes, one changes without another answer, one row goes.
        project.run_sql("update {schema}.stamped set body = 'all is well', sent = sent + interval 1 day where id = 1")
        project.run_sql("update {schema}.stamped set body = 'refund me', sent = sent + interval 1 day where id = 3")
        project.run_sql("delete from {schema}.stamped where id = 4")
        changed = responses(run_dbt(["snapshot"]))
        assert {name: (r["asked"], r["recalled"]) for name, r in changed.items()} == dict.fromkeys(changed, (2, 1))
        assert rows(project, history % "stamps") == [
            (1, True, False),
            (1, False, True),
            (2, False, True),
            (3, False, False),
            (3, False, True),
            (4, False, False),
        ]
        deleted = "select id, said, dbt_valid_to is null, dbt_is_deleted from {schema}.checks order by id, dbt_valid_from"
        assert rows(project, deleted) == [
            (1, False, False, "False"),
            (1, True, True, "False"),
            (2, True, True, "False"),
            (3, False, True, "False"),
            (4, True, False, "False"),
            (4, True, True, "True"),
        ]
        # dbt's probes of the columns hold the call, too, and ask nothing.
        assert [(line["asked"], line["recalled"]) for line in run_log("checks") if line["calls"]] == [(3, 0), (0, 3), (2, 1)]


def batches(output: str) -> dict[str, str]:
    """Day → status of its batch, as dbt's console shows it, without the speed."""
    found = re.findall(r"OK created batch (\S+) of \S+ \.* *\[(?:\x1b\[\d+m)?([^\]\x1b]*?asked, \d+ recalled)", output)
    return dict(found)
