"""View models with AI calls where the profile refuses them, and models that say otherwise for themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.artifacts.schemas.results import NodeStatus
from dbt.tests.util import run_dbt_and_capture

CALL = "select AI_FILTER('Does it say ''yes''?', 'oh yes') as said"


@pytest.fixture(scope="class")
def dbt_profile_target(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    database: Path = tmp_path_factory.mktemp("database") / "dev.duckdb"
    return {"type": "quail", "threads": 1, "path": str(database), "quail": {"engine": "mock", "ai_views": "error"}}


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    return {
        "by_profile.sql": CALL,
        "by_config.sql": "{{ config(quail_ai_views='table') }} " + CALL,
        "by_meta.sql": "{{ config(meta={'quail_ai_views': 'table'}) }} " + CALL,
        "mistyped.sql": "{{ config(quail_ai_views='tables') }} " + CALL,
        "plain.sql": "select 'AI_FILTER(x)' as text",
    }


def test_a_model_overrides_the_profile(project: Any) -> None:
    results, output = run_dbt_and_capture(["run"], expect_pass=False)
    status = {result.node.name: result.status for result in results}
    assert status["by_profile"] == status["mistyped"] == NodeStatus.Error
    assert status["by_config"] == status["by_meta"] == status["plain"] == NodeStatus.Success
    message = {result.node.name: result.message for result in results}
    assert "The view by_profile contains an AI call" in message["by_profile"]
    assert "materialized='table'" in message["by_profile"]
    assert "quail_ai_views must be one of table, error, not 'tables'" in message["mistyped"]
    assert output.count("by_config is configured as a view") == 1
