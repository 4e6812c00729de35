"""Templates: from PROMPT's text with placeholders, or from a string that is put together, to a `Template`."""

from __future__ import annotations

from sqlglot import exp

from quail_engine.calls import Template
from quail_engine.errors import SqlError
from quail_engine.sql.constants import constant_text
from quail_engine.sql.dialect import has_span, span
from quail_engine.sql.source import Source

_MOST_DIGITS = 9  # Python refuses to read numbers of thousands of digits


def parse_template(text: str, arguments: int, source: Source, literal: exp.Expr) -> Template:
    """The template of `PROMPT('text', …)` with `arguments` expressions after the text.

    `{n}` is argument n, `{{` and `}}` are braces. Raises SqlError, underlining the place inside the literal, for a
    placeholder without an argument, a named placeholder and a brace that stands alone.
    """
    parts: list[str | int] = []
    plain: list[str] = []

    def refuse(offset: int, length: int, reason: str, rewrite: str) -> SqlError:
        start = _inside(source.text, literal, text, offset)
        return source.error(reason, start, start + length, rewrite)

    at = 0
    while at < len(text):
        char = text[at]
        if char in "{}" and text[at : at + 2] == char * 2:
            plain.append(char)
            at += 2
        elif char == "{":
            close = text.find("}", at)
            name = text[at + 1 : close] if close > 0 else ""
            if close < 0:
                raise refuse(at, 1, "This brace is never closed.", "{{ for a brace that is plain text, {0} for an argument")
            if not name.isascii() or not name.isdigit():
                raise refuse(
                    at,
                    close - at + 1,
                    f"A placeholder is a number, as {{0}}; {{{name}}} is not.",
                    f"{{{{{name}}}}} if the braces are plain text",
                )
            if len(name) > _MOST_DIGITS or int(name) >= arguments:
                have = "no argument follows" if not arguments else f"the last argument is {{{arguments - 1}}}"
                raise refuse(at, close - at + 1, f"{{{name}}} has no argument: {have}.", "one expression a placeholder")
            if plain:
                parts.append("".join(plain))
                plain.clear()
            parts.append(int(name))
            at = close + 1
        elif char == "}":
            raise refuse(at, 1, "This closing brace has no opening one.", "}} for a brace that is plain text")
        else:
            plain.append(char)
            at += 1
    if plain:
        parts.append("".join(plain))
    return Template(tuple(parts))


def _inside(sql: str, literal: exp.Expr, text: str, offset: int) -> int:
    """Where character `offset` of a literal's value stands in the statement (a doubled quote counts once in the value)."""
    start, end = span(literal)
    if not isinstance(literal, exp.Literal):
        return start
    quote = sql.find("'", start, end)
    if quote < 0:
        return start
    at = quote + 1
    for _ in range(offset):
        at += 2 if sql[at : at + 2] == "''" else 1
    return min(at, end - 1)


def template_of_expression(node: exp.Expr, source: Source) -> tuple[Template, tuple[str, ...]]:
    """The template of a prompt that is one expression, and its arguments' SQL.

    `'text ' || a || ' text'` and CONCAT give literal parts and arguments; any other expression is one argument.
    """
    pieces = _pieces(node)
    if pieces is None or not any(constant_text(piece) is not None for piece, _ in pieces):
        return Template((0,)), (source.sql(node),)
    parts: list[str | int] = []
    arguments: list[str] = []
    for piece, skips_null in pieces:
        text = constant_text(piece)
        if text is None:
            sql = source.sql(piece)
            # CONCAT leaves NULLs out, so there a NULL is an empty text and the row is still asked.
            sql = f"COALESCE(CAST({sql} AS VARCHAR), '')" if skips_null else sql
            number = arguments.index(sql) if sql in arguments else len(arguments)
            if number == len(arguments):
                arguments.append(sql)
            parts.append(number)
        elif parts and isinstance(parts[-1], str):
            parts[-1] += text
        elif text:
            parts.append(text)
    return Template(tuple(parts)), tuple(arguments)


def _pieces(node: exp.Expr) -> list[tuple[exp.Expr, bool]] | None:
    """The operands of a string concatenation in order, each with whether a NULL is left out; None for another expression."""
    if isinstance(node, exp.Paren):
        return _pieces(node.this)
    if isinstance(node, exp.DPipe):
        operands = [(_pieces(operand) or [(operand, False)]) for operand in (node.this, node.expression)]
        pieces = operands[0] + operands[1]
        # `a | b || c` is one chain to the parser, which notes no place for its beginning.
        return pieces if all(has_span(piece) or constant_text(piece) is not None for piece, _ in pieces) else None
    if isinstance(node, exp.Concat):
        return [(operand, True) for operand in node.expressions]
    return [(node, False)] if constant_text(node) is not None else None


def blank(template: Template, argument: int) -> Template:
    """A pair's template as a question about its other text, with a blank in place of this one."""
    parts: list[str | int] = ["Fill in the blank: "]
    for part in template.parts:
        piece: str | int = "___" if part == argument else 0 if isinstance(part, int) else part
        last = parts[-1]
        if isinstance(piece, str) and isinstance(last, str):
            parts[-1] = last + piece
        else:
            parts.append(piece)
    return Template(tuple(parts))
