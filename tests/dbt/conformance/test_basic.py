from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.basic.expected_catalog import base_expected_catalog, expected_references_catalog, no_stats
from dbt.tests.adapter.basic.test_adapter_methods import BaseAdapterMethod
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_docs_generate import BaseDocsGenerate, BaseDocsGenReferences
from dbt.tests.adapter.basic.test_empty import BaseEmpty
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_get_catalog_for_single_relation import BaseGetCatalogForSingleRelation
from dbt.tests.adapter.basic.test_incremental import (
    BaseIncremental,
    BaseIncrementalBadStrategy,
    BaseIncrementalNotSchemaChange,
)
from dbt.tests.adapter.basic.test_singular_tests import BaseSingularTests
from dbt.tests.adapter.basic.test_singular_tests_ephemeral import BaseSingularTestsEphemeral
from dbt.tests.adapter.basic.test_snapshot_check_cols import BaseSnapshotCheckCols
from dbt.tests.adapter.basic.test_snapshot_timestamp import BaseSnapshotTimestamp
from dbt.tests.adapter.basic.test_table_materialization import BaseTableMaterialization
from dbt.tests.adapter.basic.test_validate_connection import BaseValidateConnection
from dbt_common.contracts.metadata import CatalogTable, ColumnMetadata, TableMetadata

# The names of DuckDB's types in the catalog, and its owner, which it does not have.
CATALOG = {
    "role": None,
    "id_type": "INTEGER",
    "text_type": "VARCHAR",
    "time_type": "TIMESTAMP",
    "view_type": "VIEW",
    "table_type": "BASE TABLE",
}


class TestAdapterMethod(BaseAdapterMethod):
    pass


class TestSimpleMaterializations(BaseSimpleMaterializations):
    pass


class TestDocsGenerate(BaseDocsGenerate):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any) -> Any:
        return base_expected_catalog(project, model_stats=no_stats(), **CATALOG)


class TestDocsGenReferences(BaseDocsGenReferences):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any) -> Any:
        return expected_references_catalog(project, model_stats=no_stats(), bigint_type="BIGINT", **CATALOG)


class TestEmpty(BaseEmpty):
    pass


class TestEphemeral(BaseEphemeral):
    pass


class TestGenericTests(BaseGenericTests):
    pass


def seed_catalog(project: Any, name: str, kind: str) -> CatalogTable:
    columns = [("id", "INTEGER"), ("first_name", "VARCHAR"), ("email", "VARCHAR"), ("ip_address", "VARCHAR")]
    columns.append(("updated_at", "TIMESTAMP"))
    return CatalogTable(
        metadata=TableMetadata(type=kind, schema=project.test_schema, name=name, database=project.database),
        columns={n: ColumnMetadata(type=t, index=i, name=n) for i, (n, t) in enumerate(columns, 1)},
        stats={},
    )


class TestGetCatalogForSingleRelation(BaseGetCatalogForSingleRelation):
    @pytest.fixture(scope="class")
    def expected_catalog_my_seed(self, project: Any) -> CatalogTable:
        return seed_catalog(project, "my_seed", "BASE TABLE")

    @pytest.fixture(scope="class")
    def expected_catalog_my_view_model(self, project: Any) -> CatalogTable:
        return seed_catalog(project, "my_view_model", "VIEW")


class TestIncremental(BaseIncremental):
    pass


class TestIncrementalBadStrategy(BaseIncrementalBadStrategy):
    @pytest.mark.xfail(
        strict=True,
        raises=AssertionError,
        reason="dbt-duckdb looks for the strategy in later runs only; the fixture runs once",
    )
    def test_incremental_invalid_strategy(self, project: Any) -> None:
        super().test_incremental_invalid_strategy(project)


class TestIncrementalNotSchemaChange(BaseIncrementalNotSchemaChange):
    pass


class TestSingularTests(BaseSingularTests):
    pass


class TestSingularTestsEphemeral(BaseSingularTestsEphemeral):
    pass


class TestSnapshotCheckCols(BaseSnapshotCheckCols):
    pass


class TestSnapshotTimestamp(BaseSnapshotTimestamp):
    pass


class TestTableMaterialization(BaseTableMaterialization):
    pass


class TestValidateConnection(BaseValidateConnection):
    pass
