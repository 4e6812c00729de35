"""UPDATE and DELETE: a SELECT that looks at the same rows is answered first, then the statement itself runs once.

`UPDATE t SET a = e FROM u WHERE c` asks what `SELECT e FROM t, u WHERE c` asks; `DELETE FROM t USING u WHERE c` what
`SELECT 1 FROM t, u WHERE c` asks.
"""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from quail_engine.sql.dialect import QuailDialect
from quail_engine.sql.statements import mentions_ai, word_of

_CLAUSES = ("SET", "FROM", "USING", "WHERE", "RETURNING")


def writes_in_place(text: str) -> bool:
    """Whether a statement is an UPDATE or DELETE."""
    return text[:6].upper() in ("UPDATE", "DELETE")


def select_for(text: str) -> str:
    """The SELECT behind an UPDATE or DELETE statement. Parts keep their order, so their AI calls do, too."""
    tokens = QuailDialect().tokenize(text)
    update = tokens[0].text.upper() == "UPDATE"
    begin = 1 if update else 2  # DELETE FROM
    parts = _parts(tokens, begin)
    assigned = _assigned(text, parts.get("SET", [])) if update else []
    shown = [value for value in assigned if mentions_ai(value)] or ["1"]
    sources = [_text(text, parts["target"])]
    sources += [_text(text, parts[key]) for key in ("FROM", "USING") if key in parts]
    where = f" WHERE {_text(text, parts['WHERE'])}" if "WHERE" in parts else ""
    return f"SELECT {', '.join(shown)} FROM {', '.join(sources)}{where}"


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


def _assigned(text: str, tokens: list[Token]) -> list[str]:
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
    return [_text(text, value) for value in values if value]


def _text(text: str, tokens: list[Token]) -> str:
    return text[tokens[0].start : tokens[-1].end + 1] if tokens else ""
