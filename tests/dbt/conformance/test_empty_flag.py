from __future__ import annotations

from typing import Any

import pytest
from dbt.cli.exceptions import DbtUsageException
from dbt.tests.adapter.empty.test_empty import (
    BaseTestEmpty,
    BaseTestEmptyInlineSourceRef,
    BaseTestEmptySeedFlag,
    MetadataWithEmptyFlag,
)


class TestEmptyFlag(BaseTestEmpty):
    pass


class TestEmptyFlagInlineSourceRef(BaseTestEmptyInlineSourceRef):
    pass


no_empty_seeds = pytest.mark.xfail(
    strict=True, raises=(DbtUsageException, AssertionError), reason="dbt-core 1.11 has no --empty for seeds"
)


class TestEmptySeedFlag(BaseTestEmptySeedFlag):
    @no_empty_seeds
    def test_seed_empty_creates_table_with_zero_rows(self, project: Any) -> None:
        super().test_seed_empty_creates_table_with_zero_rows(project)

    @no_empty_seeds
    def test_seed_empty_preserves_column_types(self, project: Any) -> None:
        super().test_seed_empty_preserves_column_types(project)

    @no_empty_seeds
    def test_build_empty_with_seed(self, project: Any) -> None:
        super().test_build_empty_with_seed(project)


class TestMetadataWithEmptyFlag(MetadataWithEmptyFlag):
    pass
