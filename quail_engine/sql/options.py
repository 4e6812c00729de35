"""The options of an AI call: a struct literal or named arguments after its positional ones."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from quail_engine.calls import Options
from quail_engine.sql.constants import ENTRIES, NotConstantError, constant_value, key_name
from quail_engine.sql.source import Source

KNOWN = (
    "threshold", "selectivity", "anchor", "model", "examples", "instructions", "on_overlong", "max_error_ratio",
    "output_mode", "symmetric", "order", "rewrite",
)  # fmt: skip

_CHOICES: dict[str, tuple[str, ...]] = {
    "on_overlong": ("null", "error", "truncate"),
    "output_mode": ("single", "multi"),
    "order": ("as_written",),
    "rewrite": ("classify",),
}
_INSTEAD = {
    "examples": "the rows themselves; in dbt {{ ai_examples(ref('gold'), text='body', label='is_spam') }} writes a table's"
}
_SHARES = ("threshold", "selectivity", "max_error_ratio")


@dataclass(frozen=True)
class Given:
    """The options of one call: those that change the question, and the rest as `Options`."""

    options: Options
    anchor: int | None
    instructions: str
    examples: tuple[Any, ...]  # as written; `sql.examples` checks them once the prompt is known
    multi: bool  # output_mode 'multi'
    rewritten: bool  # rewrite 'classify'
    examples_at: exp.Expr | None  # where they are written


def split_options(arguments: Sequence[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """A call's arguments apart: positional ones, and the nodes that hold options (a last struct literal, named arguments)."""
    named: list[exp.Expr] = [a for a in arguments if isinstance(a, (exp.Kwarg, exp.PropertyEQ))]
    positional = [a for a in arguments if not isinstance(a, (exp.Kwarg, exp.PropertyEQ))]
    if len(positional) > 1 and isinstance(positional[-1], exp.Struct):
        return positional[:-1], [positional[-1], *named]
    return positional, named


def chooses(arguments: Sequence[exp.Expr]) -> bool:
    """Whether a call's arguments have the option `rewrite`, whatever its value."""
    structs = (node for node in split_options(arguments)[1])
    entries = (entry for node in structs for entry in (node.expressions if isinstance(node, exp.Struct) else [node]))
    return any(isinstance(entry, ENTRIES) and key_name(entry.this) == "rewrite" for entry in entries)


def parse_options(nodes: Sequence[exp.Expr], source: Source) -> Given:
    """Options from the nodes that `split_options` set apart. Raises SqlError for unknown keys and impossible values."""
    values: dict[str, Any] = {}
    examples_at: exp.Expr | None = None
    for node in nodes:
        for entry in node.expressions if isinstance(node, exp.Struct) else [node]:
            if not isinstance(entry, ENTRIES):
                raise source.error_at(node, "Options are a struct of names and values, as {'threshold': 0.6}.")
            key = key_name(entry.this)
            if key not in KNOWN:
                near = difflib.get_close_matches(key, KNOWN, 1)
                guess = f" (did you mean {near[0]!r}?)" if near else ""
                raise source.error_at(entry, f"Unknown option {key!r}{guess}. Known options: {', '.join(KNOWN)}.")
            try:
                values[key] = constant_value(entry.expression)
            except NotConstantError as found:
                raise source.error_at(found.node, f"Option {key!r} must be a constant.", _INSTEAD.get(key)) from None
            _check(key, values[key], entry, source)
            examples_at = entry.expression if key == "examples" else examples_at
    return Given(
        options=Options(**{k: values[k] for k in values if k in Options.__dataclass_fields__}),
        anchor=values.get("anchor"),
        instructions=values.get("instructions", ""),
        examples=tuple(values.get("examples") or ()),
        multi=values.get("output_mode") == "multi",
        rewritten=values.get("rewrite") == "classify",
        examples_at=examples_at,
    )


def _check(key: str, value: Any, entry: exp.Expr, source: Source) -> None:
    """Raises unless `value` is one that option `key` takes."""
    wanted = ""
    if key in _CHOICES and value not in _CHOICES[key]:
        wanted = "one of " + ", ".join(f"'{c}'" for c in _CHOICES[key])
    elif key in _SHARES and (isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1):
        wanted = "a number between 0 and 1"
    elif key in ("model", "instructions") and not isinstance(value, str):
        wanted = "a text"
    elif key == "anchor" and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        wanted = "the number of an argument, 0 for the first"
    elif key == "symmetric" and not isinstance(value, bool):
        wanted = "true or false"
    elif key == "examples" and not (
        value is None or (isinstance(value, list) and value and all(isinstance(e, dict) for e in value))
    ):
        wanted = "a list such as [{'input': 'a text', 'answer': 'true'}]"
    if wanted:
        raise source.error_at(entry, f"Option {key!r} must be {wanted}, not {value!r}.")
