"""The look-ups of a statement: what each tag stands for, which call may note in a round, and what groups have learned."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quail_engine.arrow import of_flags
from quail_engine.calls import AiCall, Kind, Label
from quail_engine.lookups.chunks import GroupKey, Inputs, RecentChunks
from quail_engine.lookups.digests import Positions
from quail_engine.lookups.inquiry import Inquiry
from quail_engine.lookups.values import labels_of, least_margin, sql_value
from quail_engine.settings import Settings
from quail_engine.sql import BEFORE, BESIDE, KNOWN

_ELSEWHERE = (KNOWN, BESIDE, BEFORE)  # than where the call stands
_NOTHING = np.empty(0, np.int64)
_numbers = itertools.count()
_by_tag: dict[str, LookUp] = {}  # DuckDB's functions are the database's, not a session's, so their tags are the process's


@dataclass
class Group:
    """Rows of which one TRUE is enough."""

    satisfied: bool = False
    allowed: int = 1  # inputs that may be noted in this round; doubles from round to round
    noted: set[bytes] = field(default_factory=set)  # digests, in this round


@dataclass
class LookUp:
    """What a tag stands for."""

    inquiry: Inquiry
    kind: Kind
    threshold: float
    level: int
    labels_in_row: bool  # the last argument is the row's labels, as JSON
    group_width: int | None  # columns before the arguments that name the row's group; None: no groups
    recent: RecentChunks  # all look-ups of the statement see the same rows
    noting: bool = False  # set while a round executes that has released this call
    rows: int = 0  # rows looked up in the current round
    waits: bool = False  # whether the current round met an input that nobody has answered, and may ask about it
    groups: dict[GroupKey, Group] = field(default_factory=dict)

    def next_round(self, level: int, asks: bool) -> None:
        """Before a round: whether this call may note, and what its groups learned from the last one."""
        self.noting = self.level <= level and asks
        self.rows = 0
        self.waits = False
        asked = [group for group in self.groups.values() if group.noted]
        names = b"".join(name for group in asked for name in group.noted)
        true = self._true(self.inquiry.find(np.frombuffer(names, np.uint64).reshape(-1, 2)))
        end = 0
        for group in asked:
            begin, end = end, end + len(group.noted)
            group.satisfied |= any(true[begin:end])
            group.allowed *= 2
            group.noted.clear()

    def forget(self) -> None:
        """Drops what the last round noted for groups."""
        for group in self.groups.values():
            group.noted.clear()

    def look_up(self, inputs: Inputs) -> pa.Array | list[Any]:
        """The SQL values of inputs; None where an answer is missing, failed or overlong."""
        with self.inquiry.lock:
            self.rows += len(inputs.codes)
            positions = inputs.positions(self.inquiry)
            if self.group_width is not None:
                new = self._of_groups(inputs, positions)
            elif self.noting:
                new = np.flatnonzero(positions < 0)
                self.waits |= not self.inquiry.known(positions).all()
            else:
                new = _NOTHING
            if len(new):
                self.inquiry.note(inputs.digests[new], inputs.texts(new))
            return self._values(positions, inputs)

    def _of_groups(self, inputs: Inputs, positions: Positions) -> Positions:
        """The rows to note: no more of a group than it may have, and nothing of one that has its TRUE."""
        room = self.inquiry.room - len(self.inquiry.missing)
        known, true = self.inquiry.known(positions).tolist(), self._true(positions).tolist()
        chosen: dict[bytes, int] = {}
        digests = inputs.digests
        for row, key in enumerate(inputs.groups):
            group = self.groups.setdefault(key, Group())
            name = digests[row].tobytes()
            if known[row]:
                group.satisfied |= true[row]
            elif (
                self.noting
                and not group.satisfied
                and (name in group.noted or len(group.noted) < group.allowed)
                and (positions[row] >= 0 or name in chosen or len(chosen) < room)
            ):
                group.noted.add(name)
                self.waits = True
                if positions[row] < 0:
                    chosen.setdefault(name, row)
        return np.array(list(chosen.values()), np.int64)

    @property
    def true_inputs(self) -> int:
        """How many of all inputs are known to be TRUE."""
        return int(self._true(np.arange(self.inquiry.inputs)).sum())

    def _true(self, positions: Positions) -> NDArray[np.bool_]:
        """Which inputs are known to be TRUE."""
        return self._margins(positions) >= least_margin(self.threshold)

    def _margins(self, positions: Positions) -> NDArray[np.float32]:
        """The first number of each input; NaN where there is none."""
        margins = np.full(len(positions), np.nan, np.float32)
        known = self.inquiry.known(positions)
        margins[known] = self.inquiry.numbers(positions[known], 1)[:, 0]
        return margins

    def _values(self, positions: Positions, inputs: Inputs) -> pa.Array | list[Any]:
        if self.kind is Kind.FILTER:  # whole columns, because these are looked up by the million
            margins = self._margins(positions)
            return of_flags(margins >= least_margin(self.threshold), ~np.isnan(margins))
        rows = np.flatnonzero(self.inquiry.known(positions))
        values: list[Any] = [None] * len(positions)
        if not len(rows):
            return values
        for labels, some in self._by_labels(rows, positions, inputs):
            numbers = self.inquiry.numbers(positions[some], len(labels) or 1)
            for row, found in zip(some.tolist(), numbers.tolist(), strict=True):
                if found[0] == found[0]:
                    values[row] = sql_value(self.kind, self.inquiry.question.task, found, labels, self.threshold)
        return values

    def _by_labels(
        self, rows: Positions, positions: Positions, inputs: Inputs
    ) -> Iterator[tuple[tuple[Label, ...], Positions]]:
        """Rows by the labels that their numbers are about."""
        if not self.labels_in_row:
            yield self.inquiry.question.labels, rows
            return
        answered = rows[~np.isnan(self.inquiry.numbers(positions[rows], 1)[:, 0])]  # the labels of others may be none
        lists: dict[str, list[int]] = {}
        for row, text in zip(answered.tolist(), inputs.texts(answered)[-1].to_pylist(), strict=True):
            lists.setdefault(text, []).append(row)
        for text, some in lists.items():
            yield labels_of(text), np.array(some)


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
        self._recent = RecentChunks()
        for i, call in enumerate(calls):
            options = call.options
            about = (
                call.question,
                options.model or settings.model,
                options.on_overlong,
                options.symmetric and len(call.arguments) == 2,
            )
            width = len(call.arguments) + bool(call.labels_argument)
            limits = settings.max_missing_per_round, settings.missing_bytes
            inquiry = self.inquiries.setdefault(about, Inquiry(*about, width, *limits))
            ratio = options.max_error_ratio if options.max_error_ratio is not None else settings.max_error_ratio
            inquiry.max_error_ratio = min(inquiry.max_error_ratio, ratio)
            self.tags.append(self._tag(call, inquiry, settings.threshold, i in apart))
        self._apart = {self.tags[i] for i in apart}

    def _tag(self, call: AiCall, inquiry: Inquiry, default_threshold: float, apart: bool) -> str:
        threshold = call.options.threshold if call.options.threshold is not None else default_threshold
        grouped = None if call.group is None else len(call.group)
        same = (id(inquiry), call.kind, threshold, call.level, bool(call.labels_argument), apart, call.group)
        if same not in self._look_ups:
            tag = f"q{next(_numbers)}"
            look_up = LookUp(inquiry, call.kind, threshold, call.level, bool(call.labels_argument), grouped, self._recent)
            _by_tag[tag] = look_up
            for place in _ELSEWHERE:
                _by_tag[tag + place] = replace(look_up, group_width=None, groups={})
            self._look_ups[same] = tag
        return self._look_ups[same]

    def inquiry(self, call_index: int) -> Inquiry:
        return _by_tag[self.tags[call_index]].inquiry

    def width(self, call_index: int) -> int:
        """Number of texts that a call is about."""
        return self.inquiry(call_index).width

    def threshold(self, call_index: int) -> float:
        return _by_tag[self.tags[call_index]].threshold

    def start(self, level: int) -> None:
        """From here on look-ups up to `level` note what is missing; those apart do not."""
        for tag, look_up in self._noting():
            look_up.next_round(level, asks=tag not in self._apart)

    def start_only(self, calls: Sequence[int]) -> None:
        """From here on the look-ups of these calls note what is missing, and no others."""
        asking = {self.tags[i] for i in calls}
        for tag, look_up in self._noting():
            look_up.next_round(look_up.level, asks=tag in asking)

    def stop(self) -> None:
        self._recent.clear()
        for _, look_up in self._noting():
            look_up.noting = False

    def _noting(self) -> Iterator[tuple[str, LookUp]]:
        """The look-ups that may note something, with the tag of their call."""
        for tag in set(self.tags):
            yield tag, _by_tag[tag]
            yield tag, _by_tag[tag + BESIDE]
            yield tag, _by_tag[tag + BEFORE]

    def missing(self) -> list[Inquiry]:
        return [inquiry for inquiry in self.inquiries.values() if inquiry.waits]

    def waiting_levels(self) -> list[int]:
        """The levels of the calls that met something missing in the last round, lowest first."""
        return sorted({look_up.level for _, look_up in self._noting() if look_up.waits})

    def forget(self) -> None:
        """Drops what the last round noted, as if it had not been."""
        for inquiry in self.inquiries.values():
            inquiry.forget()
        for _, look_up in self._noting():
            look_up.forget()

    @property
    def rows(self) -> dict[str, int]:
        """Rows looked up in the current round, by tag."""
        return {tag: max(_by_tag[tag].rows, _by_tag[tag + BESIDE].rows) for tag in self.tags}

    def inputs(self, call_index: int) -> int:
        """Different inputs that were met so far, and whose answer matters."""
        return self.inquiry(call_index).needed

    def true(self, call_index: int) -> int | None:
        """The inputs that are known to be TRUE; None of a call that is no condition."""
        look_up = _by_tag[self.tags[call_index]]
        return look_up.true_inputs if look_up.kind is Kind.FILTER else None

    def close(self) -> None:
        for inquiry in self.inquiries.values():
            inquiry.missing.close()  # of a round that was refused
        for tag in set(self.tags):
            for place in ("", *_ELSEWHERE):
                _by_tag.pop(tag + place, None)
