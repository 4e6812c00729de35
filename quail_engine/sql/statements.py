"""Statements: the text cut at its semicolons, each told apart by its first words, and the query inside it found by span.

Token work only; nothing is parsed here, so a statement without an AI call costs one regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from functools import lru_cache
from itertools import dropwhile, takewhile

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from quail_engine.errors import SqlError
from quail_engine.sql.dialect import AI_FUNCTIONS, GENERATIVE_FUNCTIONS, QuailDialect

_GATE = re.compile(r"(?i)\bai_[a-z]|\bai\s*\.\s*[a-z]|\bai_query\b")
_HINT = re.compile(r"ai(?:_|\s*\.)")  # of lower-case text, and begins with a literal: found many times as fast as the gate
_CALLED = re.compile(r"(?i)\b(ai\w*)\s*\(")
_DOTTED = ("IF", "CLASSIFY", "SCORE", "GENERATE", "GENERATE_BOOL", "GENERATE_TABLE", "GENERATE_TEXT")
_QUOTED = re.compile(r"""(?s)'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$|/\*|.""")
_OPENING = ("'", '"', "/*")  # what stands alone of them is never closed
_QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "PIVOT", "UNPIVOT")


class Form(Enum):
    """What a statement does with the query inside it."""

    QUERY = "query"
    CREATE_TABLE = "create table"
    CREATE_VIEW = "create view"
    INSERT = "insert"
    COPY = "copy"
    UPDATE = "update"
    DELETE = "delete"
    MERGE = "merge"  # its query is the one in USING
    DESCRIBE = "describe"
    SUMMARIZE = "summarize"
    EXPLAIN = "explain"
    OTHER = "other"  # no query that an AI call could stand in


_BEFORE_A_TABLE = ("MACRO", "FUNCTION", "TABLE", "VIEW", "INTO", "REFERENCES", "UPDATE")
_WRITES = (Form.INSERT, Form.UPDATE, Form.DELETE, Form.MERGE)
_WRITING = tuple(form.value.upper() for form in _WRITES)
_VERBS = ("SELECT", "FROM", "VALUES", *_WRITING)


@dataclass(frozen=True)
class Statement:
    """One statement of a text. Offsets are into the text."""

    start: int
    end: int
    form: Form
    query: tuple[int, int] | None  # span of the query inside it, or of what `dml` makes one of; None for OTHER
    calls: tuple[Token, ...]  # name tokens of the AI calls in it; empty: goes to DuckDB as it came
    view: Token | None  # the word VIEW of a CREATE VIEW
    replaced: tuple[Token, ...]  # CREATE OR REPLACE VIEW: the view's name, with its dots
    returns: bool  # it writes, and RETURNING gives rows


def mentions_ai(text: str) -> bool:
    """Whether a text may hold an AI call: a cheap look for a name, in comments and strings too."""
    return _HINT.search(text.lower()) is not None and _GATE.search(text) is not None


def contains_ai(text: str) -> bool:
    """Whether a text holds an AI call, and not only a comment or a string that mentions one."""
    return mentions_ai(text) and any(statement.calls for statement in split(text))


def meant(name: str) -> str | None:
    """The AI function whose name is all but this one.

    >>> meant("ai_fliter"), meant("AI_FILTER"), meant("filter")
    ('AI_FILTER', None, None)
    """
    near = get_close_matches(name.upper(), AI_FUNCTIONS, 1, 0.8) if name.upper().startswith("AI") else []
    return near[0] if near and near[0] != name.upper() else None


def misspelt(text: str, statement: Statement) -> Iterator[tuple[str, str, int, int]]:
    """Names in front of a bracket that are all but an AI function's: that name, the function, and the name's span."""
    for found in _CALLED.finditer(text, statement.start, statement.end):
        if function := meant(found[1]):
            yield found[1], function, *found.span(1)


@lru_cache(maxsize=64)  # whoever asks `contains_ai` runs the text next
def split(text: str) -> tuple[Statement, ...]:
    """The statements of a text in order. Raises SqlError when it cannot be cut into tokens."""
    try:
        tokens = QuailDialect().tokenize(text)
    except TokenError as problem:
        position = _GATE.search(text)
        assert position is not None, "split is for texts that mention an AI function"
        opened = next((m for m in _QUOTED.finditer(text) if m[0] in _OPENING), None)
        if opened is not None:
            reason = "This is opened and never closed. Inside a text, a quote is written twice, as in 'it''s urgent'."
            raise SqlError(reason, text, *opened.span()) from None
        raise SqlError(f"This text cannot be cut into SQL tokens: {problem}.", text, *position.span()) from None
    statements: list[Statement] = []
    current: list[Token] = []
    for token in [*tokens, None]:
        if token is None or token.token_type is TokenType.SEMICOLON:
            if current:
                statements.append(_statement(text, current))
            current = []
        else:
            current.append(token)
    return tuple(statements)


def _statement(text: str, tokens: list[Token]) -> Statement:
    calls = tuple(t for i, t in enumerate(tokens) if _is_call(tokens, i))
    form, first, last = _query_of(tokens)
    query = None if first is None else (tokens[first].start, tokens[last].end + 1)
    returns = form in _WRITES and _at_depth_zero(tokens, ("RETURNING",)) is not None
    view = next((t for t in tokens if word_of(t) == "VIEW"), None) if form is Form.CREATE_VIEW else None
    replaced = _named(tokens, view) if view is not None and "REPLACE" in map(word_of, tokens[:3]) else ()
    return Statement(tokens[0].start, tokens[-1].end + 1, form, query, calls, view, replaced, returns)


def word_of(token: Token) -> str:
    """A token as a keyword, in upper case; empty for strings and quoted names, which are none."""
    return "" if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) else token.text.upper()


def _is_call(tokens: list[Token], index: int) -> bool:
    """Whether the token names an AI function and an opening bracket follows."""
    if index + 1 >= len(tokens) or tokens[index + 1].token_type is not TokenType.L_PAREN:
        return False
    name = tokens[index].text.upper()
    if name in AI_FUNCTIONS or name in GENERATIVE_FUNCTIONS:
        return index == 0 or word_of(tokens[index - 1]) not in _BEFORE_A_TABLE
    dotted = index > 1 and tokens[index - 1].token_type is TokenType.DOT and tokens[index - 2].text.upper() == "AI"
    return dotted and name in _DOTTED


def _query_of(tokens: list[Token]) -> tuple[Form, int | None, int]:
    """The statement's form, and the first and last token of its query."""
    words = [word_of(token) for token in tokens[:6]]
    last = len(tokens) - 1
    if words[0] in _QUERY_STARTS or tokens[0].token_type is TokenType.L_PAREN:
        verb = writing_verb(tokens)
        if verb is None:
            return Form.QUERY, 0, last
        form = Form[word_of(tokens[verb])]
        return (Form.OTHER, None, last) if form is Form.MERGE else (form, 0, written_end(tokens, verb))
    if words[0] == "CREATE":
        form = Form.CREATE_TABLE if "TABLE" in words else Form.CREATE_VIEW if "VIEW" in words else Form.OTHER
        begin = _at_depth_zero(tokens, ("AS",)) if form is not Form.OTHER else None
        return (Form.OTHER, None, last) if begin is None or begin == last else (form, begin + 1, _without_data(tokens))
    if words[0] == "INSERT":
        begin = insert_query(tokens)
        return (Form.OTHER, None, last) if begin is None else (Form.INSERT, begin, written_end(tokens, begin))
    if words[0] == "COPY" and len(tokens) > 2 and tokens[1].token_type is TokenType.L_PAREN:
        return Form.COPY, 2, closing(tokens, 1) - 1
    if words[0] in ("UPDATE", "DELETE"):
        return Form[words[0]], 0, written_end(tokens, 0)
    if words[0] == "MERGE":
        using = _at_depth_zero(tokens, ("USING",))
        if using is not None and using < last and tokens[using + 1].token_type is TokenType.L_PAREN:
            return Form.MERGE, using + 2, closing(tokens, using + 1) - 1
        return Form.OTHER, None, last
    if words[0] in ("DESCRIBE", "DESC") and last > 0:
        return Form.DESCRIBE, 1, last
    if words[0] == "SUMMARIZE" and last > 0 and (words[1] in _QUERY_STARTS or tokens[1].token_type is TokenType.L_PAREN):
        return Form.SUMMARIZE, 1, last
    if words[0] == "EXPLAIN" and last > 0:
        begin = 2 if words[1] == "ANALYZE" else 1
        if tokens[begin].token_type is TokenType.L_PAREN and word_of(tokens[begin + 1]) not in _QUERY_STARTS:
            begin = min(last, closing(tokens, begin) + 1)  # EXPLAIN (format json) …
        _, first, end = _query_of(tokens[begin:])
        return Form.EXPLAIN, begin + (first or 0), begin + end
    return Form.OTHER, None, last


def _named(tokens: list[Token], word: Token) -> tuple[Token, ...]:
    """The name behind a word such as VIEW."""
    behind = dropwhile(lambda token: token is not word, tokens)
    next(behind)
    return tuple(takewhile(lambda t: word_of(t) != "AS" and t.token_type is not TokenType.L_PAREN, behind))


def writing_verb(tokens: list[Token]) -> int | None:
    """Index of the word that says what a statement writes, the first or the one behind its CTEs; None of a query."""
    verb: int | None = 0
    if word_of(tokens[0]) == "WITH":
        verb = _at_depth_zero(tokens, _VERBS, 1)
        while verb is not None and tokens[verb - 1].token_type is not TokenType.R_PAREN:  # the name of a CTE
            verb = _at_depth_zero(tokens, _VERBS, verb + 1)
    return verb if verb is not None and word_of(tokens[verb]) in _WRITING else None


def _at_depth_zero(tokens: list[Token], words: tuple[str, ...], start: int = 0) -> int | None:
    """Index of the first token outside brackets that is one of `words`."""
    depth = 0
    for index in range(start, len(tokens)):
        if tokens[index].token_type in (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE):
            depth += 1
        elif tokens[index].token_type in (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE):
            depth -= 1
        elif depth == 0 and word_of(tokens[index]) in words:
            return index
    return None


def closing(tokens: list[Token], opening: int) -> int:
    """Index of the bracket that closes the one at `opening`; the last token when it is never closed."""
    depth = 0
    for index in range(opening, len(tokens)):
        depth += (tokens[index].token_type is TokenType.L_PAREN) - (tokens[index].token_type is TokenType.R_PAREN)
        if depth == 0:
            return index
    return len(tokens) - 1


def _without_data(tokens: list[Token]) -> int:
    """Last token of a CREATE TABLE's query: WITH [NO] DATA behind it is not part of it."""
    words = [word_of(token) for token in tokens[-3:]]
    if words[-3:] == ["WITH", "NO", "DATA"]:
        return len(tokens) - 4
    return len(tokens) - 3 if words[-2:] == ["WITH", "DATA"] else len(tokens) - 1


def insert_query(tokens: list[Token]) -> int | None:
    """Where the query of an INSERT begins: at its first word, or at the bracket around it."""
    depth = 0
    for index, token in enumerate(tokens):
        word = word_of(token)
        if token.token_type is TokenType.L_PAREN:
            if depth == 0 and index + 1 < len(tokens) and word_of(tokens[index + 1]) in _QUERY_STARTS:
                return index
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        elif depth == 0 and word in _QUERY_STARTS:
            return index
    return None


def written_end(tokens: list[Token], begin: int) -> int:
    """Last token of what is asked in a statement that writes: ON CONFLICT and RETURNING are not part of it."""
    at = begin
    while (found := _at_depth_zero(tokens, ("ON", "RETURNING"), at)) is not None:
        following = word_of(tokens[found + 1]) if found + 1 < len(tokens) else ""
        if word_of(tokens[found]) == "RETURNING" or following == "CONFLICT":
            return found - 1
        at = found + 1
    return len(tokens) - 1
