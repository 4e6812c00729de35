"""What a dbt node and dbt's variables say to quail: keys `quail_…` of a node's config or `meta`, and variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from quail_engine import OVERRIDES, Settings, SettingsError

_VARIABLES = ("refresh", "sample", "on_prompt_change")
_CONFIG = (*OVERRIDES, "refresh", "on_prompt_change", "key")


def value(config: Any, name: str) -> Any:
    """The node's `quail_<name>`, from its config or its `meta`; None where neither names it."""
    key, meta = f"quail_{name}", config.get("meta")
    # `meta` first: dbt warns of `config.get` for a key that stands there.
    return meta[key] if isinstance(meta, Mapping) and key in meta else config.get(key)


def overrides(config: Any, settings: Settings) -> dict[str, Any]:
    """The settings that the node sets for itself, checked. Raises DbtRuntimeError."""
    own = getattr(config.model, "config", None)
    for keys in (getattr(own, "_extra", None), getattr(own, "meta", None)):
        _refuse_unknown(keys, _CONFIG, f"key in the config of {config.model.name}", "")
    found = {name: value(config, name) for name in OVERRIDES}
    try:
        settings.with_overrides(found)
    except SettingsError as error:
        raise DbtRuntimeError(f"In the config of {config.model.name}: quail_{error}") from error
    return found


def dialect(config: Any, settings: Settings) -> str:
    """The dialect of the node's own SQL: what it names, else the profile's; DuckDB's for what dbt, a macro or a hook writes."""
    model = config.model
    generic_test, python = getattr(model, "test_metadata", None) is not None, getattr(model, "language", "sql") != "sql"
    written_by_dbt = generic_test or python or model.resource_type in ("macro", "operation")
    return "duckdb" if written_by_dbt else settings.with_overrides(overrides(config, settings)).sql_dialect


def fixtures(model: Any) -> tuple[str, ...]:
    """The queries that dbt has written into a unit test's SQL, of rows that are no SQL; each is in brackets there."""
    written = [cte.sql for cte in getattr(model, "extra_ctes", None) or () if "-- Fixture for " in (cte.sql or "")]
    return tuple(sql[sql.index("(") + 1 : sql.rindex(")")] for sql in written)


Refresh = bool | datetime
"""Whether to ask again what was answered before this invocation, or what was answered before a moment."""


def refreshes(config: Any, variable: Any) -> Refresh:
    """By the node's own word, else by the variable's."""
    own = value(config, "refresh")
    return refresh(variable if own is None else own)


def refresh(found: Any) -> Refresh:
    """What `quail_refresh` says. Raises DbtRuntimeError for what is neither yes, no nor a moment."""
    try:
        if isinstance(found, (str, date)):  # YAML makes a date of what looks like one
            return datetime.fromisoformat(str(found))
    except ValueError:
        pass
    if found not in (None, True, False):
        example = "'2026-01-31 09:00'"
        raise DbtRuntimeError(f"quail_refresh must be true, false or a moment such as {example}, not {found!r}.")
    return bool(found)


def check_variables(config: Any) -> None:
    """A misspelt variable of the command line would be a refresh that does not happen. Raises DbtRuntimeError."""
    budgets = " Budgets stand in the profile's quail: block or in a model's config."
    _refuse_unknown(getattr(config, "cli_vars", None), _VARIABLES, "variable", budgets)


def _refuse_unknown(given: Any, known: Iterable[str], what: str, more: str) -> None:
    for name in given if isinstance(given, Mapping) else ():
        if str(name).startswith("quail_") and str(name).removeprefix("quail_") not in known:
            listed = ", ".join(f"quail_{each}" for each in known)
            raise DbtRuntimeError(f"Unknown {what}: {name}. Names that begin with quail_ are this adapter's: {listed}.{more}")


def variable(config: Any, name: str) -> Any:
    """A dbt variable: of the command line, else of dbt_project.yml; None where there is none."""
    given = getattr(config, "cli_vars", None) or {}
    provider = getattr(config, "vars", None)
    project = getattr(provider, "vars", None) or {}
    own = project.get(getattr(config, "project_name", ""), None) or {}
    return given.get(name, own.get(name, project.get(name)))


def share(config: Any) -> float:
    """The share of rows to read: the variable quail_sample, else the target's setting `sample`. Raises DbtRuntimeError."""
    settings: Settings = config.credentials.engine_settings()
    found = variable(config, "quail_sample")
    try:
        return settings.with_overrides({"sample": found}).sample
    except SettingsError as error:
        raise DbtRuntimeError(f"The variable quail_sample: {error}") from error
