"""From a vendor's text to DuckDB's: parsed by the vendor's dialect, rewritten, generated; places are kept.

The text that comes out goes down the same road as native text. `Transpiled.error` tells an error of that road in the text that
was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.tokenizer_core import Token, TokenType

from quail_engine.errors import SqlError
from quail_engine.sql.dialect import AiFunction, has_span, span
from quail_engine.sql.dialects.vendor import Rewrite, Text, name_columns, refuse_generative

_MARK = re.compile("\x00(\\d*):(\\d*)\x00")  # around a call in the generated text: where it began and ended in the vendor's
_QUERY = "SELECT '\x01{}\x01'"  # stands for a query that is DuckDB's already
_STATEMENTS = (exp.Query, exp.DML, exp.Create, exp.Drop, exp.Describe, exp.Transaction, exp.Commit, exp.Rollback)


_LACKING: dict[type[exp.Expr], str] = {exp.MatchRecognize: "MATCH_RECOGNIZE", exp.Connect: "CONNECT BY"}


@dataclass(frozen=True)
class CallPlace:
    """An AI call: its span in the generated text, and in the vendor's."""

    start: int
    end: int
    written: tuple[int, int]


@dataclass(frozen=True)
class Transpiled:
    """DuckDB SQL that asks what the vendor's text asks."""

    text: str
    warnings: tuple[str, ...] = ()
    places: tuple[CallPlace, ...] = ()
    written: str = ""  # the vendor's text

    def error(self, error: SqlError, offset: int = 0) -> SqlError:
        """An error in the generated text, told in the vendor's: it underlines the call that holds the place.

        `offset` is where the generated text begins in the statement that the error is about.
        """
        at = error.position - offset
        inside = [place for place in self.places if place.start <= at < place.end]
        if not inside:
            return error
        nearest = min(inside, key=lambda place: place.end - place.start)
        return SqlError(error.reason, self.written, *nearest.written, error.rewrite)


class _Generator(DuckDBGenerator):
    """DuckDB's SQL, with marks around AI calls, and an error with its place for what DuckDB lacks."""

    TRANSFORMS = {  # noqa: RUF012
        **DuckDBGenerator.TRANSFORMS,
        AiFunction: lambda self, node: self.func(node.name, *node.expressions),
        # DuckDB's count_if of NULLs alone is NULL.
        exp.CountIf: lambda self, node: f"COUNT(CASE WHEN {self.sql(node, 'this')} THEN 1 END)",
    }
    source: Text

    def __init__(self, source: Text, **options: Any) -> None:
        super().__init__(dialect=DuckDB(), unsupported_level=ErrorLevel.IGNORE, **options)
        self.source = source
        self._path: list[exp.Expr] = []

    def sql(self, expression: Any, key: str | None = None, comment: bool = True) -> str:
        if not isinstance(expression, exp.Expr) or key:
            return super().sql(expression, key, comment)
        self._path.append(expression)
        try:
            sql = super().sql(expression, key, comment)
        finally:
            self._path.pop()
        if isinstance(expression, AiFunction) and has_span(expression):
            start, end = span(expression)
            return f"\x00{start}:{end}\x00{sql}\x00:\x00"
        return sql

    def unsupported(self, message: str) -> None:
        raise self.source.error(self._path[-1], f"DuckDB has no counterpart of this: {message.rstrip('.')}.")


@lru_cache(maxsize=64)  # dbt sends a model's text several times
def transpile(text: str, dialect: str, queries: tuple[str, ...] = ()) -> Transpiled:
    """The text as DuckDB SQL with native AI calls. Raises SqlError, pointing into `text`, for what cannot be said there.

    `queries` are parts of the text that are DuckDB's already, as dbt writes the fixtures of a unit test. They stay as they are.
    """
    if dialect == "duckdb":
        return Transpiled(text, written=text)
    vendor = vendor_of(dialect)
    source = Text(_without(text, queries))
    statements = []
    for first, tree in _parsed(source, vendor.dialect(), dialect, vendor.generative):
        if not isinstance(tree, _STATEMENTS):
            reason = f"A statement {first.text.upper()} of {dialect} has no counterpart in DuckDB."
            raise SqlError(reason, source.text, first.start, first.end + 1)
        for lacking in tree.find_all(*_LACKING):
            raise source.error(lacking, f"DuckDB has no counterpart of {_LACKING[type(lacking)]}.")
        name_columns(tree, source)
        vendor.rewrite(tree, source)
        statements.append(_Generator(source).generate(tree))
    generated = ";\n".join(statements)
    for number, query in enumerate(queries):
        generated = generated.replace(_QUERY.format(number), query)
    plain, places = _unmarked(generated)
    return Transpiled(plain, tuple(source.warnings), places, text)


@dataclass(frozen=True)
class Vendor:
    """What there is to know of a vendor."""

    dialect: type[Dialect]
    asking: tuple[str, ...]  # its AI functions that we have
    generative: tuple[str, ...]  # and those that we refuse
    rewrite: Rewrite


def vendor_of(dialect: str) -> Vendor:
    """Loaded on first use: sqlglot's dialects take a while."""
    if dialect == "snowflake":
        from quail_engine.sql.dialects import snowflake

        return Vendor(snowflake.SnowflakeDialect, snowflake.ASKING, snowflake.GENERATIVE, snowflake.rewrite)
    if dialect == "databricks":
        from quail_engine.sql.dialects import databricks

        return Vendor(databricks.DatabricksDialect, databricks.ASKING, databricks.GENERATIVE, databricks.rewrite)
    from quail_engine.sql.dialects import bigquery

    return Vendor(bigquery.BigQueryDialect, bigquery.ASKING, bigquery.GENERATIVE, bigquery.rewrite)


def _parsed(source: Text, vendor: Dialect, name: str, generative: tuple[str, ...]) -> list[tuple[Token, exp.Expr]]:
    """Each statement with its first token."""
    try:
        tokens = vendor.tokenize(source.text)
        refuse_generative(tokens, generative, source.text)
        trees = [tree for tree in vendor.parser().parse(tokens, source.text) if tree is not None]
        ends = [TokenType.SEMICOLON, *(token.token_type for token in tokens)]
        starts = [t for t, before in zip(tokens, ends, strict=False) if before is TokenType.SEMICOLON is not t.token_type]
        return list(zip(starts, trees, strict=True))
    except ParseError as problem:
        found = problem.errors[0] if problem.errors else {}
        start = _offset(source.text, found.get("line"), found.get("col"))
        word = str(found.get("highlight") or "")
        reason = f"This text cannot be read as SQL of {name}: {found.get('description') or 'it does not parse'}"
        raise SqlError(f"{reason.rstrip('.')}.", source.text, max(0, start - len(word)), max(start, 1)) from None
    except TokenError as problem:
        raise SqlError(f"This text cannot be cut into tokens of {name}: {problem}.", source.text, 0, 1) from None


def _without(text: str, queries: tuple[str, ...]) -> str:
    """The text with a stand-in for each of the queries, and everything else where it was."""
    for number, query in enumerate(queries):
        stand_in = _QUERY.format(number)
        assert len(stand_in) <= len(query), "a query that dbt writes has a cast in it"
        text = text.replace(query, stand_in + re.sub(r"[^\n]", " ", query[len(stand_in) :]), 1)
    return text


def _offset(text: str, line: Any, column: Any) -> int:
    """Where a line and a column, counted from 1, stand in a text."""
    lines = text.splitlines(keepends=True)
    before = sum(map(len, lines[: (line or 1) - 1]))
    return min(len(text), before + (column or 0))


def _unmarked(text: str) -> tuple[str, tuple[CallPlace, ...]]:
    """The text without marks, and the places that they told."""
    plain: list[str] = []
    length, at = 0, 0
    opened: list[tuple[int, tuple[int, int]]] = []
    places: list[CallPlace] = []
    for mark in _MARK.finditer(text):
        plain.append(text[at : mark.start()])
        length += mark.start() - at
        at = mark.end()
        if mark[1]:
            opened.append((length, (int(mark[1]), int(mark[2]))))
        else:
            start, written = opened.pop()
            places.append(CallPlace(start, length, written))
    return "".join([*plain, text[at:]]), tuple(places)
