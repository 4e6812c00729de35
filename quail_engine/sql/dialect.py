"""DuckDB's dialect with the AI functions, and with the character span of every expression that matters to us.

sqlglot keeps the position of names only. The rewrite replaces text by span and copies sibling conditions as they were
written, so the parser notes where each operand, argument, clause and query begins and ends (`span`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import TokenType

Parsed = TypeVar("Parsed")

_SPAN = "quail_span"
_FROM_SPAN = "quail_from_span"

AI_FUNCTIONS = ("AI_FILTER", "AI_JOIN", "AI_SCORE", "AI_CLASSIFY", "AI_CLASSIFY_SCORES")
GENERATIVE_FUNCTIONS = (
    "AI_COMPLETE", "AI_EXTRACT", "AI_AGG", "AI_SUMMARIZE_AGG", "AI_SUMMARIZE", "AI_GENERATE", "AI_TRANSLATE", "AI_QUERY",
    "AI_GEN", "AI_EMBED", "AI_SIMILARITY", "AI_SENTIMENT", "AI_PARSE_DOCUMENT", "AI_REDACT", "AI_TRANSCRIBE",
)  # fmt: skip


class NamedFunction(exp.Expression, exp.Func):
    """A call as it was written, of any number of arguments; `name` is the function, in upper case."""

    arg_types = {"expressions": False, "name": True}  # noqa: RUF012 - sqlglot's own form
    is_var_len_args = True
    _sql_names = []  # noqa: RUF012

    @property
    def name(self) -> str:
        return str(self.args["name"])

    @classmethod
    def builder(cls, name: str) -> Callable[[list[Any]], NamedFunction]:
        """An entry of a parser's FUNCTIONS."""
        return lambda args: cls(expressions=args, name=name)


class AiFunction(NamedFunction):
    """A call of one of AI_FUNCTIONS."""


OF_ITEMS = (exp.Lambda, exp.Comprehension)
"""What evaluates an expression for each item of a list."""


def span(node: exp.Expr) -> tuple[int, int]:
    """Character offsets of a node's text in its statement, end exclusive."""
    found = node.meta.get(_SPAN)
    assert found is not None, f"no span was noted for {type(node).__name__}"
    return (found[0], found[1])


def has_span(node: exp.Expr) -> bool:
    return _SPAN in node.meta


def noting(method: Callable[..., Parsed]) -> Callable[..., Parsed]:
    """Wraps a parser method: what it returns spans the tokens that it consumed."""

    def parse(self: Any, *args: Any, **kwargs: Any) -> Parsed:
        first = self._index
        node = method(self, *args, **kwargs)
        if isinstance(node, exp.Expr) and self._index > first:
            tokens = self._tokens
            node.meta[_SPAN] = (tokens[first].start, tokens[self._index - 1].end + 1)
        return node

    return parse


def _noting_inside(method: Callable[..., Parsed]) -> Callable[..., Parsed]:
    """Wraps the parser method of FROM: its relation knows the clause's span, too."""

    def parse(self: Any, *args: Any, **kwargs: Any) -> Parsed:
        node = method(self, *args, **kwargs)
        if isinstance(node, exp.From) and has_span(node):
            node.this.meta[_FROM_SPAN] = span(node)
        return node

    return parse


def restore_from(select: exp.Select) -> None:
    """Gives the FROM of a query without SELECT its span: sqlglot makes a new clause of its relation."""
    source = select.args.get("from_")
    if source is not None and not has_span(source) and _FROM_SPAN in source.this.meta:
        source.meta[_SPAN] = source.this.meta[_FROM_SPAN]


class QuailDialect(DuckDB):
    """The native surface: DuckDB SQL plus the AI functions."""

    class Tokenizer(DuckDB.Tokenizer):
        HEX_STRINGS = [("0x", ""), ("0X", "")]  # noqa: RUF012
        BIT_STRINGS = [("0b", ""), ("0B", "")]  # noqa: RUF012
        COMMANDS: ClassVar[set[TokenType]] = set()  # sqlglot would take the rest of an EXPLAIN as one string

    class Parser(DuckDBParser):
        FUNCTIONS = {**DuckDBParser.FUNCTIONS, **{name: AiFunction.builder(name) for name in AI_FUNCTIONS}}  # noqa: RUF012
        RANGE_PARSERS = {k: parse for k, parse in DuckDBParser.RANGE_PARSERS.items() if k is not TokenType.FOR}  # noqa: RUF012

        _parse_assignment = noting(DuckDBParser._parse_assignment)
        _parse_disjunction = noting(DuckDBParser._parse_disjunction)
        _parse_conjunction = noting(DuckDBParser._parse_conjunction)
        _parse_equality = noting(DuckDBParser._parse_equality)
        _parse_expression = noting(DuckDBParser._parse_expression)
        _parse_term = noting(DuckDBParser._parse_term)
        _parse_lambda = noting(DuckDBParser._parse_lambda)
        _parse_select_query = noting(DuckDBParser._parse_select_query)
        _parse_limit = noting(DuckDBParser._parse_limit)
        _parse_offset = noting(DuckDBParser._parse_offset)
        _parse_from = _noting_inside(noting(DuckDBParser._parse_from))
        _parse_join = noting(DuckDBParser._parse_join)
        _parse_cte = noting(DuckDBParser._parse_cte)
        _parse_function_call = noting(DuckDBParser._parse_function_call)

        def _replace_lambda(self, node: exp.Expr | None, expressions: list[exp.Expr]) -> exp.Expr | None:
            """Makes names of a lambda's parameters, which are no columns; they span what the columns did."""
            replaced = super()._replace_lambda(node, expressions)
            for name in replaced.find_all(exp.Identifier, exp.Dot) if replaced is not None else ():
                tokens = [part.meta for part in name.find_all(exp.Identifier) if "start" in part.meta]
                if tokens and not has_span(name):
                    name.meta[_SPAN] = (min(t["start"] for t in tokens), max(t["end"] for t in tokens) + 1)
            return replaced

        @noting
        def _parse_bracket_key_value(self, is_map: bool = False) -> exp.Expr | None:
            """An item of a list, or what a list comprehension makes one of: an AND or OR is, as a whole."""
            item = super()._parse_bracket_key_value(is_map)
            return (self._parse_comprehension(item) if self._match(TokenType.FOR) else None) or item

        def _parse_comprehension(self, this: exp.Expr | None) -> exp.Comprehension | None:
            """Names of items are no columns here either."""
            found = super()._parse_comprehension(this)
            if found is not None:
                parameters = [found.args[key] for key in ("expression", "position") if found.args.get(key) is not None]
                for key in ("this", "condition"):
                    found.set(key, self._replace_lambda(found.args.get(key), parameters))
            return found
