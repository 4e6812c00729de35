from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.caching.test_caching import (
    BaseCachingLowercaseModel,
    BaseCachingSelectedSchemaOnly,
    BaseCachingUppercaseModel,
    BaseNoPopulateCache,
)


class TestCachingLowercaseModel(BaseCachingLowercaseModel):
    pass


class TestCachingUppercaseModel(BaseCachingUppercaseModel):
    @pytest.mark.xfail(
        strict=True, raises=AssertionError, reason="DuckDB keeps the capitals of an unquoted name; dbt looks for small letters"
    )
    def test_cache(self, project: Any) -> None:
        super().test_cache(project)


class TestCachingSelectedSchemaOnly(BaseCachingSelectedSchemaOnly):
    pass


class TestNoPopulateCache(BaseNoPopulateCache):
    pass
