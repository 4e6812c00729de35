"""The options of an AI call: a struct literal or named arguments after its positional ones."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from quail_engine.calls import Example, Options
from quail_engine.sql.constants import ENTRIES, NotConstantError, constant_value, key_name
from quail_engine.sql.source import Source

KNOWN = (
    "threshold", "selectivity", "anchor", "model", "examples", "instructions", "on_overlong", "max_error_ratio",
    "output_mode", "symmetric", "order",
)  # fmt: skip

_CHOICES: dict[str, tuple[str, ...]] = {
    "on_overlong": ("null", "error", "truncate"),
    "output_mode": ("single", "multi"),
    "order": ("as_written",),
}
_SHARES = ("threshold", "selectivity", "max_error_ratio")

FITTED_FROM = 30
"""So many different examples are no longer shown to the model: a decision is fitted to them."""


@dataclass(frozen=True)
class Given:
    """The options of one call: those that change the question, and the rest as `Options`."""

    options: Options
    anchor: int | None
    instructions: str
    examples: tuple[Any, ...]  # as written; `parse_examples` checks them once the prompt is known
    multi: bool  # output_mode 'multi'
    examples_at: exp.Expr | None  # where they are written


def split_options(arguments: Sequence[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """A call's arguments apart: positional ones, and the nodes that hold options (a last struct literal, named arguments)."""
    named: list[exp.Expr] = [a for a in arguments if isinstance(a, (exp.Kwarg, exp.PropertyEQ))]
    positional = [a for a in arguments if not isinstance(a, (exp.Kwarg, exp.PropertyEQ))]
    if len(positional) > 1 and isinstance(positional[-1], exp.Struct):
        return positional[:-1], [positional[-1], *named]
    return positional, named


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
                raise source.error_at(found.node, f"Option {key!r} must be a constant.") from None
            _check(key, values[key], entry, source)
            examples_at = entry.expression if key == "examples" else examples_at
    return Given(
        options=Options(**{k: values[k] for k in values if k in Options.__dataclass_fields__}),
        anchor=values.get("anchor"),
        instructions=values.get("instructions", ""),
        examples=tuple(values.get("examples") or ()),
        multi=values.get("output_mode") == "multi",
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


_TRUTHS = ("0", "1", "t", "f", "yes", "no")  # what a table may have in place of a truth value
_AS_TRUTH = "'true' or 'false'; with ai_examples a condition as the label, such as label='is_spam = 1'"


def parse_examples(given: Given, arguments: int, answers: Sequence[str], source: Source) -> tuple[Example, ...]:
    """Labelled rows: `input` (a text, or a list with one text an argument) and `answer`, which must be one of `answers`."""
    if given.examples and not answers:
        assert given.examples_at is not None, "examples are written somewhere"
        reason = "Examples are answered with the labels of the call, and this one takes its labels from a column."
        raise source.error_at(given.examples_at, reason, "the labels as a list, such as ['a', 'b']")
    examples = []
    for number, row in enumerate(given.examples):
        inputs = row.get("input")
        inputs = (inputs,) if isinstance(inputs, str) else tuple(inputs or ())
        answer = row.get("answer")
        answer = str(answer).lower() if isinstance(answer, bool) else str(answer)
        texts = len(inputs) == arguments and all(isinstance(text, str) for text in inputs)
        if set(row) != {"input", "answer"} or not texts or answer not in answers:
            raise source.error_at(
                _row_at(given, number),
                f"An example has 'input' ({arguments} text{'s' if arguments != 1 else ''}) and 'answer' "
                f"(one of {', '.join(answers)}); this one is {row!r}.",
                _AS_TRUTH if answer.lower() in _TRUTHS and "true" in answers else None,
            )
        examples.append(Example(inputs, answer))
    return tuple(examples)


def _row_at(given: Given, number: int) -> exp.Expr:
    assert given.examples_at is not None, "examples are written somewhere"
    rows = given.examples_at.expressions
    return rows[number] if len(rows) == len(given.examples) else given.examples_at


def labelled_rows(examples: Sequence[Example], given: Given, source: Source) -> tuple[Example, ...]:
    """The different examples where these are enough to fit a decision to, in an order that has nothing to do with them, so that
    the order in which they were written has no part in it; else none. Raises SqlError where all have one answer."""
    if given.multi or len(set(examples)) < FITTED_FROM:
        return ()
    if len({example.answer for example in examples}) < 2:
        assert given.examples_at is not None, "examples are written somewhere"
        raise source.error_at(
            given.examples_at,
            f"All {len(examples):,} examples have the answer '{examples[0].answer}', so nothing can be learned from them.",
            "examples of each answer, as many of each as there are among the rows",
        )
    return tuple(sorted(set(examples), key=_digest))


def _digest(example: Example) -> bytes:
    return hashlib.sha256(json.dumps([*example.inputs, example.answer]).encode()).digest()
