"""Content keys: an answer is found again by what was asked, and by nothing else.

The question key is the sha256 of a JSON array in ASCII without blanks, whose elements are, in this order: the word
`quail-question/1`; sha256 of the weights; precision class; profile and layout version; task; the template's parts (texts, and
numbers for arguments); `[label, description]` pairs in order; the anchor; the instructions; `[[inputs…], answer]` pairs of the
examples. Of a question with labelled rows two more follow: the words `quail-decision/2 quail-features/3`, and the rows as such
pairs.

The answer key is the sha256 of the question key followed by each argument as its length in bytes (8, little-endian) and its
UTF-8 text. All keys are the same in every process and on every machine; a change of one is a new schema of the store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from quail_engine.calls import Question

KEY_BYTES = 32
_FORMAT = "quail-question/1"
FEATURES = "quail-features/3"
"""Which hidden features a head is fitted to. Those of another version are not found, and asked for anew."""

_DECISION = f"quail-decision/2 {FEATURES}"  # the number is that of how rules are fitted


def question_key(weights: str, precision: str, layout: str, question: Question) -> bytes:
    """Key of a question as one model is asked it: everything that an answer depends on except the row's own texts."""
    content = [
        _FORMAT,
        weights,
        precision,
        layout,
        question.task.value,
        list(question.template.parts),
        [[label.text, label.description] for label in question.labels],
        question.anchor,
        question.instructions,
        [[list(example.inputs), example.answer] for example in question.examples],
    ]
    if question.labelled:
        content += [_DECISION, [[list(row.inputs), row.answer] for row in question.labelled]]
    return hashlib.sha256(json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode("ascii")).digest()


def answer_key(question_key: bytes, arguments: Sequence[str]) -> bytes:
    """Key of the answer for one row; `arguments` are the texts of the template's arguments, in order of their numbers."""
    content = [question_key]
    for argument in arguments:
        # A lone surrogate has no UTF-8; it still gets a key of its own instead of an error.
        text = argument.encode("utf-8", "surrogatepass")
        content += (len(text).to_bytes(8, "little"), text)
    return hashlib.sha256(b"".join(content)).digest()


def truncated_key(answer_key: bytes) -> bytes:
    """Key of the answer for a row whose texts were cut to fit the model, which is another answer than the whole row's."""
    return hashlib.sha256(b"truncated" + answer_key).digest()


def decided_key(question_key: bytes, answer_key: bytes) -> bytes:
    """Key of the answer that labelled rows make of a zero-shot one: of the question with them, and of the zero-shot answer."""
    return hashlib.sha256(b"decided" + question_key + answer_key).digest()


def features_key(key: bytes) -> bytes:
    """Key of a request for hidden features alone, from that of the answer; and the key of its question, from the question's."""
    return hashlib.sha256(b"features" + key).digest()


def answer_keys(question_key: bytes, columns: Sequence[Sequence[bytes]], rows: int) -> list[bytes]:
    """As `answer_key`, for `rows` rows at once; `columns` hold the arguments in UTF-8, one column an argument."""
    sha256 = hashlib.sha256
    parts = [[len(text).to_bytes(8, "little") + text for text in column] for column in columns]
    if len(parts) == 1:
        return [sha256(question_key + part).digest() for part in parts[0]]
    rest = zip(*parts, strict=True) if parts else [()] * rows
    return [sha256(b"".join((question_key, *part))).digest() for part in rest]
