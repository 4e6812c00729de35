"""The error tree. Every error a user can cause is a `QuailError` whose text is one paragraph: what, where, why, what to do."""

from __future__ import annotations


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

    `position` and `end` are character offsets into `sql` (end exclusive); the message shows that line with the span
    underlined, then the reason and, where there is one, a rewrite that works.
    """

    def __init__(self, reason: str, sql: str, position: int, end: int | None = None, rewrite: str | None = None) -> None:
        self.reason = reason
        self.sql = sql
        self.position = position
        self.end = position + 1 if end is None else end
        self.rewrite = rewrite
        super().__init__(self._text())

    def within(self, text: str) -> SqlError:
        """The same error with its place told in `text`, the part of the statement that its author wrote, if it lies there."""
        start = self.sql.find(text) if text else -1
        if start < 0 or not start <= self.position < start + len(text):
            return self
        return SqlError(self.reason, text, self.position - start, self.end - start, self.rewrite)

    def _text(self) -> str:
        start_of_line = self.sql.rfind("\n", 0, self.position) + 1
        end_of_line = self.sql.find("\n", self.position)
        line = self.sql[start_of_line:] if end_of_line < 0 else self.sql[start_of_line:end_of_line]
        number = self.sql.count("\n", 0, self.position) + 1
        column = self.position - start_of_line
        width = max(1, min(self.end, start_of_line + len(line)) - self.position)
        prefix = f"line {number}: "
        # Tabs are kept in the padding so that the marker stands under the call in any terminal.
        padding = " " * len(prefix) + "".join("\t" if c == "\t" else " " for c in line[:column])
        text = f"{self.reason}\n{prefix}{line}\n{padding}{'^' * width}"
        return f"{text}\nWrite instead: {self.rewrite}" if self.rewrite else text
