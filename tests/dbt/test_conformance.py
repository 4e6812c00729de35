"""dbt's own adapter tests, on statements without an AI call: what an adapter must do whatever its database adds."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.basic.test_adapter_methods import BaseAdapterMethod
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_empty import BaseEmpty
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_get_catalog_for_single_relation import BaseGetCatalogForSingleRelation
from dbt.tests.adapter.basic.test_incremental import BaseIncremental
from dbt.tests.adapter.basic.test_snapshot_check_cols import BaseSnapshotCheckCols
from dbt.tests.adapter.basic.test_validate_connection import BaseValidateConnection
from dbt_common.contracts.metadata import CatalogTable, ColumnMetadata, TableMetadata


class TestSimpleMaterializations(BaseSimpleMaterializations):
    pass


class TestEmpty(BaseEmpty):
    pass


class TestEphemeral(BaseEphemeral):
    pass


class TestIncremental(BaseIncremental):
    pass


class TestGenericTests(BaseGenericTests):
    pass


class TestSnapshotCheckCols(BaseSnapshotCheckCols):
    pass


class TestAdapterMethod(BaseAdapterMethod):
    pass


class TestValidateConnection(BaseValidateConnection):
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
    @classmethod
    def expected_catalog_my_seed(cls, project: Any) -> CatalogTable:
        return seed_catalog(project, "my_seed", "BASE TABLE")

    @pytest.fixture(scope="class")
    @classmethod
    def expected_catalog_my_view_model(cls, project: Any) -> CatalogTable:
        return seed_catalog(project, "my_view_model", "VIEW")
