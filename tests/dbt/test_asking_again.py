"""What dbt's variables and a model's config say about asking: refresh, budgets, and the failures that are listed afterwards."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt, run_dbt_and_capture
from dbt_common.exceptions import DbtRuntimeError

from quail_engine.cli import main

CALL = "select i, AI_FILTER('{question}', 'text ' || i) as a from range(30) r(i)"
TABLE = "{{ config(materialized='table', %s) }} "


@pytest.fixture(scope="class")
def dbt_profile_target(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    database = tmp_path_factory.mktemp("database") / "dev.duckdb"
    quail = {"engine": "mock", "max_requests": {"statement": 50, "run": 1_000}, "mock_fail": "text 7"}
    return {"type": "quail", "threads": 2, "path": str(database), "quail": quail}


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    incremental = "{{ config(materialized='incremental', unique_key='i') }} "
    return {
        "one.sql": TABLE % "" + CALL.format(question="one"),
        "same.sql": TABLE % "" + CALL.format(question="one"),
        "grows.sql": incremental + CALL.format(question="grows"),
        "again.sql": TABLE % "quail_refresh=true" + CALL.format(question="again"),
        "poor.sql": TABLE % "quail_max_requests=10, tags=['wrong']" + CALL.format(question="poor"),
        "rich.sql": TABLE % "meta={'quail_max_requests': 60}" + CALL.format(question="rich").replace("30", "60"),
        "unknown.sql": TABLE % "quail_max_request=1, tags=['wrong']" + CALL.format(question="unknown"),
        "typo.sql": TABLE % "quail_max_tokens={'modell': 1}, tags=['wrong']" + CALL.format(question="typo"),
    }


def asked(results: Any) -> dict[str, int]:
    return {result.node.name: result.adapter_response["asked"] for result in results}


def test_asking_again(project: Any) -> None:
    good = ["--exclude", "tag:wrong"]
    first = asked(run_dbt(["run", *good]))
    assert first.pop("one") + first.pop("same") in (30, 31)  # the row that fails may be asked by both
    assert first == {"grows": 30, "again": 30, "rich": 60}
    failed = {"one": 1, "same": 1, "grows": 1, "again": 30, "rich": 1}  # a failed row is asked again by every run
    assert asked(run_dbt(["run", "--full-refresh", *good])) == failed
    results, output = run_dbt_and_capture(["run", "--vars", "{quail_refresh: true}", *good])
    again = asked(results)
    assert 30 <= again.pop("one") + again.pop("same") <= 32
    assert again == {"grows": 30, "again": 30, "rich": 60}
    assert "a refresh would re-ask 29 inputs that have an answer" in output
    assert "config.meta_get" not in output
    moment = re.search(r"quail_refresh: '(.*?)' in place of true goes on", output)
    assert moment
    for since, answered in ((moment[1], failed), ("2020-01-01", failed), ("2999-01-01 09:00", again | {"one": 30, "same": 0})):
        results = asked(run_dbt(["run", "--vars", f"{{quail_refresh: {since}}}", *good]))
        assert results | {"one": 0, "same": 0} == answered | {"again": 30, "one": 0, "same": 0}, since
    with pytest.raises(DbtRuntimeError, match=r"quail_refresh must be true, false or a moment .*, not 'perhaps'"):
        run_dbt(["run", "--select", "one", "--vars", "{quail_refresh: perhaps}"], expect_pass=False)
    with pytest.raises(DbtRuntimeError, match=r"Unknown variable: quail_refesh\. .*: quail_refresh, quail_sample"):
        run_dbt(["run", "--select", "one", "--vars", "{quail_refesh: true}"], expect_pass=False)

    errors = run_dbt(["run", "--select", "tag:wrong"], expect_pass=False)
    message = {result.node.name: result.message for result in errors}
    assert "asking 30 " in message["poor"]
    assert "would take this model over the setting max_requests (10); nothing of it was asked" in message["poor"]
    assert "Unknown key in the config of unknown: quail_max_request." in message["unknown"]
    assert "In the config of typo: quail_max_tokens has no part 'modell' (did you mean 'model'?)" in message["typo"]

    path = Path(project.project_root) / ".quail" / "answers"
    listed = CliRunner(env={"COLUMNS": "200"}).invoke(main, ["answers", "--path", str(path), "--mock", "errors"])
    assert "model.test.rich" in listed.output
    assert listed.output.count("the engine gave no finite number") == 4
    stats = CliRunner().invoke(main, ["answers", "--path", str(path), "stats"])
    assert "quail answers --mock stats" in stats.output
