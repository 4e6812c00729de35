from __future__ import annotations

from typing import Any

import duckdb
import pytest
from dbt.tests.adapter.simple_copy.test_copy_uppercase import BaseSimpleCopyUppercase
from dbt.tests.adapter.simple_copy.test_simple_copy import EmptyModelsArentRunBase, SimpleCopyBase


class TestSimpleCopy(SimpleCopyBase):
    @pytest.mark.xfail(strict=True, raises=duckdb.ParserException, reason="DuckDB has no materialized views")
    def test_simple_copy_with_materialized_views(self, project: Any) -> None:
        super().test_simple_copy_with_materialized_views(project)


class TestEmptyModelsArentRun(EmptyModelsArentRunBase):
    pass


class TestSimpleCopyUppercase(BaseSimpleCopyUppercase):
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
        database = tmp_path_factory.mktemp("database") / "dbtMixedCase.duckdb"
        return {"type": "quail", "threads": 4, "path": str(database), "quail": {"engine": "mock"}}
