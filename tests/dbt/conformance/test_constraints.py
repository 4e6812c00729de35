from __future__ import annotations

import pytest
from dbt.tests.adapter.constraints.test_constraints import (
    BaseConstraintQuotedColumn,
    BaseConstraintsRollback,
    BaseConstraintsRuntimeDdlEnforcement,
    BaseIncrementalConstraintsColumnsEqual,
    BaseIncrementalConstraintsRollback,
    BaseIncrementalConstraintsRuntimeDdlEnforcement,
    BaseIncrementalContractSqlHeader,
    BaseIncrementalForeignKeyConstraint,
    BaseModelConstraintsRuntimeEnforcement,
    BaseTableConstraintsColumnsEqual,
    BaseTableContractSqlHeader,
    BaseViewConstraintsColumnsEqual,
)


class DuckDBTypes:
    """Values in DuckDB's syntax, the contract's type for each, and the name that DuckDB gives it in the error."""

    @pytest.fixture
    def string_type(self) -> str:
        return "VARCHAR"

    @pytest.fixture
    def data_types(self, schema_int_type: str, int_type: str, string_type: str) -> list[list[str]]:
        return [
            ["1", schema_int_type, int_type],
            ["'1'", string_type, string_type],
            ["true", "bool", "BOOL"],
            ["'2013-11-03 00:00:00-07'::timestamptz", "timestamptz", "TIMESTAMP WITH TIME ZONE"],
            ["'2013-11-03 00:00:00-07'::timestamp", "timestamp", "TIMESTAMP"],
            ["['a', 'b']", "varchar[]", "VARCHAR[]"],
            ["[1, 2]", "int[]", "INTEGER[]"],
            ["'1'::numeric", "numeric", "DECIMAL"],
            ["""'{"active": false}'::json""", "json", "JSON"],
        ]


class NotNullMessage:
    @pytest.fixture(scope="class")
    def expected_error_messages(self) -> list[str]:
        return ["NOT NULL constraint failed"]


class TestConstraintQuotedColumn(BaseConstraintQuotedColumn):
    pass


class TestConstraintsRollback(NotNullMessage, BaseConstraintsRollback):
    pass


class TestConstraintsRuntimeDdlEnforcement(BaseConstraintsRuntimeDdlEnforcement):
    pass


class TestTableConstraintsColumnsEqual(DuckDBTypes, BaseTableConstraintsColumnsEqual):
    pass


class TestViewConstraintsColumnsEqual(DuckDBTypes, BaseViewConstraintsColumnsEqual):
    pass


class TestIncrementalConstraintsColumnsEqual(DuckDBTypes, BaseIncrementalConstraintsColumnsEqual):
    pass


class TestIncrementalConstraintsRuntimeDdlEnforcement(BaseIncrementalConstraintsRuntimeDdlEnforcement):
    pass


class TestIncrementalConstraintsRollback(NotNullMessage, BaseIncrementalConstraintsRollback):
    pass


class TestTableContractSqlHeader(BaseTableContractSqlHeader):
    pass


class TestIncrementalContractSqlHeader(BaseIncrementalContractSqlHeader):
    pass


class TestModelConstraintsRuntimeEnforcement(BaseModelConstraintsRuntimeEnforcement):
    pass


class TestIncrementalForeignKeyConstraint(BaseIncrementalForeignKeyConstraint):
    pass
