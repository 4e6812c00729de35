"""DuckDB's errors in the user's own words.

DuckDB is sent texts that are made from the user's: AI calls replaced by look-ups, conditions copied into them, a query put into
a table. What it says of such a text is told of the user's: the same place in their lines, and their calls by name.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher

import duckdb

from quail_engine.errors import Place, SqlError
from quail_engine.sql import meant

Deliver = Callable[[str], object]

_LINE = re.compile(r"\n+LINE (\d+): (.*)\n( *)(\^+)\s*\Z")
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\w+|[^\w\s]")
_LOOK_UP = re.compile(r"__quail_\w+(?:\('(\w+)')?")
_CANDIDATES = re.compile(r"((?:^\t[^\s].*\n){7})((?:^\t.*(?:\n|\Z)){2,})", re.MULTILINE)
_NO_FUNCTION = re.compile(r"(Function with name (\w+) does not exist!)(\nDid you mean \"[^\"]*\"\?)?")
_IN_PYTHON = "Python exception occurred while executing the UDF: ValueError: "
_MOST_TOKENS = 10_000  # of a text that is aligned: longer ones take seconds


@dataclass(frozen=True)
class Written:
    """A statement as its author wrote it, and where its AI calls stand."""

    text: str  # all that was sent, perhaps several statements
    start: int  # span of the statement in `text`
    end: int
    calls: Sequence[tuple[int, int]]  # spans of the calls in `text`


class Recorder:
    """A cursor that knows the text that it ran last: a query of DuckDB's may fail as late as when its rows are read."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, deliver: Deliver | None = None) -> None:
        self.cursor = cursor
        self.text = ""
        self._deliver = deliver or cursor.execute
        self.register, self.unregister = cursor.register, cursor.unregister

    def execute(self, sql: str, values: Sequence[object] | None = None) -> duckdb.DuckDBPyConnection:
        self.text = sql
        return self.cursor.execute(sql, values)

    def sql(self, sql: str) -> duckdb.DuckDBPyRelation:
        self.text = sql
        return self.cursor.sql(sql)

    def deliver(self, sql: str) -> None:
        """Runs what leaves the result to be fetched."""
        self.text = sql
        self._deliver(sql)


@contextmanager
def in_own_words(recorder: Recorder, written: Written, tags: Sequence[str], parts: Sequence[str]) -> Iterator[None]:
    """Raises DuckDB's errors about what the recorder ran as errors of the same class about what `written` says.

    `tags` name its calls in what runs. The place is told in the first of `parts` that holds it.
    """
    try:
        yield
    except duckdb.Error as error:
        raise type(error)(_told(str(error), recorder.text, written, tags, parts)) from None


@contextmanager
def naming_ai_functions() -> Iterator[None]:
    """Raises DuckDB's errors about a function that it does not know with the AI function that is all but called so."""
    try:
        yield
    except duckdb.CatalogException as error:
        if (told := _with_ai_function(str(error))) == str(error):
            raise
        raise duckdb.CatalogException(told) from None


def _with_ai_function(message: str) -> str:
    def told(found: re.Match[str]) -> str:
        function = meant(found[2])
        return f"{found[1]}\nDid you mean {function}?" if function else found[0]

    return _NO_FUNCTION.sub(told, message)


def not_read(cursor: duckdb.DuckDBPyConnection, written: Written) -> SqlError | None:
    """What DuckDB's parser says is wrong with a statement; None where it can read it."""
    text = written.text[written.start : written.end]
    try:
        cursor.extract_statements(text)
    except duckdb.ParserException as error:
        message = str(error)
        found = _LINE.search(message)
        span = _underlined_by(found, text) if found else None
        reason = message[: found.start()] if found else message
        start, end = span or (0, len(text))
        return SqlError(f"{reason.removeprefix('Parser Error: ')}.", written.text, written.start + start, written.start + end)
    return None


def _told(message: str, ran: str, written: Written, tags: Sequence[str], parts: Sequence[str]) -> str:
    found = _LINE.search(message)
    reason = _without_stand_ins(message[: found.start()] if found else message, written, tags)
    reason = re.sub(r"\n\n+", "\n", _with_ai_function(reason.strip())).replace(_IN_PYTHON, "")
    reason = _CANDIDATES.sub(lambda all_: f"{all_[1]}\t… and {all_[2].count(chr(9))} more", reason)
    place = _place(ran, found, written, tags) if found else None
    return f"{reason}\n{place.within(parts)}" if place else reason


def _place(ran: str, found: re.Match[str], written: Written, tags: Sequence[str]) -> Place | None:
    """What DuckDB underlines in `ran`, as a place in the author's text; None where that has nothing like it."""
    span = _underlined_by(found, ran)
    theirs, ours = _tokens(ran, 0, len(ran)), _tokens(written.text, written.start, written.end)
    if span is None or not theirs or not ours:
        return None
    own = [written.text[start:end] for start, end in ours]
    names = {tag: own[[start for start, _ in ours].index(call[0])] for tag, call in zip(tags, written.calls, strict=True)}
    words = [names.get(_tag_at(ran, start), ran[start:end]) for start, end in theirs]
    at = max(0, bisect_right([start for start, _ in theirs], span[0]) - 1)
    same = _same_word(words, own, at)
    if same is None:
        return None
    call = next((call for call in written.calls if call[0] == ours[same][0]), None)
    if call is not None:
        return Place(written.text, *call)
    last = same
    while last + 1 < len(own) and at + 1 < len(words) and theirs[at + 1][0] < span[1] and own[last + 1] == words[at + 1]:
        last, at = last + 1, at + 1
    opened = own[same : last + 1].count("(") - own[same : last + 1].count(")")
    while opened > 0 and last + 1 < len(own):  # a function whose arguments we have rewritten
        last += 1
        opened += (own[last] == "(") - (own[last] == ")")
    return Place(written.text, ours[same][0], ours[last][1])


def _underlined_by(found: re.Match[str], ran: str) -> tuple[int, int] | None:
    """The span of `ran` that DuckDB underlines; it shows a part of the line, and counts in columns of a terminal."""
    number, excerpt, width = int(found[1]), found[2], len(found[4])
    column = len(found[3]) - len(f"LINE {number}: ")
    lines = ran.split("\n")
    if not 0 < number <= len(lines):
        return None
    shown, cut = excerpt, 0
    if excerpt not in lines[number - 1]:
        cut = 3 if excerpt.startswith("...") else 0
        shown = excerpt[cut:].removesuffix("...")
    at = lines[number - 1].find(shown)
    ends: list[int] = []  # of each character, in columns
    for character in shown:
        ends.append((ends[-1] if ends else 0) + _columns(character))
    first = bisect_right(ends, column - cut)
    if at < 0 or first >= len(shown):
        return None
    start = sum(len(line) + 1 for line in lines[: number - 1]) + at + first
    return start, start + max(1, bisect_right(ends, column - cut + width) - first)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character).startswith("C"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _tokens(text: str, start: int, end: int) -> list[tuple[int, int]]:
    return [match.span() for match in _TOKEN.finditer(text, start, end)]


def _same_word(theirs: Sequence[str], ours: Sequence[str], at: int) -> int | None:
    """The number of our word that became their word `at`: the one aligned with it, else the one in the likest surroundings."""
    if max(len(theirs), len(ours)) <= _MOST_TOKENS:
        for block in SequenceMatcher(None, theirs, ours, autojunk=False).get_matching_blocks():
            if block.a <= at < block.a + block.size:
                return block.b + at - block.a
    alike = [number for number, word in enumerate(ours) if word == theirs[at]]
    return max(alike, key=lambda number: _alike(theirs, ours, at, number), default=None)


def _alike(theirs: Sequence[str], ours: Sequence[str], at: int, number: int) -> int:
    """How many words in a row agree around two that do."""
    before = after = 0
    while min(at, number) > before and theirs[at - before - 1] == ours[number - before - 1]:
        before += 1
    while at + after < len(theirs) and number + after < len(ours) and theirs[at + after] == ours[number + after]:
        after += 1
    return before + after


def _tag_at(text: str, at: int) -> str:
    """The tag of the look-up that begins at a place; empty where none does."""
    name = _LOOK_UP.match(text, at)
    return name[1] if name and name[1] else ""


def _without_stand_ins(message: str, written: Written, tags: Sequence[str]) -> str:
    """A message with each look-up that it quotes as the call that it stands for."""
    pieces, at = [], 0
    for found in _LOOK_UP.finditer(message):
        if found.start() < at:
            continue
        name, end = "the AI call", found.end()
        if found[1]:
            end = _closing(message, message.index("(", found.start()))
            name = written.text[slice(*written.calls[tags.index(found[1])])] if found[1] in tags else name
        pieces += [message[at : found.start()], name]
        at = end
    return "".join([*pieces, message[at:]])


def _closing(text: str, opening: int) -> int:
    """Behind the bracket that closes the one at `opening`; the end of the text where none does."""
    depth = 0
    for start, end in _tokens(text, opening, len(text)):
        depth += (text[start:end] == "(") - (text[start:end] == ")")
        if depth == 0:
            return end
    return len(text)
