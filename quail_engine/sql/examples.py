"""The option `examples`: labelled rows, which are shown to the model or, from thirty on, what a decision is fitted to."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot import exp

from quail_engine.calls import Example, Question, Task
from quail_engine.sql.options import Given
from quail_engine.sql.source import Source

FITTED_FROM = 30
"""So many different examples are no longer shown to the model: a decision is fitted to them."""

_FEW = 5
"""Labelled rows of one answer below which it can hardly be learned: ten folds would leave some without any."""

_NAMED = 5  # answers that a warning names; of more it says how many there are

_TRUTHS = ("0", "1", "t", "f", "yes", "no")  # what a table may have in place of a truth value
_AS_TRUTH = "'true' or 'false'; with ai_examples a condition as the label, such as label='is_spam = 1'"


def parse_examples(given: Given, arguments: int, answers: Sequence[str], source: Source) -> tuple[Example, ...]:
    """Labelled rows: `input` (a text, or a list with one text an argument) and `answer`, which must be one of `answers`, or a
    list of some of them where several may apply: then rows with one input are one row, with the labels of all of them."""
    if given.examples and not answers:
        assert given.examples_at is not None, "examples are written somewhere"
        reason = "Examples are answered with the labels of the call, and this one takes its labels from a column."
        raise source.error_at(given.examples_at, reason, "the labels as a list, such as ['a', 'b']")
    read = [_read(row, given, arguments, answers) for row in given.examples]
    if wrong := [number for number, example in enumerate(read) if example is None]:
        row, others = given.examples[wrong[0]], len(wrong) - 1
        raise source.error_at(
            _row_at(given, wrong[0]),
            f"An example has 'input' ({arguments} text{'s' if arguments != 1 else ''}) and 'answer' "
            f"({'a list of those that apply' if given.multi else 'one'} of {', '.join(answers)}); this one is {row!r}"
            f"{f'; of the others {others:,} are wrong, too' if others else ''}.",
            _instead(row.get("answer"), given, answers),
        )
    examples = [example for example in read if example]
    if not given.multi:
        return tuple(Example(inputs, answer) for inputs, (answer,) in examples)
    applying: dict[tuple[str, ...], set[str]] = {}
    for inputs, answered in examples:
        applying.setdefault(inputs, set()).update(answered)
    return tuple(Example(inputs, tuple(a for a in answers if a in labels)) for inputs, labels in applying.items())


def _read(
    row: dict[str, Any], given: Given, arguments: int, answers: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Texts and answers of a row as it is written; None where it has others than it must."""
    inputs, answer = row.get("input"), row.get("answer")
    inputs = (inputs,) if isinstance(inputs, str) else tuple(inputs or ())
    several = answer if given.multi and isinstance(answer, list) else [answer]
    answered = tuple(str(each).lower() if isinstance(each, bool) else str(each) for each in several)
    right = len(inputs) == arguments and all(isinstance(text, str) for text in inputs) and set(answered) <= set(answers)
    return (inputs, answered) if right and set(row) == {"input", "answer"} else None


def _instead(answer: Any, given: Given, answers: Sequence[str]) -> str | None:
    """What to write in place of a wrong answer."""
    if isinstance(answer, list) and not given.multi and "true" not in answers:
        return "'output_mode': 'multi' beside the examples, where several labels may apply; else one label a row"
    return _AS_TRUTH if str(answer).lower() in _TRUTHS and "true" in answers else None


def _row_at(given: Given, number: int) -> exp.Expr:
    assert given.examples_at is not None, "examples are written somewhere"
    rows = given.examples_at.expressions
    return rows[number] if len(rows) == len(given.examples) else given.examples_at


def labelled_rows(examples: Sequence[Example], given: Given, source: Source) -> tuple[Example, ...]:
    """The different examples where these are enough to fit a decision to, in an order that has nothing to do with them, so that
    the order in which they were written has no part in it; else none. Raises SqlError where all have one answer."""
    if len(set(examples)) < FITTED_FROM:
        return ()
    if len({example.answer for example in examples}) < 2:
        assert given.examples_at is not None, "examples are written somewhere"
        raise source.error_at(
            given.examples_at,
            f"All {len(examples):,} examples have the answer {_shown(examples[0])}, so nothing can be learned from them.",
            "examples of each answer, as many of each as there are among the rows",
        )
    return tuple(sorted(set(examples), key=_digest))


def _shown(example: Example) -> str:
    return f"'{example.answer}'" if isinstance(example.answer, str) else str(list(example.answer))


def _digest(example: Example) -> bytes:
    return hashlib.sha256(json.dumps([*example.inputs, example.answer]).encode()).digest()


def doubts(question: Question, written: int) -> Iterator[str]:
    """What a user should know of a question's examples, `written` rows of them."""
    different = len(set(question.examples))
    if written >= FITTED_FROM > different > 0:
        yield (
            f"Of the {written:,} examples of '{question.title}' {different:,} are different. Below {FITTED_FROM} they are "
            "shown to the model before each question, and no decision is fitted to them: give more."
        )
    answers = ("true", "false") if question.task is Task.JUDGE else tuple(label.text for label in question.labels)
    rows = Counter(answer for row in question.labelled for answer in _answers(row))
    if question.labelled and (few := [(rows[answer], answer) for answer in answers if rows[answer] < _FEW]):
        named = [f"'{answer}' ({count})" for count, answer in sorted(few)[:_NAMED]]
        named += [f"{len(few) - _NAMED} more"] if len(few) > _NAMED else []
        yield (
            f"Of the {len(question.labelled):,} labelled rows of '{question.title}' fewer than {_FEW} have the answer "
            f"{', '.join(named)}: too few to learn from, so it will seldom be given. Give {_FEW} or more of each."
        )


def _answers(row: Example) -> tuple[str, ...]:
    return (row.answer,) if isinstance(row.answer, str) else row.answer
