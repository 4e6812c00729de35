"""Answers of questions with labelled rows: what is read of the model, decided by a rule that is fitted to those rows.

The zero-shot numbers are ordinary answers, shared with calls that have no labelled rows; where a rule needs none of them, rows
are asked for their hidden features alone. What a rule makes of either is kept as an answer of its own, so that it is recalled
without the rule. Features and rules are kept to fit again without asking.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from quail_engine.answers import Answer, decided_key, features_key
from quail_engine.calls import Question, Reads, Task
from quail_engine.decisions import Decision, TagRules, fit_rule, fit_tags
from quail_engine.errors import EngineError
from quail_engine.lookups import Inquiry
from quail_engine.model import Model
from quail_engine.pending import Asked, keys_of, length_of, tokenised
from quail_engine.waiting import PART_BYTES, PART_ROWS, Inputs, inputs_of

Numbers = NDArray[np.float32]
Known = dict[bytes, Sequence[float] | Numbers]
"""What was read, or decided, by zero-shot answer key."""

_CHUNK = 1 << 12  # rows whose features are in memory at once


def read_before(model: Model, keys: Sequence[bytes], since: int, reads: Reads) -> Known:
    """What the store knows of these, where it knows all that is to be read: numbers, then features."""
    return {key: numbers for key, (numbers, _) in _read_before(model, keys, since, reads)}


def _read_before(
    model: Model, keys: Sequence[bytes], since: int, reads: Reads
) -> Iterator[tuple[bytes, tuple[Sequence[float] | Numbers, int]]]:
    """As `read_before`, with the request's tokens."""
    if Reads.FEATURES not in reads:
        for key, answer in model.store.recall(keys, since).items():
            yield key, (answer.values, answer.tokens)
        return
    features = model.features.recall(keys)
    answers = model.store.recall(list(features), since)
    if Reads.NUMBERS not in reads:
        alone = {features_key(key): key for key in features if key not in answers}
        answers |= {alone[own]: answer for own, answer in model.store.recall(list(alone), since).items()}
    for key, answer in answers.items():
        numbers = answer.values if Reads.NUMBERS in reads else ()
        yield key, (np.concatenate([numbers, features[key]], dtype=np.float32), answer.tokens)


def keep(
    model: Model, asked: Asked, keys: Sequence[bytes], numbers: Numbers, tokens: Sequence[int], since: int
) -> dict[bytes, tuple[float, ...]]:
    """Keeps what was read, a row an answer, and gives the numbers by key, where numbers were read. A row that failed is NaN,
    and neither kept nor given. `since`: as for `AnswerStore.remember`."""
    width = (len(asked.question.labels) or 1) if Reads.NUMBERS in asked.reads else 0
    answered = np.flatnonzero(~np.isnan(numbers[:, 0])).tolist()
    kept = [keys[row] for row in answered]
    answers = [
        Answer(values, tokens[row])
        for row, values in zip(answered, map(tuple, numbers[answered, :width].tolist()), strict=True)
    ]
    if Reads.FEATURES in asked.reads:
        model.features.remember(kept, numbers[answered, width:])
    base, own = (asked.base, kept) if width else (features_key(asked.base), list(map(features_key, kept)))
    title, dtype = asked.question.title, model.engine.dtype
    model.store.remember(base, title, list(zip(own, answers, strict=True)), model.name, dtype, since)
    return {key: answer.values for key, answer in zip(kept, answers, strict=True) if width}


def unanswered(model: Model, inquiries: Sequence[Inquiry], since: int) -> Iterator[tuple[Inputs, list[bytes]]]:
    """Of what inquiries are missing, the inputs that must be asked whatever a rule will need, with their keys."""
    for inquiry in inquiries:
        for part in inquiry.missing.parts(PART_ROWS, PART_BYTES):
            for inputs in inputs_of(inquiry, part):
                room = model.prompter.compile(inputs.question.zero_shot).room
                keys = keys_of(model, inputs)
                known = read_before(model, keys, since, inquiry.reads)
                if inputs.question.labelled:
                    known |= read_before(model, keys, since, Reads.FEATURES)
                fits = [length_of(ids) <= room for ids in tokenised(model, inputs)]
                rows = [row for row, key in enumerate(keys) if fits[row] and key not in known]
                yield inputs.take(rows), [keys[row] for row in rows]


def recalled(model: Model, question: Question, keys: Sequence[bytes], since: int) -> Known:
    """The decided answers that the store knows."""
    base = model.question_key(question)
    own = {decided_key(base, key): key for key in keys}
    return {own[key]: answer.values for key, answer in model.store.recall(list(own), since).items()}


def derived(model: Model, question: Question, rule: Decision, keys: Sequence[bytes], since: int, keeps: bool) -> Known:
    """The answers that follow from what the store knows, with no request."""
    known: Known = {}
    for start in range(0, len(keys), _CHUNK):
        found = dict(_read_before(model, keys[start : start + _CHUNK], since, rule.reads))
        if found:
            numbers = np.array([vector for vector, _ in found.values()], np.float32)
            tokens = [used for _, used in found.values()]
            rows = decided(model, question, rule, list(found), numbers, tokens, since) if keeps else rule.decide(numbers)
            known |= zip(found, rows, strict=True)
    return known


def decided(
    model: Model, question: Question, rule: Decision, keys: Sequence[bytes], numbers: Numbers, tokens: Sequence[int], since: int
) -> Numbers:
    """What the rule makes of rows of what it reads, kept as answers; a row of NaN failed, and is not kept. `since`: as for
    `AnswerStore.remember`."""
    base = model.question_key(question)
    found = rule.decide(numbers)
    rows = zip(keys, map(tuple, found.tolist()), tokens, strict=True)
    kept = [(decided_key(base, key), Answer(values, used)) for key, values, used in rows if values[0] == values[0]]
    model.store.remember(base, question.title, kept, model.name, since=since)
    return found


def doubts(question: Question, rule: Decision) -> Iterator[str]:
    """What a user should know before trusting what was fitted."""
    rows, left_out = len(question.labelled), len(question.labelled) - rule.rows
    if left_out:
        yield (
            f"{left_out:,} of the {rows:,} labelled rows of '{question.title}' taught nothing: failed, or too long for the "
            "model. `quail answers errors` lists them; give shorter ones."
        )
    rules = rule.rules if isinstance(rule, TagRules) else (rule,)
    # Where all rows have one answer the text of the call itself was warned of.
    guesses = [i for i, each in enumerate(rules) if not each.better_than_guessing and each.guessing < 1]
    if guesses:
        first, what = rules[guesses[0]], f"'{question.title}' is"
        if isinstance(rule, TagRules):
            others = f" and {len(guesses) - 1} more" if len(guesses) > 1 else ""
            what = f"Whether '{question.labels[guesses[0]].text}'{others} of '{question.title}' applies is"
        yield (
            f"{what} decided no better than by guessing: by cross-validation over {first.rows:,} labelled rows "
            f"{first.accuracy:.2f} ± {first.error:.2f} are right, and {first.guessing:.2f} by always giving the most frequent "
            "answer. More labelled rows, another wording or a larger model may help."
        )


def fitted(question: Question, numbers: Numbers) -> Decision:
    """The rule for a row of numbers and features a labelled row, in their order; NaN where there is no answer.

    Raises EngineError where too few have one.
    """
    answers = ["false", "true"] if question.task is Task.JUDGE else [label.text for label in question.labels]
    answered: NDArray[np.bool_] = np.asarray(~np.isnan(numbers).any(axis=1))
    if len({question.labelled[row].answer for row in np.flatnonzero(answered).tolist()}) < 2:
        raise EngineError(
            f"Of the {len(question.labelled):,} labelled rows of '{question.title}' {answered.sum():,} could be read, and not "
            "two answers are among them: the others are too long for the model or failed. Give shorter ones."
        )
    if question.task is Task.TAG:
        applies = np.array([[label in row.answer for label in answers] for row in question.labelled], np.int64)
        return fit_tags(numbers[answered], applies[answered])
    labels = np.array([answers.index(str(row.answer)) for row in question.labelled], np.int64)
    return fit_rule(numbers[answered], labels[answered], len(question.labels) or 1)
