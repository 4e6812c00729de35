"""One frozen settings object, validated in one place; unknown keys raise and list the known ones."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from quail_engine.errors import SettingsError

DIALECTS = ("duckdb", "snowflake", "bigquery", "databricks")
"""Of SQL texts; the first is native."""

_CHOICES: dict[str, tuple[str, ...]] = {
    "engine": ("local", "mock"),
    "tokens": ("run", "keep", "off"),
    "on_overlong": ("null", "error", "truncate"),
    "sql_dialect": DIALECTS,
    "ai_views": ("table", "error"),
    "dtype": ("auto", "float32", "bfloat16"),
}
_ANSWERS_MODES = ("read_write", "read_only", "off")


def user_cache() -> Path:
    """Our part of the user's cache: ~/.cache/quail, or where XDG and macOS want it."""
    if root := os.environ.get("XDG_CACHE_HOME"):
        return Path(root) / "quail"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "quail"


def is_url(place: str) -> bool:
    """Whether a place for answers is a URL, such as s3://bucket/answers, and not a folder."""
    return "://" in place


@dataclass(frozen=True)
class AnswersSettings:
    """Where answers are kept. `path` None means memory only: nothing outlives the session."""

    path: str | None = ".quail/answers"  # folder, absolute or relative to the working directory, or a URL
    mode: str = "read_write"  # read_only recalls but never writes; off does neither
    shared: tuple[str, ...] = ()  # folders and URLs of other stores, which are recalled from and never written
    group_readable: bool = False  # the group may read the files


@dataclass(frozen=True)
class Budget:
    """What may be spent on asking, in the unit of the setting that holds it; None is no limit."""

    statement: float | None = None
    model: float | None = None  # a dbt node: all its statements in one run
    run: float | None = None  # a dbt invocation, or all that a connection does


_BUDGETS = ("max_requests", "max_tokens", "max_seconds")
_ANSWERS_KEYS = tuple(f.name for f in fields(AnswersSettings))
_SCOPES = tuple(f.name for f in fields(Budget))
OVERRIDES = ("ai_views", "sql_dialect", "sample_rows", "disable_rules", *_BUDGETS)
"""Settings that a dbt model may set for itself, in its config with `quail_` before the name."""


_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
_GPU_TOKEN_BUDGET = 8_192


@dataclass(frozen=True)
class Settings:
    """How a session answers AI calls. Build it with `Settings.of`, which validates."""

    engine: str = "local"  # local: prefill an open-weight model here; mock: deterministic rules, no weights
    model: str = "qwen2.5-coder-0.5b"  # a name of `quail models list`, a converted folder or a GGUF file
    models_path: str | None = None  # folder (or URL) that holds model artefacts; None: the user's cache
    device: str = "auto"  # auto: a CUDA device that can be used, else cpu | cpu | cuda | cuda:N | mps
    devices: tuple[str, ...] = ()  # several in place of one: cuda:0, cuda:1, …, or all; each is a worker process
    dtype: str = "auto"  # auto | float32 | bfloat16; auto takes the faster one on this machine, on a GPU bfloat16
    gpu_memory_fraction: float = 0.9  # of a GPU's free memory, what weights and KV may take
    cpu_threads: int | None = None  # None: all cores
    answers: AnswersSettings = field(default_factory=AnswersSettings)
    tokens: str = "run"  # run: token ids of the rows on disk until the session ends; keep; off: memory only
    feature_bytes: int = 1 << 30  # on disk, of the hidden states of calls with labelled rows; 0: none is kept
    threshold: float = 0.5  # AI_FILTER is TRUE at this probability and above
    on_overlong: str = "null"  # null | error | truncate
    max_error_ratio: float = 0.05  # failed / asked above which a statement fails
    max_requests: Budget = Budget(statement=100_000)  # what would ask more is refused before it asks
    max_tokens: Budget = Budget()  # likewise, by the estimate: fresh tokens
    max_seconds: Budget = Budget(statement=3_600.0)  # likewise: seconds in the engine
    max_missing_per_round: int = 20_000_000  # inputs that a round may note, some 50 bytes each; the rest waits for the next
    missing_bytes: int = 1 << 26  # bytes of noted texts in memory; what is more waits in a temporary file
    token_budget: int = 2_048  # fresh tokens a forward pass; with device: cuda the default is 8,192
    kv_bytes: int | None = None  # of KV that waits for what answers decide, a text's at least; None: that of two token budgets
    sample: float = 1.0  # share of rows that dbt reads of relations with a `quail_key`; estimates are told for all, too
    sample_rows: int | None = None  # asked to learn which condition to ask first; None: 64 to 256, by the table; 0: none
    disable_rules: tuple[str, ...] = ()  # the planner's rules that are left out, by name
    sql_dialect: str = "duckdb"  # of the text: duckdb or a vendor's; in dbt, of the models' own SQL
    ai_views: str = "table"  # a view over an AI call: store a table and warn, or refuse
    mock_fail: str | None = None  # mock only: a document that contains this phrase fails
    mock_margin: Mapping[str, float] = field(default_factory=dict)  # mock only: phrase in a document → its margin

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Settings:
        """Settings from plain values (a profile's `quail:` block, keyword arguments).

        Raises SettingsError for an unknown key or a value that the key cannot take.
        """
        known = [f.name for f in fields(cls)]
        for key in values:
            if key not in known:
                raise SettingsError(f"Unknown quail setting {key!r}{_nearest(key, known)}. Known settings: {', '.join(known)}.")
        given = dict(values)
        if given.get("engine") == "mock":
            given["model"] = given.get("model") or "mock"
        given["devices"] = _devices(given.get("devices"), given.get("device"))
        if str((*given["devices"], given.get("device"))[0]).startswith(("cuda", "all")):
            given["token_budget"] = given.get("token_budget") or _GPU_TOKEN_BUDGET
        for name in _BUDGETS:
            given[name] = budget(name, given.get(name), getattr(cls, name))
        given["answers"] = _answers(given.get("answers"), mock=given.get("engine") == "mock")
        given["disable_rules"] = _names("disable_rules", given.get("disable_rules"))
        settings = cls(**{k: v for k, v in given.items() if v is not None})
        _validate(settings)
        return settings

    def with_overrides(self, values: Mapping[str, Any]) -> Settings:
        """These settings with what one dbt model sets for itself: `OVERRIDES`. A number as a budget is that of the model.

        Raises SettingsError for a value that the key cannot take.
        """
        given = {key: value for key, value in values.items() if value is not None}
        assert given.keys() <= {*OVERRIDES, "sample"}, "a setting that is not a statement's"
        for name in _BUDGETS:
            if isinstance(given.get(name), (int, float)):
                given[name] = {"statement": given[name], "model": given[name]}
            given[name] = budget(name, given.get(name), getattr(self, name))
        if "disable_rules" in given:
            given["disable_rules"] = _names("disable_rules", given["disable_rules"])
        settings = replace(self, **given)
        _validate(settings)
        return settings


def budget(name: str, value: Any, base: Budget) -> Budget:
    """`base` with what a user gives: a number, which is the limit of a statement, or a mapping of scopes to numbers or None.

    Raises SettingsError.
    """
    if value is None or isinstance(value, Budget):
        return value or base
    given = value if isinstance(value, Mapping) else {"statement": value}
    for scope, limit in given.items():
        if scope not in _SCOPES:
            raise SettingsError(f"{name} has no part {scope!r}{_nearest(str(scope), _SCOPES)}. Known: {', '.join(_SCOPES)}.")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit >= 0):
            raise SettingsError(
                f"{name} must be a number 0 or more, or such numbers by {', '.join(_SCOPES)}, not {limit!r}{_as_number(limit)}."
            )
    return replace(base, **given)


def _as_number(value: Any) -> str:
    """What to write where a number came as a text, as what dbt renders does."""
    return ", which is a text: in dbt write {{ … | as_number }}" if isinstance(value, str) and value.strip().isdigit() else ""


def _devices(value: Any, device: Any) -> tuple[str, ...]:
    """'all', or a list of devices of one kind, by name or CUDA's number. Raises SettingsError."""
    given = value if isinstance(value, (list, tuple)) else (value,) if value is not None else ()
    names = tuple(f"cuda:{name}" if isinstance(name, int) and not isinstance(name, bool) else name for name in given)
    if names == ("all",) or not names:
        wrong = False
    else:
        wrong = not all(isinstance(name, str) and re.fullmatch(r"cpu|cuda:\d+", name) for name in names)
    if wrong or len({str(name).partition(":")[0] for name in names}) > 1:
        raise SettingsError(f"devices must be all, or a list such as [cuda:0, cuda:1], all of one kind, not {value!r}.")
    if names[:1] != ("cpu",) and len(set(names)) < len(names):
        raise SettingsError(f"devices names one twice: {', '.join(names)}.")
    if names and device not in (None, "auto"):
        raise SettingsError("device and devices are both set. Set one of them.")
    return names


def _names(setting: str, value: Any) -> tuple[str, ...]:
    """A name, or a list of names. Raises SettingsError."""
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, (list, tuple)) else value
    if names is not None and not (isinstance(names, tuple) and all(isinstance(name, str) for name in names)):
        raise SettingsError(f"{setting} must be a name or a list of names, not {value!r}.")
    return names or ()


def _answers(value: Any, mock: bool) -> AnswersSettings:
    """`answers:` is a path, a mapping or absent. A mock's answers cost nothing, so by default they stay in memory."""
    if value is None:
        return AnswersSettings(path=None) if mock else AnswersSettings()
    if isinstance(value, AnswersSettings):
        return value
    if isinstance(value, str):
        return AnswersSettings(path=value)
    if not isinstance(value, Mapping):
        raise SettingsError(f"answers must be a path or a mapping with {', '.join(_ANSWERS_KEYS)}, not {value!r}.")
    for key in value:
        if key not in _ANSWERS_KEYS:
            raise SettingsError(f"Unknown key answers.{key}{_nearest(key, _ANSWERS_KEYS)}. Known: {', '.join(_ANSWERS_KEYS)}.")
    shared = value.get("shared") or ()
    answers = AnswersSettings(**{**value, "shared": (shared,) if isinstance(shared, str) else tuple(shared)})
    if answers.mode not in _ANSWERS_MODES:
        raise SettingsError(f"answers.mode must be one of {', '.join(_ANSWERS_MODES)}, not {answers.mode!r}.")
    if not all(isinstance(place, str) and place for place in answers.shared):
        raise SettingsError(f"answers.shared must be a list of folders and URLs, not {shared!r}.")
    if not isinstance(answers.group_readable, bool):
        raise SettingsError(f"answers.group_readable must be true or false, not {answers.group_readable!r}.")
    return answers


def _validate(settings: Settings) -> None:
    for name in ("model", "models_path", "device", "mock_fail"):
        if not isinstance(getattr(settings, name), (str, type(None))):
            raise SettingsError(f"{name} must be a text, not {getattr(settings, name)!r}.")
    if not _DEVICE.fullmatch(settings.device):
        raise SettingsError(f"device must be auto, cpu, cuda, cuda:0 (or another number) or mps, not {settings.device!r}.")
    for name, choices in _CHOICES.items():
        if getattr(settings, name) not in choices:
            raise SettingsError(f"{name} must be one of {', '.join(choices)}, not {getattr(settings, name)!r}.")
    for name, lowest, highest in (
        ("threshold", 0.0, 1.0),
        ("max_error_ratio", 0.0, 1.0),
        ("sample", 1e-6, 1.0),
        ("gpu_memory_fraction", 0.05, 1.0),
    ):
        _number(settings, name, lowest, highest)
    _number(settings, "feature_bytes", 0, float("inf"), whole=True)
    for name in ("token_budget", "kv_bytes", "cpu_threads", "max_missing_per_round", "missing_bytes"):
        if getattr(settings, name) is not None:
            _number(settings, name, 1, float("inf"), whole=True)
    if settings.sample_rows is not None:
        _number(settings, "sample_rows", 0, float("inf"), whole=True)
    margins = settings.mock_margin
    if not isinstance(margins, Mapping) or not all(isinstance(margin, (int, float)) for margin in margins.values()):
        raise SettingsError(f"mock_margin must map a phrase to a number, as {{'phrase': 0.0}}, not {margins!r}.")


def _number(settings: Settings, name: str, lowest: float, highest: float, whole: bool = False) -> None:
    value = getattr(settings, name)
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not lowest <= value <= highest:
        span = f"between {lowest:g} and {highest:g}" if highest != float("inf") else f"{lowest:g} or more"
        raise SettingsError(f"{name} must be a {'whole ' if whole else ''}number {span}, not {value!r}.")


def _nearest(key: str, known: tuple[str, ...] | list[str]) -> str:
    near = difflib.get_close_matches(key, known, 1)
    return f" (did you mean {near[0]!r}?)" if near else ""
