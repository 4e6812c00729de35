"""Fixtures that more than one test file uses: data and models that are not part of the repository, and golden texts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

# Before NumPy is imported. Tests run in as many processes as there are cores; threads of its library would spin for them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import duckdb
import pytest
from hypothesis import HealthCheck, settings

import quail_engine
from quail_engine import Connection

# Project fixtures of dbt's own adapter tests; pytest accepts this name in the top-level conftest only.
pytest_plugins = ["dbt.tests.fixtures.project"]

# What is drawn is the same in every run, and no example fails because the machine had no time for it. Long runs that go on
# looking (QUAIL_FUZZ, QUAIL_DIFFERENTIAL) have settings of their own.
settings.register_profile(
    "quail",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("quail")

REPOSITORY = Path(__file__).resolve().parent.parent
GOLDEN = REPOSITORY / "tests" / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the texts under tests/golden; review them as a diff")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of public data sets (Parquet) that are not in the repository: $QUAIL_DATA, or shared/data beside the checkout."""
    folder = Path(os.environ.get("QUAIL_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no data sets at {folder}: set QUAIL_DATA to their folder")
    return folder


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Converted folders of tiny random models, by their names in `reference.requests`."""
    from reference.decoder import write_tiny_folder
    from reference.requests import TINY_MODELS

    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            architecture, changes = TINY_MODELS[name]
            made[name] = write_tiny_folder(tmp_path_factory.mktemp("models") / "model", architecture, **changes)
        return made[name]

    return folder


@pytest.fixture(scope="session")
def model_folder() -> Callable[[str], Path]:
    """Gives the converted folder of a model of the registry, or skips the test where the weights are not on this machine."""
    from quail_engine.errors import ModelError
    from quail_engine.models import find

    def folder(name: str) -> Path:
        try:
            return Path(find(name, None).path)
        except ModelError as error:
            pytest.skip(f"no weights of {name} here: {error}")

    return folder


@pytest.fixture(scope="session", autouse=True)
def _own_rates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests measure of this machine, while others do the same, is not kept for the user."""
    from quail_engine.engine import machine_files

    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setattr(machine_files, "user_cache", lambda: folder)
        yield


@pytest.fixture(scope="module")
def oracle(request: pytest.FixtureRequest) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the mock's rules as functions of its own, which evaluates calls row by row: the module's TABLES."""
    with quail_engine.oracle() as connection:
        connection.execute(request.module.TABLES)
        yield connection


@pytest.fixture(scope="module")
def database(request: pytest.FixtureRequest) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with the module's TABLES, on which session after session stands."""
    with duckdb.connect() as connection:
        connection.execute(request.module.TABLES)
        yield connection


@pytest.fixture
def con(database: duckdb.DuckDBPyConnection) -> Iterator[Connection]:
    """A session of the mock's, without answers, on the module's TABLES."""
    with quail_engine.connect(database, engine="mock") as connection:
        yield connection


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def golden(update_golden: bool) -> Callable[[str, str], None]:
    """Compares a text with `tests/golden/<name>`; with --update-golden writes it there instead."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update_golden:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} does not exist: run pytest --update-golden and review the file"
        assert text == path.read_text(encoding="utf-8")

    return compare
