from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.incremental import test_incremental_microbatch
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import BaseMergeExcludeColumns
from dbt.tests.adapter.incremental.test_incremental_microbatch import BaseMicrobatch
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import BaseIncrementalOnSchemaChange
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey


class TestMergeExcludeColumns(BaseMergeExcludeColumns):
    pass


class TestMicrobatch(BaseMicrobatch):
    """DuckDB does not read `-0` as an offset from UTC, and dbt-duckdb refuses a `unique_key` that microbatch would ignore."""

    @pytest.fixture(scope="class")
    def microbatch_model_sql(self) -> str:
        return test_incremental_microbatch._microbatch_model_sql.replace("unique_key='id', ", "")

    @pytest.fixture(scope="class")
    def input_model_sql(self) -> str:
        return test_incremental_microbatch._input_model_sql.replace("-0'", "'")

    @pytest.fixture(scope="class")
    def insert_two_rows_sql(self, project: Any) -> str:
        rows = "(4, timestamp '2020-01-04 00:00:00'), (5, timestamp '2020-01-05 00:00:00')"
        return f"insert into {project.test_schema}.input_model (id, event_time) values {rows}"


class TestIncrementalOnSchemaChange(BaseIncrementalOnSchemaChange):
    pass


class TestIncrementalPredicates(BaseIncrementalPredicates):
    pass


class TestIncrementalUniqueKey(BaseIncrementalUniqueKey):
    pass
