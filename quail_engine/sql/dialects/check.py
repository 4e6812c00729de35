"""Whether the AI calls of a dbt model in a vendor's SQL will run: read as its file lies there, Jinja and all."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from quail_engine.errors import SqlError
from quail_engine.sql.dialects.transpile import Transpiled, transpile, vendor_of
from quail_engine.sql.query import analyze
from quail_engine.sql.statements import split

_JINJA = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
_SAYS_NOTHING = re.compile(r"\{[#%]|\{\{-?\s*config\b")


@dataclass(frozen=True)
class Finding:
    """An AI call, or a place that is no call and stops the whole text."""

    line: int  # from 1
    name: str  # the function; empty for what is no AI call
    problem: str  # empty: it runs


def findings(text: str, dialect: str) -> tuple[Finding, ...]:
    """What is found in a model's file, in order. A call that will not run hides no other."""
    plain = _without_jinja(text)
    try:
        calls = _calls(plain, dialect)
    except TokenError as problem:
        return (Finding(1, "", f"This text cannot be cut into tokens of {dialect}: {problem}."),)
    problems: dict[tuple[int, int], str] = {}
    rest = ""
    while (error := _error(plain, dialect)) is not None:
        inside = [span for span in calls if span[0] <= error.position < span[1] and span not in problems]
        if error.sql != plain or not inside:
            rest = error.reason
            break
        span = min(inside, key=lambda span: span[1] - span[0])
        problems[span] = error.reason
        plain = plain[: span[0]] + "NULL".ljust(span[1] - span[0]) + plain[span[1] :]
    found = [
        Finding(text.count("\n", 0, span[0]) + 1, name, problems.get(span, "" if not rest else "cannot be told; see below"))
        for span, name in calls.items()
    ]
    return (*found, *([Finding(text.count("\n", 0, error.position) + 1, "", rest)] if rest and error else []))


def _error(text: str, dialect: str) -> SqlError | None:
    """What the whole text would be refused for, in its own words."""
    written = Transpiled("")
    try:
        written = transpile(text, dialect)
        for statement in split(written.text):
            if statement.calls:
                analyze(written.text, statement)
    except SqlError as error:
        return written.error(error)
    return None


def _calls(text: str, dialect: str) -> dict[tuple[int, int], str]:
    """The spans of the AI calls, each with its function's name."""
    vendor = vendor_of(dialect)
    tokens = vendor.dialect().tokenize(text)
    names = {*vendor.asking, *vendor.generative}
    return {
        (token.start, _end(tokens, at + 1)): token.text.upper()
        for at, token in enumerate(tokens[:-1])
        if token.text.upper() in names
        and token.token_type is not TokenType.STRING
        and tokens[at + 1].token_type is TokenType.L_PAREN
    }


def _end(tokens: list[Token], opening: int) -> int:
    """Where the bracket that is opened there is closed."""
    depth = 0
    for token in tokens[opening:]:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0:
            return int(token.end) + 1
    return int(tokens[-1].end) + 1


def _without_jinja(text: str) -> str:
    """The text with every `{{ … }}` as a name of the same length and the rest of Jinja as blanks, so that places stay."""

    def stand_in(found: re.Match[str]) -> str:
        blank = re.sub(r"[^\n]", " ", found[0])
        if _SAYS_NOTHING.match(found[0]):
            return blank
        return "j" + "_" * (len(found[0].split("\n")[0]) - 1) + blank[len(found[0].split("\n")[0]) :]

    return _JINJA.sub(stand_in, text)
