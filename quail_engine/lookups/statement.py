"""The look-ups of a statement: what each tag stands for, which call may note in a round, and what groups have learned."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from quail_engine.calls import AiCall, Kind
from quail_engine.lookups.inquiry import Arguments, Inquiry
from quail_engine.lookups.values import labels_of, probability, sql_value
from quail_engine.settings import Settings

_numbers = itertools.count()
_by_tag: dict[str, LookUp] = {}  # DuckDB's functions are the database's, not a session's, so their tags are the process's


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


def look_up_of(tag: str) -> LookUp | None:
    """What a tag stands for; None when its statement has ended."""
    return _by_tag.get(tag)


class StatementLookUps:
    """The look-ups of one statement: a tag a call, shared by calls that ask the same at the same level.

    `apart` names calls that note nothing in rounds: they are asked about the rows that a LIMIT needs, and no others.
    """

    def __init__(self, calls: Sequence[AiCall], settings: Settings, apart: Sequence[int] = ()) -> None:
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
            self.tags.append(self._tag(call, inquiry, settings.threshold, i in apart))
        self._apart = {self.tags[i] for i in apart}

    def _tag(self, call: AiCall, inquiry: Inquiry, default_threshold: float, apart: bool) -> str:
        threshold = call.options.threshold if call.options.threshold is not None else default_threshold
        grouped = None if call.group is None else len(call.group)
        same = (id(inquiry), call.kind, threshold, call.level, bool(call.labels_argument), apart, call.group)
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
        """From here on look-ups up to `level` note what is missing; those apart do not."""
        for tag in set(self.tags):
            _by_tag[tag].next_round(level, asks=tag not in self._apart)

    def start_only(self, calls: Sequence[int]) -> None:
        """From here on the look-ups of these calls note what is missing, and no others."""
        asking = {self.tags[i] for i in calls}
        for tag in set(self.tags):
            _by_tag[tag].next_round(_by_tag[tag].level, asks=tag in asking)

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
