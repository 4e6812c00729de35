"""What the vendors' dialects have in common: AI calls with their places, options read from literals, native calls built.

An AI function has a name of several words (`AI.IF`, `SNOWFLAKE.CORTEX.CLASSIFY_TEXT`); `joined` makes one token of them, so
that sqlglot's parser meets an ordinary function.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from quail_engine.errors import SqlError
from quail_engine.sql.constants import NotConstantError, constant_value, key_name
from quail_engine.sql.dialect import AiFunction, NamedFunction, has_span, span

Rewrite: TypeAlias = Callable[[exp.Expr, "Text"], None]
"""Changes a statement's tree in place, from what the vendor means to what DuckDB does. May warn. Raises SqlError."""


class VendorCall(NamedFunction):
    """A call of a vendor's AI function."""


def vendor_functions(names: Iterable[str]) -> dict[str, Callable[[list[Any]], NamedFunction]]:
    """Entries of a parser's FUNCTIONS."""
    return {name: VendorCall.builder(name) for name in names}


def joined(tokens: Sequence[Token], names: Iterable[str], ignored: Sequence[str] = ()) -> list[Token]:
    """The tokens with every dotted function name, such as AI . IF before a bracket, as one token.

    `ignored` are words that may stand before a name and say nothing here, as SAFE does.
    """
    words = sorted((name.split(".") for name in names if "." in name), key=len, reverse=True)
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        skipped = 2 if tokens[at].text.upper() in ignored and _dot(tokens, at + 1) else 0
        qualified = at > 0 and _dot(tokens, at - 1)  # x.ai.if( is a function of somebody's schema
        parts = None if qualified else next((parts for parts in words if _stands(tokens, at + skipped, parts)), None)
        if parts is None:
            found.append(tokens[at])
            at += 1
            continue
        first, last = tokens[at], tokens[at + skipped + 2 * len(parts) - 2]
        found.append(Token(TokenType.VAR, ".".join(parts), first.line, first.col, first.start, last.end, first.comments))
        at += skipped + 2 * len(parts) - 1
    return found


def _dot(tokens: Sequence[Token], at: int) -> bool:
    return at < len(tokens) and tokens[at].token_type is TokenType.DOT


def _stands(tokens: Sequence[Token], at: int, parts: Sequence[str]) -> bool:
    """Whether the words stand at `at`, dots between them and an opening bracket behind."""
    end = at + 2 * len(parts) - 1
    if end >= len(tokens) or tokens[end].token_type is not TokenType.L_PAREN:
        return False
    return all(
        tokens[at + 2 * n].text.upper() == part and (n == 0 or _dot(tokens, at + 2 * n - 1)) for n, part in enumerate(parts)
    )


class Text:
    """The vendor's text: errors point into it, warnings are gathered."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.warnings: list[str] = []

    def warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)

    def error(self, node: exp.Expr, reason: str, rewrite: str | None = None) -> SqlError:
        return SqlError(reason, self.text, *place(node), rewrite)


def place(node: exp.Expr) -> tuple[int, int]:
    """Where a node stands in the vendor's text: its own place, else that of the names in it, else that of what is around."""
    around: exp.Expr | None = node
    while around is not None:
        if has_span(around):
            return span(around)
        names = [inner.meta for inner in around.walk() if "start" in inner.meta]
        if names:
            return min(meta["start"] for meta in names), max(meta["end"] for meta in names) + 1
        around = around.parent
    return 0, 1


def name_columns(tree: exp.Expr, text: Text) -> None:
    """Columns without a name that are rewritten, as calls and casts are, are called by their own text."""
    for select in tree.find_all(exp.Select):
        for item in select.expressions:
            if not isinstance(item, exp.Alias) and item.find(VendorCall, exp.Cast) and has_span(item):
                start, end = span(item)
                item.replace(exp.alias_(item.copy(), " ".join(text.text[start:end].split()), quoted=True))


class Arguments:
    """The arguments of a vendor's call by position and by name. Every one that is taken counts as understood."""

    def __init__(self, call: VendorCall, text: Text) -> None:
        self.call = call
        self.text = text
        self.positional: list[exp.Expr] = [a for a in call.expressions if not isinstance(a, exp.Kwarg)]
        named = [a for a in call.expressions if isinstance(a, exp.Kwarg)]
        self.named: dict[str, exp.Expr] = {key_name(a.this).lower(): a.expression for a in named}

    def take(self, name: str) -> exp.Expr | None:
        """The argument called `name`; where none is, the next positional one."""
        if name in self.named:
            return self.named.pop(name)
        return self.positional.pop(0) if self.positional else None

    def needed(self, name: str, what: str, example: str) -> exp.Expr:
        found = self.take(name)
        if found is None:
            raise self.text.error(self.call, f"{self.call.name} needs {what}.", example)
        return found

    def named_constant(self, name: str) -> Any:
        """The value of a named argument; None where it is not given. Raises SqlError unless it is a constant."""
        return constant(self.named.pop(name), name, self.text) if name in self.named else None

    def finish(self, example: str) -> None:
        """Raises for what is left."""
        left = [*self.positional, *self.named.values()]
        if left:
            names = f"does not know the argument {next(iter(self.named))!r}" if self.named else "takes fewer arguments"
            raise self.text.error(left[0], f"{self.call.name} {names}.", example)


def constant(node: exp.Expr, what: str, text: Text) -> Any:
    try:
        return constant_value(node)
    except NotConstantError as found:
        raise text.error(found.node, f"{what} must be a constant.") from None


def refuse_generative(tokens: Sequence[Token], names: Collection[str], text: str) -> None:
    """Raises for a function that writes text; before parsing, because some of them have a syntax of their own."""
    for token, following in itertools.pairwise(tokens):
        name = token.text.upper()
        if following.token_type is TokenType.L_PAREN and token.token_type is not TokenType.STRING and name in names:
            instead = "the question as a filter (yes or no) or a classification (one of your labels)"
            if "SENTIMENT" in name:
                instead = "AI_SENTIMENT(…), or a classification with your labels"
            raise SqlError(
                f"{name} writes or measures text; this adapter judges and classifies it, by one forward pass and no decoding.",
                text,
                token.start,
                token.end + 1,
                instead,
            )


def native(name: str, arguments: Sequence[exp.Expr], options: dict[str, Any], call: VendorCall) -> AiFunction:
    """A native call that stands for `call`. `options` of which a value is None are left out."""
    given = {key: value for key, value in options.items() if value is not None}
    made = AiFunction(name=name, expressions=[*arguments, literal(given)] if given else list(arguments))
    if has_span(call):
        made.meta.update(call.meta)
    return made


def literal(value: Any) -> exp.Expr:
    """A Python value as SQL."""
    if isinstance(value, dict):
        return exp.Struct(
            expressions=[exp.PropertyEQ(this=exp.to_identifier(key), expression=literal(item)) for key, item in value.items()]
        )
    if isinstance(value, (list, tuple)):
        return exp.Array(expressions=[literal(item) for item in value])
    return exp.convert(value)


def function(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def unless_null(tested: exp.Expr, value: exp.Expr) -> exp.Case:
    """`value` where `tested` has one; a shape such as a list around a NULL would not be NULL."""
    return exp.Case(ifs=[exp.If(this=exp.Not(this=exp.Is(this=tested.copy(), expression=exp.Null())), true=value)])
