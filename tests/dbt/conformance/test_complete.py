"""Every public base class of dbt-tests-adapter is tested here, or is listed with the reason why it does not apply."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import dbt.tests.adapter

HERE = Path(__file__).parent

NO_MATERIALIZED_VIEW = "DuckDB has no materialized views"
NO_USERS = "DuckDB has no users to grant anything to"
SQL_FUNCTIONS_ONLY = "DuckDB keeps functions in SQL only; TestPythonUDFNotSupported holds the refusal"
DOES_NOT_APPLY = {
    "MaterializedViewBasic": NO_MATERIALIZED_VIEW,
    "MaterializedViewChanges": NO_MATERIALIZED_VIEW,
    "MaterializedViewChangesApplyMixin": NO_MATERIALIZED_VIEW,
    "MaterializedViewChangesContinueMixin": NO_MATERIALIZED_VIEW,
    "MaterializedViewChangesFailMixin": NO_MATERIALIZED_VIEW,
    "BaseIncrementalGrants": NO_USERS,
    "BaseInvalidGrants": NO_USERS,
    "BaseModelGrants": NO_USERS,
    "BaseSeedGrants": NO_USERS,
    "BaseSnapshotGrants": NO_USERS,
    "BasicJSUDF": SQL_FUNCTIONS_ONLY,
    "JSUDFMultiLineBody": SQL_FUNCTIONS_ONLY,
    "JSUDFDeterministicVolatility": SQL_FUNCTIONS_ONLY,
    "JSUDFNonDeterministicVolatility": SQL_FUNCTIONS_ONLY,
    "JSUDFStableVolatilityWarns": SQL_FUNCTIONS_ONLY,
    "JSUDFDefaultArgSupport": SQL_FUNCTIONS_ONLY,
    "BasicJSAggregateUDF": SQL_FUNCTIONS_ONLY,
    "JSAggregateUDFVolatilityIgnored": SQL_FUNCTIONS_ONLY,
    "BasicPythonUDAF": SQL_FUNCTIONS_ONLY,
    "PythonUDAFDefaultArgSupport": SQL_FUNCTIONS_ONLY,
    "PythonUDFSupported": SQL_FUNCTIONS_ONLY,
    "PythonUDFDefaultArgSupport": SQL_FUNCTIONS_ONLY,
    "PythonUDFVolatilitySupport": SQL_FUNCTIONS_ONLY,
    "PythonUDFWithPackagesSupported": SQL_FUNCTIONS_ONLY,
    "BaseClonePossible": "DuckDB copies no table without its rows; TestCloneNotPossible is its counterpart",
    "BaseCloneSameSourceAndTarget": "looks for a message of adapters that clone tables",
    "BaseCurrentTimestampNaive": "DuckDB's current timestamp has a time zone; TestCurrentTimestampAware is its counterpart",
    "BaseEscapeSingleQuotesBackslash": "DuckDB doubles quotes; TestEscapeSingleQuotesQuote is its counterpart",
    "BasePySparkTests": "for data frames of Spark",
}


def base_classes() -> Iterator[type]:
    root = Path(next(iter(dbt.tests.adapter.__path__)))
    for file in sorted(root.rglob("*.py")):
        name = ".".join(("dbt.tests.adapter", *file.relative_to(root).with_suffix("").parts))
        for found in vars(importlib.import_module(name.removesuffix(".__init__"))).values():
            if inspect.isclass(found) and found.__module__ == name and not found.__name__.startswith(("Test", "_")):
                yield found


def classes_here() -> list[type]:
    names = [file.stem for file in HERE.glob("test_*.py") if file != Path(__file__)]
    modules = [importlib.import_module(f"{__package__}.{name}") for name in names]
    return [found for module in modules for name, found in vars(module).items() if name.startswith("Test")]


def test_every_base_class_is_tested_or_does_not_apply() -> None:
    tested = classes_here()
    untested = [
        base.__name__
        for base in base_classes()
        if any(name.startswith("test") for name in dir(base)) and not any(issubclass(test, base) for test in tested)
    ]
    assert sorted(untested) == sorted(DOES_NOT_APPLY)
