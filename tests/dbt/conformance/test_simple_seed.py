from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.adapter.simple_seed import fixtures, seeds
from dbt.tests.adapter.simple_seed.test_seed import (
    BaseBasicSeedTests,
    BaseSeedConfigFullRefreshOff,
    BaseSeedConfigFullRefreshOn,
    BaseSeedCustomSchema,
    BaseSeedParsing,
    BaseSeedSpecificFormats,
    BaseSeedWithEmptyDelimiter,
    BaseSeedWithUniqueDelimiter,
    BaseSeedWithWrongDelimiter,
    BaseSimpleSeedEnabledViaConfig,
    BaseSimpleSeedWithBOM,
    BaseTestEmptySeed,
)
from dbt.tests.adapter.simple_seed.test_seed_type_override import BaseSimpleSeedColumnOverride
from dbt.tests.util import run_dbt

views_stay = pytest.mark.xfail(
    strict=True, raises=AssertionError, reason="the fixture wants views dropped with their table; DuckDB keeps them"
)


class TestBasicSeed(BaseBasicSeedTests):
    @views_stay
    def test_simple_seed_full_refresh_flag(self, project: Any) -> None:
        super().test_simple_seed_full_refresh_flag(project)


class TestSeedConfigFullRefreshOn(BaseSeedConfigFullRefreshOn):
    @views_stay
    def test_simple_seed_full_refresh_config(self, project: Any) -> None:
        super().test_simple_seed_full_refresh_config(project)


class TestSeedConfigFullRefreshOff(BaseSeedConfigFullRefreshOff):
    pass


class TestSeedCustomSchema(BaseSeedCustomSchema):
    pass


class TestSeedWithUniqueDelimiter(BaseSeedWithUniqueDelimiter):
    pass


class TestSeedWithWrongDelimiter(BaseSeedWithWrongDelimiter):
    pass


class TestSeedWithEmptyDelimiter(BaseSeedWithEmptyDelimiter):
    pass


class TestSimpleSeedEnabledViaConfig(BaseSimpleSeedEnabledViaConfig):
    pass


class TestSeedParsing(BaseSeedParsing):
    pass


class TestSimpleSeedWithBOM(BaseSimpleSeedWithBOM):
    @pytest.fixture(scope="class", autouse=True)
    def setUp(self, project: Any) -> None:
        """The base class copies a file that its package does not ship. Here it is written from the table that it must equal."""
        project.run_sql(seeds.seeds__expected_sql)
        file = Path(project.project_root) / "seeds" / "seed_bom.csv"
        project.run_sql(f"copy {project.test_schema}.seed_expected to '{file}' (format csv, header true)")
        file.write_bytes(BOM_UTF8 + file.read_bytes())


class TestSeedSpecificFormats(BaseSeedSpecificFormats):
    pass


class TestEmptySeed(BaseTestEmptySeed):
    pass


class TestSimpleSeedColumnOverride(BaseSimpleSeedColumnOverride):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        """The base class's, with types as DuckDB's columns name them."""
        properties = fixtures.properties__schema_yml.replace("timestamp without time zone", "timestamp")
        for name in ("date", "integer", "boolean", "timestamp"):
            properties = properties.replace(f"type: {name}\n", f"type: {name.upper()}\n")
        return {"schema.yml": properties.replace("type: text", "type: character varying(256)")}


class TestNull:
    """The word null is NULL in every column, in one COPY as in inserts of what dbt read."""

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {f"{name}.csv": 'n,body\n1,null\nnull,"a null, quoted"\n3,NULL\n,\n' for name in ("fast", "slow")}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"seeds": {"test": {"slow": {"+fast": False}}}}

    def test_null(self, project: Any) -> None:
        run_dbt(["seed"])
        expected = [(1, None), (3, None), (None, "a null, quoted"), (None, None)]
        for name in ("fast", "slow"):
            rows = project.run_sql(f"select n, body from {{schema}}.{name} order by n, body", fetch="all")
            assert rows == expected
