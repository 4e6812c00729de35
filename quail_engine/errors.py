"""The error tree. Every error a user can cause is a `QuailError` whose text is one paragraph: what, where, why, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A span of a text of SQL; as a text, its line with the span underlined."""

    sql: str
    start: int  # character offsets, end exclusive
    end: int

    def within(self, parts: Sequence[str]) -> Place:
        """The same place in the first of `parts`, texts that an author wrote of a longer one, in which it lies."""
        for part in parts:
            start = self.sql.find(part) if part else -1
            if start >= 0 and start <= self.start < start + len(part):
                return Place(part, self.start - start, self.end - start)
        return self

    def __str__(self) -> str:
        start_of_line = self.sql.rfind("\n", 0, self.start) + 1
        end_of_line = self.sql.find("\n", self.start)
        line = self.sql[start_of_line:] if end_of_line < 0 else self.sql[start_of_line:end_of_line]
        column = self.start - start_of_line
        width = max(1, min(self.end, start_of_line + len(line)) - self.start)
        line, column, width = _shortened(line, column, width)
        prefix = f"line {self.sql.count(chr(10), 0, self.start) + 1}: "
        # Tabs are kept in the padding so that the marker stands under the call in any terminal.
        padding = " " * len(prefix) + "".join("\t" if c == "\t" else " " for c in line[:column])
        return f"{prefix}{line}\n{padding}{'^' * width}"


_SHOWN = 600
"""Characters of a line that are shown whole; of a longer one, as of a thousand labelled rows, what is around the place."""


def _shortened(line: str, column: int, width: int) -> tuple[str, int, int]:
    """The part of a line around its underlined span, and where that begins in it and how wide it is."""
    if len(line) <= _SHOWN:
        return line, column, width
    width = min(width, _SHOWN // 2)
    start = max(0, min(column - (_SHOWN - width) // 2, len(line) - _SHOWN))
    end = min(len(line), start + _SHOWN)
    before, after = "…" if start else "", "…" if end < len(line) else ""
    return f"{before}{line[start:end]}{after}", column - start + len(before), width


class QuailError(Exception):
    """Root of every error raised by quail_engine."""


class SettingsError(QuailError):
    """A setting is unknown or has a value that it cannot take."""


class ModelError(QuailError):
    """A model is unknown, missing, damaged, or of a kind that the engine cannot run."""


class EngineError(QuailError):
    """The engine could not answer: a missing library, a device that failed, too many failed rows."""


class BudgetError(QuailError):
    """A statement would ask for more than the settings allow; nothing of it was asked."""


class AnswerStoreError(QuailError):
    """The answer store cannot be read or written."""


class SqlError(QuailError):
    """A statement that cannot be run as written, with the place underlined.

    `position` and `end` are character offsets into `sql` (end exclusive); the message shows the reason, that line with the
    span underlined and, where there is one, a rewrite that works.
    """

    def __init__(self, reason: str, sql: str, position: int, end: int | None = None, rewrite: str | None = None) -> None:
        self.reason = reason
        self.sql = sql
        self.position = position
        self.end = position + 1 if end is None else end
        self.rewrite = rewrite
        text = f"{reason}\n{Place(sql, position, self.end)}"
        super().__init__(f"{text}\nWrite instead: {rewrite}" if rewrite else text)

    def within(self, parts: Sequence[str]) -> SqlError:
        """The same error with its place told in the first of `parts` that holds it (`Place.within`)."""
        place = Place(self.sql, self.position, self.end).within(parts)
        return SqlError(self.reason, place.sql, place.start, place.end, self.rewrite)


class UnreadableError(SqlError):
    """SQL that our parser cannot read. DuckDB, if it cannot either, says better why."""

    @classmethod
    def of(cls, error: SqlError) -> UnreadableError:
        return cls(error.reason, error.sql, error.position, error.end, error.rewrite)
