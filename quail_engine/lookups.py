"""Look-ups: DuckDB functions that give the answers known so far and note the inputs that are missing.

Registered once a database instance; which question a look-up is about comes with its first argument, a tag. They never
raise and never wait for a model: a missing answer is NULL, and the round goes on.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quail_engine.calls import AiCall, Kind, Label, Question, Task
from quail_engine.settings import Settings
from quail_engine.sql import LIST_LOOK_UP, LOOK_UPS, OPEN, label_of, labels_problem

Arguments = tuple[str, ...]

_TYPES: dict[str, tuple[str, pa.DataType]] = {
    LOOK_UPS[Kind.FILTER]: ("BOOLEAN", pa.bool_()),
    LOOK_UPS[Kind.SCORE]: ("DOUBLE", pa.float64()),
    LOOK_UPS[Kind.CLASSIFY]: ("VARCHAR", pa.string()),
    LOOK_UPS[Kind.CLASSIFY_SCORES]: ("MAP(VARCHAR, DOUBLE)", pa.map_(pa.string(), pa.float64())),
    LIST_LOOK_UP: ("VARCHAR[]", pa.list_(pa.string())),
}
_STUBS = {
    "PROMPT": "VARCHAR",
    "AI_FILTER": "BOOLEAN",
    "AI_JOIN": "BOOLEAN",
    "AI_SCORE": "DOUBLE",
    "AI_CLASSIFY": "VARCHAR",
    "AI_CLASSIFY_SCORES": "MAP(VARCHAR, DOUBLE)",
}
_numbers = itertools.count()
_by_tag: dict[str, LookUp] = {}  # DuckDB's functions are the database's, not a session's, so their tags are the process's


@dataclass
class Inquiry:
    """One question in one statement: what is known, and what a round found missing."""

    question: Question
    model: str
    on_overlong: str | None
    max_error_ratio: float | None
    symmetric: bool  # the order of a pair's texts does not matter: one of both orders is asked
    room: int  # inputs that a round may note
    asked: int = 0
    failed: int = 0
    known: dict[bytes, tuple[float, ...] | None] = field(default_factory=dict)  # digest → numbers; None: failed or overlong
    missing: dict[bytes, Arguments] = field(default_factory=dict)

    def note(self, digest: bytes, arguments: Arguments) -> bool:
        """Whether the input is noted; not so when the round has no room, and the next one will meet it again."""
        assert digest not in self.known, "an input that was answered is noted again"
        if len(self.missing) >= self.room:
            return digest in self.missing
        self.missing.setdefault(digest, arguments)
        return True

    def canonical(self, arguments: Arguments) -> Arguments:
        """The texts in the order in which they are asked."""
        return tuple(sorted(arguments)) if self.symmetric else arguments


@dataclass
class Group:
    """Rows of which one TRUE is enough."""

    satisfied: bool = False
    allowed: int = 1  # inputs that may be noted in this round; doubles from round to round
    noted: set[bytes] = field(default_factory=set)  # in this round


@dataclass
class LookUp:
    """What a tag stands for."""

    inquiry: Inquiry
    kind: Kind
    threshold: float
    level: int
    labels_in_row: bool  # the last argument is the row's labels, as JSON
    width: int  # number of arguments; they are the last columns that DuckDB passes
    group_width: int | None  # columns before the arguments that name the row's group; None: no groups
    noting: bool = False  # set while a round executes that has released this call
    rows: int = 0  # rows looked up in the current round
    values: dict[bytes, Any] = field(default_factory=dict)  # SQL values of known inputs, as far as they were looked up
    groups: dict[Arguments, Group] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next_round(self, level: int, asks: bool) -> None:
        """Before a round: whether this call may note, and what its groups learned from the last one."""
        self.noting = self.level <= level and asks
        self.rows = 0
        for group in self.groups.values():
            group.satisfied |= any(self._is_true(digest) for digest in group.noted)
            group.allowed *= 2 if group.noted else 1
            group.noted.clear()

    def grouped_value(self, group_key: Arguments, digest: bytes, arguments: Arguments) -> Any:
        """As `value`, but notes no more of a group than it may, and nothing of one that has its TRUE."""
        group = self.groups.setdefault(group_key, Group())
        if digest in self.inquiry.known:
            group.satisfied |= self._is_true(digest)
        elif (
            self.noting
            and not group.satisfied
            and (digest in group.noted or len(group.noted) < group.allowed)
            and self.inquiry.note(digest, arguments)
        ):
            group.noted.add(digest)
        return self._known_value(digest, arguments)

    def _is_true(self, digest: bytes) -> bool:
        numbers = self.inquiry.known.get(digest)
        return numbers is not None and probability(numbers[0]) >= self.threshold

    def value(self, digest: bytes, arguments: Arguments) -> Any:
        """The SQL value of an input's answer, None when it is unknown, failed or overlong."""
        if digest in self.values:
            return self.values[digest]
        if self.noting and digest not in self.inquiry.known:
            self.inquiry.note(digest, arguments)
        return self._known_value(digest, arguments)

    def _known_value(self, digest: bytes, arguments: Arguments) -> Any:
        if digest not in self.inquiry.known:
            return None
        numbers = self.inquiry.known[digest]
        value = None
        if numbers is not None:
            labels = self.inquiry.question.labels or (labels_of(arguments[-1]) if self.labels_in_row else ())
            value = sql_value(self.kind, self.inquiry.question.task, numbers, labels, self.threshold)
        self.values[digest] = value
        return value


def digest_of(arguments: Sequence[str]) -> bytes:
    """16 bytes that name an input; lengths keep ('ab', '') and ('a', 'b') apart."""
    if len(arguments) == 1:
        return hashlib.blake2b(arguments[0].encode(), digest_size=16).digest()
    whole = hashlib.blake2b(digest_size=16)
    for text in arguments:
        data = text.encode()
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.digest()


def probability(margin: float) -> float:
    """Probability of TRUE of a float32 margin, in double precision; 0.5 at a margin of exactly 0."""
    return 1 / (1 + math.exp(-margin)) if margin >= 0 else math.exp(margin) / (1 + math.exp(margin))


def sql_value(kind: Kind, task: Task, numbers: tuple[float, ...], labels: Sequence[Label], threshold: float) -> Any:
    """What a call returns for an answer's numbers."""
    if task is Task.TAG:
        return [label.text for label, margin in zip(labels, numbers, strict=True) if probability(margin) >= threshold]
    if kind is Kind.FILTER:
        return probability(numbers[0]) >= threshold
    if kind is Kind.SCORE:
        return probability(numbers[0])
    if kind is Kind.CLASSIFY:
        return labels[max(range(len(numbers)), key=numbers.__getitem__)].text
    weights = [math.exp(number) for number in numbers]
    total = sum(weights)
    return [(label.text, weight / total) for label, weight in zip(labels, weights, strict=True)]


def labels_of(text: str) -> tuple[Label, ...]:
    """Labels from the JSON of a row's list. Raises ValueError with a sentence when they are not labels."""
    values = json.loads(text)
    labels = tuple(label_of(value) for value in values or ())
    problem = labels_problem(labels)
    if problem:
        raise ValueError(problem)
    return labels


class StatementLookUps:
    """The look-ups of one statement: a tag a call, shared by calls that ask the same at the same level.

    `deciding` names calls that note nothing: at a LIMIT they were asked before, as far as it needs.
    """

    def __init__(self, calls: Sequence[AiCall], settings: Settings, deciding: Sequence[int] = ()) -> None:
        self.inquiries: dict[object, Inquiry] = {}
        self.tags: list[str] = []
        self._look_ups: dict[object, str] = {}
        for i, call in enumerate(calls):
            options = call.options
            about = (
                call.question,
                options.model or settings.model,
                options.on_overlong,
                options.max_error_ratio,
                options.symmetric and len(call.arguments) == 2,
            )
            inquiry = self.inquiries.setdefault(about, Inquiry(*about, room=settings.max_missing_per_round))
            self.tags.append(self._tag(call, inquiry, settings.threshold, i in deciding))
        self._deciding = {self.tags[i] for i in deciding}

    def _tag(self, call: AiCall, inquiry: Inquiry, default_threshold: float, decides: bool) -> str:
        threshold = call.options.threshold if call.options.threshold is not None else default_threshold
        grouped = None if call.group is None else len(call.group)
        same = (id(inquiry), call.kind, threshold, call.level, bool(call.labels_argument), decides, call.group)
        if same not in self._look_ups:
            tag = f"q{next(_numbers)}"
            width = len(call.arguments) + bool(call.labels_argument)
            _by_tag[tag] = LookUp(inquiry, call.kind, threshold, call.level, bool(call.labels_argument), width, grouped)
            self._look_ups[same] = tag
        return self._look_ups[same]

    def inquiry(self, call_index: int) -> Inquiry:
        return _by_tag[self.tags[call_index]].inquiry

    def width(self, call_index: int) -> int:
        """Number of texts that a call is about."""
        return _by_tag[self.tags[call_index]].width

    def threshold(self, call_index: int) -> float:
        return _by_tag[self.tags[call_index]].threshold

    def start(self, level: int) -> None:
        """From here on look-ups up to `level` note what is missing; the deciding ones do not."""
        for tag in set(self.tags):
            _by_tag[tag].next_round(level, asks=tag not in self._deciding)

    def stop(self) -> None:
        for tag in set(self.tags):
            _by_tag[tag].noting = False

    def missing(self) -> list[Inquiry]:
        return [inquiry for inquiry in self.inquiries.values() if inquiry.missing]

    @property
    def rows(self) -> int:
        return sum(_by_tag[tag].rows for tag in set(self.tags))

    def close(self) -> None:
        for tag in set(self.tags):
            _by_tag.pop(tag, None)


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Adds look-ups and stubs to a database instance, once; outside any transaction."""
    present = connection.execute("SELECT 1 FROM duckdb_functions() WHERE function_name = '__quail_bool'").fetchone()
    if present:
        return
    for name, (sql_type, arrow_type) in _TYPES.items():
        create_function(connection, name, _look_up_function(arrow_type), sql_type)
    create_function(connection, OPEN, _open_function, "BOOLEAN")
    for name, sql_type in _STUBS.items():
        create_function(connection, name, _stub(name), sql_type)


def create_function(connection: duckdb.DuckDBPyConnection, name: str, function: Callable[..., pa.Array], sql_type: str) -> None:
    """A function of any number of arguments, called with Arrow columns, NULLs included."""
    # No side effects: a volatile function may not stand in a window's ORDER BY, and defeats DuckDB's join filters.
    connection.create_function(  # type: ignore[call-overload]
        name, function, None, sql_type, type="arrow", null_handling="special", side_effects=False
    )


def _stub(name: str) -> Callable[..., pa.Array]:
    def refuse(*_: pa.Array) -> pa.Array:
        raise ValueError(
            f"{name} was called where no plan sees it: inside a DuckDB view or macro, or from a tool without quail. "
            "Write the AI call in the query or model itself; a view over it becomes a table."
        )

    return refuse


def _look_up_function(arrow_type: pa.DataType) -> Callable[..., pa.Array]:
    def look_up(*columns: pa.Array) -> pa.Array:
        rows = len(columns[0])
        found = _by_tag.get(columns[0][0].as_py()) if rows else None
        if found is None:
            return pa.nulls(rows, arrow_type)
        first = len(columns) - found.width - (found.group_width or 0)
        guard, *inputs = map(_whole, (columns[1], *columns[first:]))
        return _look_up_chunk(found, guard, inputs, arrow_type)

    return look_up


def _open_function(*columns: pa.Array) -> pa.Array:
    """Whether a look-up with these columns would note its input, had it been released."""
    found = _by_tag.get(columns[0][0].as_py()) if len(columns[0]) else None
    if found is None:
        return pa.nulls(len(columns[0]), pa.bool_())
    guard, *arguments = map(_whole, (columns[1], *columns[len(columns) - found.width :]))
    known = found.inquiry.known
    rows = zip(guard.to_pylist(), *(column.to_pylist() for column in arguments), strict=True)
    return pa.array(
        [bool(shown) and None not in inputs and digest_of(inputs) not in known for shown, *inputs in rows], pa.bool_()
    )


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _look_up_chunk(look_up: LookUp, guard: pa.Array, columns: Sequence[pa.Array], arrow_type: pa.DataType) -> pa.Array:
    """One chunk: the distinct inputs on guarded rows are looked up once each and their values taken by every row."""
    grouping = look_up.group_width or 0
    shown = pc.fill_null(guard, False)
    for column in columns[grouping:]:
        shown = pc.and_(shown, pc.is_valid(column))
    codes, inputs = _distinct([column.filter(shown) for column in columns], pc.sum(shown).as_py() or 0)
    with look_up.lock:
        look_up.rows += len(codes)
        if look_up.group_width is None:
            asked = map(look_up.inquiry.canonical, inputs)
            values = [look_up.value(digest_of(i), i) for i in asked]
        else:
            grouped = [(i[:grouping], look_up.inquiry.canonical(i[grouping:])) for i in inputs]
            values = [look_up.grouped_value(group, digest_of(i), i) for group, i in grouped]
    index = pc.replace_with_mask(pa.nulls(len(guard), pa.int32()), shown, pa.array(codes, pa.int32()))
    return pa.array(values, arrow_type).take(index)


def _distinct(columns: Sequence[pa.Array], rows: int) -> tuple[np.ndarray[Any, Any], Iterable[Arguments]]:
    """For every row the number of its input, and the distinct inputs in that order."""
    if not columns:
        return np.zeros(rows, np.int32), [()] if rows else []
    encoded = [column.dictionary_encode(null_encoding="encode") for column in columns]
    texts = [column.dictionary.to_pylist() for column in encoded]
    indices = [column.indices.to_numpy(zero_copy_only=False).astype(np.int64) for column in encoded]
    if len(columns) == 1:
        return indices[0], [(text,) for text in texts[0]]
    codes = indices[0]
    for index, words in zip(indices[1:], texts[1:], strict=True):
        # Numbered anew after each column, so that the product stays below rows times words.
        _, first, inverse = np.unique(codes * max(1, len(words)) + index, return_index=True, return_inverse=True)
        codes = inverse.reshape(-1)
    picked = [[words[i] for i in index[first].tolist()] for index, words in zip(indices, texts, strict=True)]
    return codes, list(zip(*picked, strict=True))
