"""What each dbt command asks of AI nodes, built already or not: rows, questions, and what is printed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import get_artifact, run_dbt, run_dbt_and_capture
from dbt_common.exceptions import DbtRuntimeError
from tickets import TICKETS, responses, rows, says

Lines = Callable[[str], list[dict[str, Any]]]
EveryLine = Callable[[], list[dict[str, Any]]]

MODELS = {
    "urgent.sql": "{{ config(materialized='table') }} select id from {{ ref('tickets') }} where " + says("urgent"),
    "fine.sql": "select id, sent, body, " + says("fine") + " as is_fine from {{ ref('tickets') }}",
    "counted.sql": "{{ config(materialized='table') }} select count(*) as n from {{ ref('tickets') }} where "
    + says("{{ var('word', 'is') }}"),
    "constant.sql": "{{ config(materialized='table') }} select AI_FILTER('Is it ''late''?', 'too late') as late",
    "from_a_file.sql": "{{ config(materialized='table') }} select AI_FILTER('Is it ''new''?', name) as is_new"
    " from read_csv('{{ var('file', 'none.csv') }}')",
    "many.sql": "{{ config(materialized='table') }} select i, AI_FILTER('Is it ''odd''?', 'text ' || i ||"
    " case when i >= {{ var('whole', 10) }} then ' is broken' else ' is odd' end) as odd from range(30) as numbers(i)",
}

MACROS = {
    "ask.sql": '{% macro ask() %}{% set found = run_query("select id from " ~ target.schema ~ ".tickets where '
    + says("refund")
    + "\") %}{{ log('found ' ~ found.columns[0].values() | list, info=True) }}{% endmacro %}"
}


@pytest.fixture(scope="class")
def dbt_profile_target(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    database = tmp_path_factory.mktemp("database") / "dev.duckdb"
    return {"type": "quail", "threads": 4, "path": str(database), "quail": {"engine": "mock", "mock_fail": "broken"}}


@pytest.fixture(scope="class")
def profiles_config_update(dbt_profile_target: dict[str, Any], unique_schema: str) -> dict[str, Any]:
    """A second target in the same database, to clone into."""
    outputs = {name: {**deepcopy(dbt_profile_target), "schema": unique_schema + name} for name in ("", "_clone")}
    return {"test": {"outputs": {"default": outputs[""], "clone": outputs["_clone"]}, "target": "default"}}


@pytest.fixture(scope="class")
def seeds() -> dict[str, str]:
    head, *lines = TICKETS.split()[0], *TICKETS.splitlines()[1:]
    dated = [f"{line},2026-01-0{number}" for number, line in enumerate(lines, 1)]
    seed = "seeds: [{name: tickets, config: {event_time: sent, column_types: {sent: timestamp}}}]"
    return {"tickets.csv": "\n".join([f"{head},sent", *dated]) + "\n", "seeds.yml": seed}


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    return MODELS


@pytest.fixture(scope="class")
def macros() -> dict[str, str]:
    return MACROS


@pytest.fixture(scope="class")
def built(project: Any) -> dict[str, dict[str, Any]]:
    return responses(run_dbt(["build", "--exclude", "from_a_file", "many", "constant"]))


def costs(results: Any) -> dict[str, tuple[int, int]]:
    return {name: (r["asked"], r["recalled"]) for name, r in responses(results).items() if "asked" in r}


class TestCommands:
    def test_nothing_is_asked_by_commands_that_need_no_answer(
        self, project: Any, built: dict[str, Any], every_line: EveryLine
    ) -> None:
        before = len(every_line())
        for command in ("parse", "list", "compile", "seed", "docs generate", "source freshness", "compile --inline 'select 1'"):
            _, output = run_dbt_and_capture(command.split(maxsplit=2) if "inline" in command else command.split())
            assert "with AI calls" not in output
        assert len(every_line()) == before

    def test_a_debug_of_the_connection_leaves_the_store_as_it_was(self, project: Any, built: dict[str, Any]) -> None:
        run_dbt(["debug", "--connection"])
        assert costs(run_dbt(["run", "-s", "urgent"])) == {"urgent": (0, 4)}

    def test_show_of_a_node_prints_what_it_asked(self, project: Any, built: dict[str, Any]) -> None:
        results, output = run_dbt_and_capture(["show", "-s", "fine", "--limit", "2"])
        assert costs(results) == {"fine": (0, 2)}  # two rows come out
        assert "1 node with AI calls, 0 asked, 2 recalled" in output
        assert "|  1 |" in output
        assert "|  3 |" not in output

    @pytest.mark.parametrize(
        ("word", "options", "asked"),
        [("inline", [], 4), ("inline two", ["--limit", "2"], 2), ("inline all", ["--limit", "-1"], 4)],
    )
    def test_show_inline(self, project: Any, built: dict[str, Any], word: str, options: list[str], asked: int) -> None:
        query = f"select id, {says(word)} as said from {{{{ ref('tickets') }}}}"
        assert costs(run_dbt(["show", "--inline", query, *options])) == {"inline_query": (asked, 0)}

    def test_show_of_rows_that_need_no_answer(self, project: Any, built: dict[str, Any]) -> None:
        query = f"select id from {{{{ ref('tickets') }}}} where {says('nobody wrote this')} or id = 4"
        results, output = run_dbt_and_capture(["show", "--inline", query])
        assert costs(results) == {"inline_query": (3, 0)}
        assert "|  4 |" in output

    def test_show_tells_a_mistake_in_the_user_s_own_line(self, project: Any, built: dict[str, Any]) -> None:
        with pytest.raises(DbtRuntimeError, match=r"line 1: select AI_FILTER\(PROMPT\('\{1\}\?', 'x'\)\)"):
            run_dbt(["show", "--inline", "select AI_FILTER(PROMPT('{1}?', 'x'))"])

    def test_quiet_and_json(self, project: Any, built: dict[str, Any]) -> None:
        query = f"select id from {{{{ ref('tickets') }}}} where {says('quiet')} or id = 1"
        _, output = run_dbt_and_capture(["--quiet", "show", "--inline", query, "--output", "json"])
        assert json.loads(output) == {"show": [{"id": 1}]}
        _, output = run_dbt_and_capture(["--log-format", "json", "run", "-s", "urgent"])
        events = [json.loads(line) for line in output.splitlines()]
        said = [event["info"]["msg"] for event in events]
        assert "Quail adapter: 1 node with AI calls, 0 asked, 4 recalled" in said
        assert [e["data"]["status"] for e in events if e["info"]["name"] == "LogModelResult"] == ["1 row, 0 asked, 4 recalled"]

    def test_a_run_operation_is_answered(self, project: Any, built: dict[str, Any], every_line: EveryLine) -> None:
        _, output = run_dbt_and_capture(["run-operation", "ask"])
        assert "found [3" in output
        assert "1 node with AI calls, 4 asked, 0 recalled" in output
        assert every_line()[-1]["node"] is None

    def test_a_full_refresh_recalls(self, project: Any, built: dict[str, Any]) -> None:
        assert costs(run_dbt(["run", "--full-refresh", "-s", "urgent", "fine", "--threads", "8"])) == {
            "urgent": (0, 4),
            "fine": (0, 4),
        }

    def test_empty_asks_nothing(self, project: Any, tmp_path: Path, built: dict[str, Any]) -> None:
        file = tmp_path / "names.csv"
        file.write_text("name\nnew\nold\n")
        selected = ["run", "-s", "urgent", "fine", "constant", "from_a_file", "--vars", json.dumps({"file": str(file)})]
        assert costs(run_dbt([*selected, "--empty"])) == dict.fromkeys(("urgent", "fine", "constant", "from_a_file"), (0, 0))
        assert rows(project, "select count(*) from {schema}.from_a_file") == [(0,)]
        assert costs(run_dbt(selected)) == {"urgent": (0, 4), "fine": (0, 4), "constant": (1, 0), "from_a_file": (2, 0)}
        assert rows(project, "select count(*) from {schema}.from_a_file") == [(2,)]

    def test_a_sample_asks_about_its_rows(self, project: Any, built: dict[str, Any]) -> None:
        sampled = ["run", "-s", "counted", "--vars", "{word: sample}"]
        sample = "{'start': '2026-01-02', 'end': '2026-01-04'}"
        assert costs(run_dbt([*sampled, "--sample", sample])) == {"counted": (2, 0)}
        assert costs(run_dbt(sampled)) == {"counted": (2, 2)}

    def test_a_retry_asks_what_is_missing(self, project: Any, built: dict[str, Any]) -> None:
        # 20 of 30 requests fail, more than max_error_ratio allows: no table, and the 10 answers are kept.
        results = run_dbt(["run", "-s", "many", "urgent"], expect_pass=False)
        message = {result.node.name: result.message for result in results}["many"]
        assert "20 of 30 requests" in message
        assert rows(project, "select * from information_schema.tables where table_name = 'many'") == []
        # What made them fail is mended in 19 of the 20.
        assert costs(run_dbt(["retry", "--vars", "{whole: 29}"])) == {"many": (20, 10)}
        assert rows(project, "select odd, count(*) from {schema}.many group by odd order by odd") == [(True, 29), (None, 1)]
        # Only the failed one is asked again.
        results, output = run_dbt_and_capture(["run", "-s", "many", "--vars", "{whole: 29}"])
        assert costs(results) == {"many": (1, 29)}
        assert "30 rows, 1 asked, 29 recalled, 1 failed (NULL: quail answers --mock errors)" in output

    def test_clone_asks_nothing(self, project: Any, built: dict[str, Any], every_line: EveryLine, tmp_path: Path) -> None:
        for name in ("manifest.json", "run_results.json"):
            shutil.copy(Path(project.project_root, "target", name), tmp_path)
        before = len(every_line())
        run_dbt(["clone", "--state", str(tmp_path), "--target", "clone", "-s", "urgent", "fine", "counted"])
        assert len(every_line()) == before
        clones = project.test_schema + "_clone"
        cloned = f"select table_name, table_type from information_schema.tables where table_schema = '{clones}' order by 1"
        assert rows(project, cloned) == [("counted", "VIEW"), ("fine", "VIEW"), ("urgent", "VIEW")]
        assert rows(project, f"select id from {clones}.urgent") == [(1,)]
        assert get_artifact(project.project_root, "target", "run_results.json")["args"]["which"] == "clone"
