"""The mock's rules, which users rely on in unit tests and our SQL tests take as the truth. Deterministic everywhere.

1. `mock_fail`: a document that contains the phrase fails (its numbers are NaN); `mock_margin`: a document that contains a
   phrase has that margin.
2. A question with a quoted phrase ('…' or "…"; the first counts) is TRUE if every document contains it, in any case.
3. A question with the word `shares` and two documents is TRUE if they share a word of four letters or more.
4. Any other question: sha256 of the question and the documents gives a margin spread evenly over (-4, 4).
5. A classification takes the first label that occurs in a document as a word, in any case; else sha256 picks one. That label
   weighs 3, the others 0; the scores are the softmax of the weights. With output_mode 'multi' every label that occurs applies.
6. The features of a row, which a decision may be fitted to, say by hash which words its documents have, in any case.
"""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from quail_engine.calls import Question, Task

MARGIN = 3.0
"""Margin of a rule that decides; minus that when it says FALSE."""

FEATURES = 256
"""Numbers of a row's state."""

_encode = json.JSONEncoder(ensure_ascii=False).encode
_PLACE = "\x00"  # stands for an argument in the question's text
_PUNCTUATION = re.escape(string.punctuation)
_PHRASE = re.compile(rf"(?:(?<=[\s(\[{{])|^)(?P<quote>['\"])(?P<phrase>[^{_PLACE}]+?)(?P=quote)(?=$|[\s{_PUNCTUATION}])")
_WORD = re.compile(r"[^\W\d_]{4,}")


@dataclass(frozen=True)
class Rules:
    fail: str | None = None  # the setting mock_fail
    margins: Mapping[str, float] = field(default_factory=dict)  # the setting mock_margin

    def __hash__(self) -> int:
        return hash((self.fail, tuple(self.margins.items())))

    def answer(self, question: Question, documents: tuple[str, ...]) -> tuple[float, ...]:
        """The numbers of one answer: a margin for JUDGE, a margin a label for TAG, a weight a label for CLASSIFY."""
        count = 1 if question.task is Task.JUDGE else len(question.labels)
        if self.fail is not None and any(self.fail in document for document in documents):
            return (float("nan"),) * count
        if question.task is Task.CLASSIFY:
            chosen = _label(question, documents)
            return tuple(MARGIN if i == chosen else 0.0 for i in range(count))
        if question.task is Task.TAG:
            return tuple(MARGIN if _occurs(label.text, documents) else -MARGIN for label in question.labels)
        # A float32, as every engine's margins are.
        return (float(np.float32(self._margin(question, documents))),)

    def _margin(self, question: Question, documents: tuple[str, ...]) -> float:
        for phrase, margin in self.margins.items():
            if any(phrase in document for document in documents):
                return float(margin)
        phrase, shares = _rule(question.template.parts)
        if phrase and documents:
            return MARGIN if all(phrase in document.casefold() for document in documents) else -MARGIN
        if shares and len(documents) == 2:
            one, other = (set(_WORD.findall(document.casefold())) for document in documents)
            return MARGIN if one & other else -MARGIN
        return _fraction(question, documents) * 8 - 4


@lru_cache(maxsize=256)
def _rule(parts: tuple[str | int, ...]) -> tuple[str, bool]:
    """What a question's text says: the quoted phrase, empty without one, and whether it has the word `shares`."""
    text = "".join(_PLACE if isinstance(part, int) else part for part in parts).strip()
    quoted = _PHRASE.search(text)
    return quoted["phrase"].casefold() if quoted else "", re.search(r"\bshares\b", text) is not None


def _label(question: Question, documents: tuple[str, ...]) -> int:
    for i, label in enumerate(question.labels):
        if _occurs(label.text, documents):
            return i
    return int(_fraction(question, documents) * len(question.labels))


def _occurs(label: str, documents: tuple[str, ...]) -> bool:
    word = re.compile(rf"(?<!\w){re.escape(label)}(?!\w)", re.IGNORECASE)
    return any(word.search(document) for document in documents)


def features(documents: tuple[str, ...]) -> NDArray[np.float32]:
    """1 at the place of each word of four letters or more, in any case, else 0."""
    found = np.zeros(FEATURES, np.float32)
    for word in {word for document in documents for word in _WORD.findall(document.casefold())}:
        found[hashlib.sha256(word.encode()).digest()[0]] = 1
    return found


def _fraction(question: Question, documents: tuple[str, ...]) -> float:
    """A number in (0, 1) from the prompt's canonical bytes."""
    documents_json = ", ".join(map(_encode, documents))
    digest = hashlib.sha256(f"{_canonical(question)}[{documents_json}]]".encode()).digest()
    return (int.from_bytes(digest[:6], "big") + 0.5) / 2**48


@lru_cache(maxsize=256)
def _canonical(question: Question) -> str:
    """A question as the beginning of a JSON array, whose last item is that of the documents."""
    labels = [[label.text, label.description] for label in question.labels]
    examples = [[*example.inputs, example.answer] for example in question.examples]
    parts = [question.task.value, question.template.parts, labels, question.instructions, examples]
    return f"{_encode(parts)[:-1]}, "
