"""Python models run in this process and are given DuckDB relations; the base classes' are written for data frames of Spark."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.python_model import test_python_model as base
from dbt.tests.adapter.python_model.test_python_model import (
    BasePythonEmptyTests,
    BasePythonIncrementalTests,
    BasePythonMetaGetTests,
    BasePythonModelTests,
    BasePythonSampleTests,
)


class TestPythonModel(BasePythonModelTests):
    pass


class TestPythonIncremental(BasePythonIncrementalTests):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"m_1.sql": base.m_1, "incremental.py": base.incremental_python.replace("df.id > 5", "'id > 5'")}


def with_pandas(model: str) -> str:
    return "import pandas\n" + model.replace("session.createDataFrame(data, ", "pandas.DataFrame(data, columns=")


class TestPythonMetaGet(BasePythonMetaGetTests):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "meta_test.py": with_pandas(base.python_model_meta_get),
            "meta_from_schema.py": with_pandas(base.python_model_meta_from_schema),
            "schema.yml": base.schema_yml_with_meta,
        }


class Times:
    """DuckDB does not read `-0` as an offset from UTC."""

    @pytest.fixture(scope="class")
    def input_model_sql(self) -> str:
        return base._input_model_sql.replace("-0'", "'")


class TestPythonEmpty(Times, BasePythonEmptyTests):
    pass


class TestPythonSample(Times, BasePythonSampleTests):
    pass
