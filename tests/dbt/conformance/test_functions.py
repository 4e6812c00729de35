"""Function nodes. DuckDB's functions are SQL macros, scalar or aggregate; Python and JavaScript are refused."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.artifacts.schemas.results import RunStatus
from dbt.tests.adapter.functions import files
from dbt.tests.adapter.functions.test_udafs import BasicSQLUDAF
from dbt.tests.adapter.functions.test_udfs import (
    CanFindScalarFunctionRelation,
    DeterministicUDF,
    ErrorForUnsupportedType,
    NonDeterministicUDF,
    PythonUDFEntryPointRequired,
    PythonUDFNotSupported,
    PythonUDFRuntimeVersionRequired,
    SqlUDFDefaultArgSupport,
    StableUDF,
    UDFsBasic,
)
from dbt.tests.util import run_dbt, run_dbt_and_capture


class TestUDFsBasic(UDFsBasic):
    pass


class VolatilityIgnored:
    """A macro is as volatile as the expression it stands for."""

    def check_function_volatility(self, sql: str) -> None:
        for word in ("IMMUTABLE", "STABLE", "VOLATILE"):
            assert word not in sql

    def test_the_user_is_told(self, project: Any) -> None:
        _, output = run_dbt_and_capture(["build"])
        assert "volatility specified on function `price_for_xlarge`" in output
        assert "not supported by quail, and will be ignored" in output


class TestDeterministicUDF(VolatilityIgnored, DeterministicUDF):
    pass


class TestStableUDF(VolatilityIgnored, StableUDF):
    pass


class TestNonDeterministicUDF(VolatilityIgnored, NonDeterministicUDF):
    pass


class TestErrorForUnsupportedType(ErrorForUnsupportedType):
    pass


class TestPythonUDFNotSupported(PythonUDFNotSupported):
    def test_udfs(self, project: Any, sql_event_catcher: Any) -> None:
        (result,) = run_dbt(["build"], expect_pass=False)
        assert result.status == RunStatus.Error
        assert "The function price_for_xlarge (functions/price_for_xlarge.py) is written in Python" in result.message
        assert "Write it as an SQL expression in price_for_xlarge.sql" in result.message


class TestPythonUDFRuntimeVersionRequired(PythonUDFRuntimeVersionRequired):
    pass


class TestPythonUDFEntryPointRequired(PythonUDFEntryPointRequired):
    pass


class TestSqlUDFDefaultArgSupport(SqlUDFDefaultArgSupport):
    def test_udfs(self, project: Any, sql_event_catcher: Any) -> None:
        # The base class looks for the words DEFAULT 100; DuckDB writes := 100.
        run_dbt(["build"])
        (result,) = run_dbt(["show", "--inline", "select {{ function('price_for_xlarge') }}() as price"])
        assert result.agate_table.rows[0].values()[0] == 200


class TestCanFindScalarFunctionRelation(CanFindScalarFunctionRelation):
    @pytest.mark.xfail(
        strict=True,
        raises=AssertionError,
        reason="dbt-duckdb lists tables and views; DuckDB lets a function and a table share a name, which dbt's cache does not",
    )
    def test_udfs(self, project: Any, adapter: Any) -> None:
        super().test_udfs(project, adapter)


class TestSQLUDAF(BasicSQLUDAF):
    def is_function_create_event(self, event: Any) -> bool:
        # DuckDB has no AGGREGATE in CREATE FUNCTION: any macro may aggregate.
        return event.data.node_info.node_name == "sum_squared" and "CREATE OR REPLACE FUNCTION" in event.data.sql


class TestBodies:
    """What the base classes leave out: expressions, comments, a semicolon, the type of the result, functions of functions."""

    @pytest.fixture(scope="class")
    def functions(self) -> dict[str, str]:
        return {
            "twice.sql": "price * 2 -- doubled",
            "four_times.sql": "select {{ function('twice') }}({{ function('twice') }}(price));\n",
            "functions.yml": files.MY_UDF_YML.replace("price_for_xlarge", "twice")
            + files.MY_UDF_YML.replace("price_for_xlarge", "four_times").replace("functions:", "").replace("float", "integer"),
        }

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"priced.sql": "select {{ function('four_times') }}(3) as n, typeof({{ function('four_times') }}(3)) as type"}

    def test_bodies(self, project: Any) -> None:
        run_dbt(["build"])
        run_dbt(["build"])  # and again over what exists
        assert project.run_sql("select n, type from {schema}.priced", fetch="all") == [(12, "INTEGER")]


class TestAFunctionThatAsks:
    @pytest.fixture(scope="class")
    def functions(self) -> dict[str, str]:
        return {
            "urgent.sql": "AI_FILTER('Is it urgent?', price)",
            "f.yml": files.MY_UDF_YML.replace("price_for_xlarge", "urgent"),
        }

    def test_an_ai_call_in_a_function_is_refused(self, project: Any) -> None:
        (result,) = run_dbt(["build"], expect_pass=False)
        assert "An AI call cannot stand here in a CREATE statement" in result.message
        assert "Write instead: a table with the answers first" in result.message
