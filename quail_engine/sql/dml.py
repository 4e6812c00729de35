"""Statements that write in place: a SELECT that looks at the same rows is answered first, then the statement itself runs once.

`UPDATE t SET a = e FROM u WHERE c` asks what `SELECT e FROM t, u WHERE c` asks; `DELETE FROM t USING u WHERE c` what
`SELECT 1 FROM t, u WHERE c` asks; `WITH d AS (…) INSERT INTO t SELECT e FROM d` what `WITH d AS (…) SELECT e FROM d` asks.
"""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from quail_engine.sql.dialect import QuailDialect
from quail_engine.sql.statements import insert_query, mentions_ai, word_of, writing_verb

_CLAUSES = ("SET", "FROM", "USING", "WHERE")


def writes_in_place(text: str) -> bool:
    """Whether a statement is an UPDATE or DELETE, or one that writes behind its CTEs."""
    return text[:6].upper() in ("UPDATE", "DELETE") or (
        text[:4].upper() == "WITH" and writing_verb(QuailDialect().tokenize(text)) is not None
    )


def select_for(text: str) -> str:
    """The SELECT behind a statement that writes in place. Parts keep their order, so their AI calls do, too."""
    tokens = QuailDialect().tokenize(text)
    verb = writing_verb(tokens)
    assert verb is not None, "a statement that writes"
    ctes, rest = text[: tokens[verb].start], tokens[verb:]
    if word_of(rest[0]) == "INSERT":
        begin = insert_query(rest)
        query = _text(text, rest[begin:] if begin is not None else [])
        return f"{ctes}{query}" if query[:6].upper() == "SELECT" else f"{ctes}SELECT * FROM ({query})"
    update = word_of(rest[0]) == "UPDATE"
    parts = _parts(rest, 1 if update else 2)  # DELETE FROM
    sources = [_text(text, parts[key]) for key in ("target", "FROM", "USING") if key in parts]
    assigned = _assigned(parts.get("SET", [])) if update else []
    asked_outside = any(map(mentions_ai, (ctes, *sources)))  # a column of theirs is asked about where it is read
    values = [_text(text, v) for v in assigned if not any(word_of(token) == "DEFAULT" for token in v)]
    shown = [value for value in values if asked_outside or mentions_ai(value)] or ["1"]
    where = f" WHERE {_text(text, parts['WHERE'])}" if "WHERE" in parts else ""
    return f"{ctes}SELECT {', '.join(shown)} FROM {', '.join(sources)}{where}"


def _parts(tokens: list[Token], begin: int) -> dict[str, list[Token]]:
    """Tokens by clause; those of the table itself under 'target'."""
    parts: dict[str, list[Token]] = {"target": []}
    name, depth = "target", 0
    for token in tokens[begin:]:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSED)
        word = word_of(token)
        if depth == 0 and word in _CLAUSES and word not in parts:
            name = word
            parts[name] = []
        else:
            parts[name].append(token)
    return parts


_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSED = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


def _assigned(tokens: list[Token]) -> list[list[Token]]:
    """The right-hand sides of SET's assignments."""
    values: list[list[Token]] = []
    depth, assigning = 0, True
    for token in tokens:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSED)
        if depth == 0 and token.token_type is TokenType.COMMA:
            assigning = True
        elif depth == 0 and assigning and token.token_type is TokenType.EQ:
            assigning = False
            values.append([])
        elif not assigning:
            values[-1].append(token)
    return [value for value in values if value]


def _text(text: str, tokens: list[Token]) -> str:
    return text[tokens[0].start : tokens[-1].end + 1] if tokens else ""
