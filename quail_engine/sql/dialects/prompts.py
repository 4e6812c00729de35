"""Prompts that vendors put together (structs, CONCAT, ||, FORMAT) as PROMPT with a template and arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from quail_engine.sql.constants import constant_text
from quail_engine.sql.dialects.vendor import Text, function

_FORMATS = re.compile(r"%(%|[a-zA-Z]|[^%a-zA-Z]+[a-zA-Z]?)")
_ESCAPES = str.maketrans({"{": "{{", "}": "}}"})


def prompt_of(node: exp.Expr, text: Text) -> exp.Expr:
    """A prompt as native SQL has it. One expression, or one constant, is the whole prompt and stays as it is.

    A NULL among the pieces makes the prompt NULL, as it does for both vendors; so the row is not asked.
    """
    pieces = [piece for piece in _pieces(node, text) if piece != ""]
    if not pieces:
        return exp.Literal.string("")
    if len(pieces) == 1 or all(isinstance(piece, str) for piece in pieces):
        only = pieces[0]
        return only.copy() if isinstance(only, exp.Expr) else exp.Literal.string("".join(map(str, pieces)))
    return template(pieces)


def template(pieces: Sequence[str | exp.Expr]) -> exp.Expr:
    """PROMPT('…', …) of literal texts and expressions in order."""
    written = ""
    arguments: list[exp.Expr] = []
    for piece in pieces:
        if isinstance(piece, str):
            written += piece.translate(_ESCAPES)
        else:
            written += f"{{{len(arguments)}}}"
            arguments.append(piece.copy())
    return function("PROMPT", exp.Literal.string(written), *arguments)


def _pieces(node: exp.Expr, text: Text) -> list[str | exp.Expr]:
    constant = constant_text(node)
    if constant is not None:
        return [constant]
    if isinstance(node, exp.Paren):
        return _pieces(node.this, text)
    if isinstance(node, exp.DPipe):
        return _pieces(node.this, text) + _pieces(node.expression, text)
    if isinstance(node, (exp.Concat, exp.Tuple, exp.Struct)):
        return [piece for item in node.expressions for piece in _pieces(_value(item), text)]
    if isinstance(node, exp.Format):
        return _formatted(node, text)
    return [node]


def _value(item: exp.Expr) -> exp.Expr:
    return item.expression if isinstance(item, exp.PropertyEQ) else item.this if isinstance(item, exp.Alias) else item


def _formatted(node: exp.Format, text: Text) -> list[str | exp.Expr]:
    """FORMAT with %s, %d, %i, %t and %%: the only ones whose text is that of the value."""
    written = constant_text(node.this)
    if written is None:
        raise text.error(node, "FORMAT in a prompt needs a constant format.", "FORMAT('Is it urgent? %s', body)")
    pieces: list[str | exp.Expr] = []
    values, at = list(node.expressions), 0
    for found in _FORMATS.finditer(written):
        pieces.append(written[at : found.start()])
        at = found.end()
        if found[1] == "%":
            pieces.append("%")
        elif found[1] not in ("s", "d", "i", "t") or not values:
            problem = "has no value" if found[1] in ("s", "d", "i", "t") else "is not one of %s, %d, %i and %t"
            raise text.error(node, f"{found[0]} in a prompt's FORMAT {problem}.", "CONCAT('Is it urgent? ', body)")
        else:
            pieces.append(values.pop(0))
    return [*pieces, written[at:]]
