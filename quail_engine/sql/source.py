"""The text of a statement, as it was written; expressions are copied from it and errors point into it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from quail_engine.errors import SqlError
from quail_engine.sql.dialect import span


@dataclass(frozen=True)
class Source:
    text: str  # the query's own text; spans of its nodes are offsets into it
    statement: str  # the whole text that the user sent, for errors
    offset: int  # where `text`, or what was written in its place, begins in `statement`
    written: str = ""  # what the user wrote, where `text` is a SELECT made from it

    def sql(self, node: exp.Expr) -> str:
        """The node's text, to the byte."""
        start, end = span(node)
        return self.text[start:end]

    def error(self, reason: str, start: int, end: int, rewrite: str | None = None) -> SqlError:
        if self.written:
            at = max(0, self.written.find(self.text[start:end]))
            start, end = at, at + end - start
        return SqlError(reason, self.statement, self.offset + start, self.offset + end, rewrite)

    def error_at(self, node: exp.Expr, reason: str, rewrite: str | None = None) -> SqlError:
        """An error that underlines a node, or the nearest part of it whose place is known."""
        start, end = nearest_span(node)
        return self.error(reason, start, end, rewrite)


def quoted(name: str) -> str:
    """A name as SQL that DuckDB takes for that name, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def nearest_span(node: exp.Expr) -> tuple[int, int]:
    """The span of a node, else of the nearest node around it that has one."""
    around: exp.Expr | None = node
    while around is not None:
        found = around.meta.get("quail_span")
        if found:
            return (found[0], found[1])
        around = around.parent
    return (0, 1)
