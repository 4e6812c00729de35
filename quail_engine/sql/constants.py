"""Constants in SQL text: strings put together from literals, lists and structs of literals."""

from __future__ import annotations

from typing import Any

from sqlglot import exp


class NotConstantError(Exception):
    """The expression at `node` is not a literal."""

    def __init__(self, node: exp.Expr) -> None:
        super().__init__(node.sql())
        self.node = node


def constant_text(node: exp.Expr) -> str | None:
    """The value of a string literal or of literals put together with || or CONCAT; None for anything else."""
    if isinstance(node, exp.Paren):
        return constant_text(node.this)
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    if isinstance(node, (exp.RawString, exp.ByteString)):
        return str(node.this)
    if isinstance(node, exp.DPipe):
        parts = [constant_text(node.this), constant_text(node.expression)]
    elif isinstance(node, exp.Concat):
        parts = [constant_text(part) for part in node.expressions]
    else:
        return None
    return None if any(part is None for part in parts) else "".join(part or "" for part in parts)


def constant_value(node: exp.Expr) -> Any:
    """A literal as a Python value: str, int, float, bool, None, list or dict. Raises NotConstantError."""
    text = constant_text(node)
    if text is not None:
        return text
    if isinstance(node, exp.Literal):
        return float(node.this) if any(c in node.this for c in ".eE") else int(node.this)
    if isinstance(node, exp.Neg):
        return -constant_value(node.this)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Paren):
        return constant_value(node.this)
    if isinstance(node, exp.Array):
        return [constant_value(item) for item in node.expressions]
    if isinstance(node, exp.Struct):
        return dict(struct_item(item) for item in node.expressions)
    raise NotConstantError(node)


ENTRIES = (exp.PropertyEQ, exp.Kwarg, exp.Slice)
"""What an entry of a struct literal, or a named argument, is."""


def struct_item(node: exp.Expr) -> tuple[str, Any]:
    """Key and value of one entry of a struct literal. Raises NotConstantError."""
    if not isinstance(node, ENTRIES):
        raise NotConstantError(node)
    return key_name(node.this), constant_value(node.expression)


def key_name(node: exp.Expr) -> str:
    """The name of a struct entry or a named argument, quoted or not."""
    return str(node.name if isinstance(node, (exp.Identifier, exp.Column, exp.Literal, exp.Var)) else node.sql())
