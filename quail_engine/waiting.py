"""Requests that wait for the engine: from missing inputs to what is asked, a part at a time.

What a round is missing may be more than memory holds. So a first pass over the inputs settles what the store knows and what
is too long, and leaves the rest here as rows; then the number of requests is known, and a budget can refuse them. A second
pass asks those rows, sorted by anchor, so that the pairs of one anchor share its KV.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from quail_engine.answers.keys import KEY_BYTES
from quail_engine.arrow import numbers_of, of_keys, of_numbers
from quail_engine.calls import Question, Task
from quail_engine.lookups import DigestTable, Inquiry, Positions, Spill, distinct, labels_of

PART_ROWS, PART_BYTES = 1 << 16, 1 << 24
"""Missing inputs that are looked up in the store at once, and bytes of their texts."""

ASKED_ROWS, ASKED_BYTES = 1 << 14, 1 << 24
"""Inputs that are requests at once, and bytes of their texts; token ids take some ten times as much. One schedule of batches
is made of them, so this bounds memory, not what a batch may share."""

_SCHEMA = pa.schema(
    [
        ("inquiry", pa.int32()),  # index into the round's inquiries
        ("position", pa.int32()),
        ("key", pa.binary(KEY_BYTES)),
        ("anchor", pa.int8()),  # number of the text that stands first, be it the only one; -1: there is none
        ("texts", pa.list_(pa.string())),
        ("labels", pa.string()),
    ]
)
_BY_ANCHOR = "coalesce(texts[anchor + 1], ''), inquiry, position"


@dataclass(frozen=True)
class Inputs:
    """Missing inputs that are asked one question."""

    inquiry: Inquiry
    question: Question
    labels: str | None  # the JSON that the question's labels were read from, where they come with the row
    positions: Positions
    columns: list[pa.Array]  # the arguments' texts

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def text_bytes(self) -> NDArray[np.int64]:
        """Bytes of each input's texts together."""
        return sum((numbers_of(pc.binary_length(c)) for c in self.columns), np.zeros(len(self), np.int64))

    def texts(self) -> list[tuple[str, ...]]:
        return list(zip(*(column.to_pylist() for column in self.columns), strict=True)) if self.columns else [()] * len(self)

    def take(self, rows: Sequence[int] | NDArray[Any]) -> Inputs:
        """Some of the inputs."""
        taken = np.asarray(rows, np.int64)
        index = of_numbers(taken)
        return replace(self, positions=self.positions[taken], columns=[column.take(index) for column in self.columns])


def joined(one: Inputs, other: Inputs) -> Inputs:
    """Inputs of one question, one after the other."""
    columns = [pa.concat_arrays(pair) for pair in zip(one.columns, other.columns, strict=True)]
    return replace(one, positions=np.concatenate([one.positions, other.positions]), columns=columns)


def inputs_of(inquiry: Inquiry, part: pa.RecordBatch) -> Iterator[Inputs]:
    """Missing inputs by the question they are asked: one, or one a label list when the labels come with the rows.

    Inputs whose labels are none come with a question that has no labels, and what stands there as one more text.
    """
    positions, columns = numbers_of(part.column(0)).astype(np.int64), part.columns[1:]
    question = inquiry.question
    if question.task is Task.JUDGE or question.labels:
        yield Inputs(inquiry, question, None, positions, columns)
        return
    lists: dict[str, list[int]] = {}
    for row, text in enumerate(columns[-1].to_pylist()):
        lists.setdefault(text, []).append(row)
    for text, rows in lists.items():
        asked = labelled(question, text)
        everything = Inputs(inquiry, asked, text, positions, columns[:-1] if asked.labels else columns)
        yield everything.take(rows)


def labelled(question: Question, labels: str | None) -> Question:
    """The question with a row's labels; without any where these are none that can be asked."""
    try:
        return question if labels is None else replace(question, labels=labels_of(labels))
    except (ValueError, json.JSONDecodeError):
        return question


class Waiting:
    """The requests of a round that the store could not answer."""

    def __init__(self, inquiries: Sequence[Inquiry], memory_bytes: int) -> None:
        self._numbers = {id(inquiry): number for number, inquiry in enumerate(inquiries)}
        self._rows = Spill(_SCHEMA, memory_bytes)
        self._asked: set[int] = set()  # inquiries that wait
        self._paired = False

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, inputs: Inputs, keys: Sequence[bytes]) -> None:
        count, width = len(inputs), len(inputs.columns)
        self._asked.add(self._numbers[id(inputs.inquiry)])
        self._paired |= width > 1
        beside = (np.arange(count)[:, None] + count * np.arange(width)).reshape(-1)
        texts = pa.concat_arrays(inputs.columns).take(of_numbers(beside)) if width else pa.nulls(0, pa.string())
        columns = [
            of_numbers(np.full(count, self._numbers[id(inputs.inquiry)], np.int32)),
            of_numbers(inputs.positions.astype(np.int32)),
            of_keys(keys, KEY_BYTES),
            of_numbers(np.full(count, inputs.question.anchor if width else -1, np.int8)),
            pa.ListArray.from_arrays(of_numbers(np.arange(count + 1, dtype=np.int32) * width), texts),
            pa.nulls(count, pa.string()) if inputs.labels is None else pa.array([inputs.labels] * count, pa.string()),
        ]
        self._rows.append(pa.record_batch(columns, schema=_SCHEMA))

    def parts(self) -> Iterator[pa.RecordBatch]:
        """All of them, once: those of one anchor together, and several questions about one text."""
        if self._paired or (len(self._asked) > 1 and len(self) > ASKED_ROWS):
            return self._rows.sorted_parts(_BY_ANCHOR, ASKED_ROWS, ASKED_BYTES)
        return self._rows.parts(ASKED_ROWS, ASKED_BYTES)

    def close(self) -> None:
        self._rows.close()


class Repeats:
    """Inputs of a round that are one request, because two inquiries or two spellings of a label list ask the same.

    The first is asked; when the round is over the others get its answer.
    """

    def __init__(self) -> None:
        self._seen = DigestTable()
        self._inquiries: list[Inquiry] = []
        self._owners, self._positions = array("i"), array("i")  # by number in the table: who is asked
        self._repeated: list[tuple[Inquiry, int, int, int]] = []  # inquiry, position, number of the request, numbers wanted

    def first(self, inputs: Inputs, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """The rows whose requests have not been seen."""
        if not self._inquiries or self._inquiries[-1] is not inputs.inquiry:
            self._inquiries.append(inputs.inquiry)
        digests = np.frombuffer(b"".join([key[:16] for key in keys]), np.uint64).reshape(-1, 2)
        rows = distinct(digests)
        rows = rows[self._seen.find(digests[rows]) < 0]
        self._seen.add(digests[rows])
        self._owners.extend([len(self._inquiries) - 1] * len(rows))
        self._positions.extend(inputs.positions[rows].tolist())
        others = np.setdiff1d(np.arange(len(inputs)), rows)
        numbers = self._seen.find(digests[others]).tolist()
        width = len(inputs.question.labels) or 1
        for position, number in zip(inputs.positions[others].tolist(), numbers, strict=True):
            self._repeated.append((inputs.inquiry, position, number, width))
        return rows

    def settle(self) -> None:
        for inquiry, position, number, width in self._repeated:
            asked = self._inquiries[self._owners[number]]
            numbers = asked.numbers(np.array([self._positions[number]]), width)
            inquiry.settle([position], None if np.isnan(numbers).any() else numbers)


def may_repeat(inquiries: Sequence[Inquiry]) -> bool:
    """Whether two inputs of a round can be one request."""
    questions = {inquiry.question for inquiry in inquiries}
    return len(questions) < len(inquiries) or any(q.task is not Task.JUDGE and not q.labels for q in questions)
