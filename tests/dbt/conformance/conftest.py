"""The database is named `dbt`, as the base classes expect. All is slow but the few classes that tell most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

EVERYDAY = frozenset(
    {
        "test_complete.py",
        *("TestAdapterMethod", "TestSimpleMaterializations", "TestValidateConnection", "TestAliases", "TestEmpty"),
        *("TestEphemeral", "TestGenericTests", "TestGetCatalogForSingleRelation", "TestDocsGenReferences"),
        *("TestIncremental", "TestMicrobatch", "TestMergeExcludeColumns", "TestSnapshotCheckCols", "TestSnapshotTimestamp"),
        *("TestConstraintsRollback", "TestIncrementalContractSqlHeader", "TestPersistDocs", "TestCachingLowercaseModel"),
        *("TestUDFsBasic", "TestSQLUDAF", "TestBodies", "TestAFunctionThatAsks", "TestPythonUDFNotSupported"),
        *("TestPrePostModelHooks", "TestPrePostRunHooks", "TestAfterRunHooks", "TestQueryComments"),
        *("TestPythonModel", "TestPythonIncremental", "TestShowLimit", "TestNull"),
        *("TestStoreTestFailures", "TestUnitTestInvalidInput"),
    }
)


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.parent is not None and item.parent.name not in EVERYDAY:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="class")
def dbt_profile_target(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    database = tmp_path_factory.mktemp("database") / "dbt.duckdb"
    return {"type": "quail", "threads": 4, "path": str(database), "quail": {"engine": "mock"}}
