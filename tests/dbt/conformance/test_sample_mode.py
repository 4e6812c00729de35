import pytest
from dbt.tests.adapter.sample_mode import fixtures
from dbt.tests.adapter.sample_mode.test_sample_mode import BaseSampleModeTest


class TestSampleMode(BaseSampleModeTest):
    @pytest.fixture(scope="class")
    def input_model_sql(self) -> str:
        return fixtures.input_model_sql.replace("-0'", "'")  # DuckDB does not read `-0` as an offset from UTC
