"""BigQuery: AI.IF, AI.CLASSIFY and AI.SCORE with their signatures and return types. What is only plumbing is ignored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.dialects.bigquery import BigQuery
from sqlglot.parsers.bigquery import BigQueryParser
from sqlglot.tokenizer_core import Token, TokenType

from quail_engine.sql.dialect import noting
from quail_engine.sql.dialects.prompts import prompt_of
from quail_engine.sql.dialects.vendor import (
    Arguments,
    Text,
    VendorCall,
    constant,
    joined,
    literal,
    native,
    unless_null,
    vendor_functions,
)

GENERATIVE = (
    "AI.GENERATE", "AI.GENERATE_BOOL", "AI.GENERATE_INT", "AI.GENERATE_DOUBLE", "AI.GENERATE_TEXT", "AI.GENERATE_TABLE",
    "AI.GENERATE_EMBEDDING", "AI.EMBED", "AI.SIMILARITY", "AI.SEARCH", "AI.AGG", "AI.COUNT_TOKENS", "ML.GENERATE_TEXT",
    "ML.GENERATE_EMBEDDING", "ML.UNDERSTAND_TEXT", "ML.TRANSLATE",
)  # fmt: skip
_OURS = ("AI_FILTER", "AI_SCORE", "AI_JOIN", "AI_CLASSIFY", "AI_CLASSIFY_SCORES")
_DOTTED = ("AI.IF", "AI.CLASSIFY", "AI.SCORE")
ASKING = (*_DOTTED, *_OURS)
_PLUMBING = ("connection_id", "endpoint", "model_params", "embeddings", "request_type")
_OPTIMIZATIONS = ("MINIMIZE_COST", "MAXIMIZE_QUALITY")


class BigQueryDialect(BigQuery):
    """BigQuery's SQL with the AI functions, and with names such as "dev"."main"."tickets", as dbt writes relations here."""

    def tokenize(self, sql: str, dialect: Any = None) -> list[Token]:
        return _names(joined(super().tokenize(sql, dialect), (*_DOTTED, *GENERATIVE), ignored=("SAFE",)), sql)

    class Parser(BigQueryParser):
        FUNCTIONS = {  # noqa: RUF012
            **BigQueryParser.FUNCTIONS,
            **vendor_functions(ASKING),
        }

        _parse_function_call = noting(BigQueryParser._parse_function_call)
        _parse_lambda = noting(BigQueryParser._parse_lambda)
        _parse_expression = noting(BigQueryParser._parse_expression)


def _names(tokens: Sequence[Token], text: str) -> list[Token]:
    """Texts in double quotes with dots between them are names: BigQuery has no text beside a dot."""

    def dotted(at: int) -> bool:
        beside = [tokens[i] for i in (at - 1, at + 1) if 0 <= i < len(tokens)]
        return any(token.token_type is TokenType.DOT for token in beside) and text[tokens[at].start] == '"'

    return [
        Token(TokenType.IDENTIFIER, t.text, t.line, t.col, t.start, t.end, t.comments)
        if t.token_type is TokenType.STRING and dotted(at)
        else t
        for at, t in enumerate(tokens)
    ]


def rewrite(tree: exp.Expr, text: Text) -> None:
    _count_from_zero(tree)
    for call in reversed(list(tree.find_all(VendorCall))):  # inner calls first
        call.replace(_FUNCTIONS.get(call.name, _native)(call, text))


def _count_from_zero(tree: exp.Expr) -> None:
    """WITH OFFSET counts from 0 and DuckDB's ordinality from 1; of the days of the week it is the other way round."""
    for unnest in list(tree.find_all(exp.Unnest)):
        if unnest.args.get("offset"):
            _offset_from_zero(unnest)
    for extract in list(tree.find_all(exp.Extract)):
        if extract.name.upper() == "DAYOFWEEK":
            extract.replace(exp.paren(extract.copy() + 1))


def _offset_from_zero(unnest: exp.Unnest) -> None:
    alias, offset = unnest.args.get("alias"), unnest.args["offset"]
    name = alias.columns[0].name if alias is not None and alias.columns else "value"
    number = offset.name if isinstance(offset, exp.Identifier) else "offset"
    inner = exp.Unnest(
        expressions=[item.copy() for item in unnest.expressions],
        offset=exp.to_identifier("n"),
        alias=exp.TableAlias(this=exp.to_identifier("u"), columns=[exp.to_identifier("e")]),
    )
    counted = exp.alias_(exp.column("n") - 1, number, quoted=True)
    query = exp.select(exp.alias_(exp.column("e"), name, quoted=True), counted).from_(inner)
    join = unnest.parent
    unnest.replace(exp.Lateral(this=exp.Subquery(this=query), alias=exp.TableAlias(this=exp.to_identifier(name))))
    if isinstance(join, exp.Join) and not join.args.get("on"):
        join.set(*("on", exp.true()) if join.side else ("kind", "CROSS"))


def _if(call: VendorCall, text: Text) -> exp.Expr:
    example = "AI.IF(('Is it urgent? ', body))"
    arguments = Arguments(call, text)
    asked = prompt_of(arguments.needed("prompt", "a prompt", example), text)
    examples = _examples(arguments)
    options = _options(arguments)
    arguments.finish(example)
    return native("AI_FILTER", [asked], {**options, "examples": examples}, call)


def _score(call: VendorCall, text: Text) -> exp.Expr:
    example = "AI.SCORE(('How urgent is it? ', body))"
    arguments = Arguments(call, text)
    asked = prompt_of(arguments.needed("prompt", "a prompt", example), text)
    options = _options(arguments)
    arguments.finish(example)
    text.warn("AI.SCORE gives the probability that the answer is yes, from 0 to 1, and not a grade on the prompt's scale.")
    return native("AI_SCORE", [asked], options, call)


def _classify(call: VendorCall, text: Text) -> exp.Expr:
    example = "AI.CLASSIFY(body, categories => ['billing', 'delivery'])"
    arguments = Arguments(call, text)
    asked = prompt_of(arguments.needed("input", "an input", example), text)
    labels = _labels(arguments.needed("categories", "a list of categories", example), text)
    mode = arguments.named_constant("output_mode")
    if mode not in (None, "single", "multi"):
        raise text.error(call, f"output_mode must be 'single' or 'multi', not {mode!r}.", example)
    examples = _examples(arguments)
    options = _options(arguments)
    arguments.finish(example)
    given = {**options, "output_mode": "multi" if mode == "multi" else None, "examples": examples}
    made = native("AI_CLASSIFY", [asked, labels], given, call)
    return unless_null(made, exp.Array(expressions=[made])) if mode == "single" else made


def _native(call: VendorCall, text: Text) -> exp.Expr:
    """A function that BigQuery lacks: ours."""
    return native(call.name, [argument.copy() for argument in call.expressions], {}, call)


def _options(arguments: Arguments) -> dict[str, Any]:
    """What stays of the named arguments of every function; the rest is ignored, with a warning."""
    text = arguments.text
    optimization = arguments.named_constant("optimization_mode")
    if optimization not in (None, *_OPTIMIZATIONS):
        raise text.error(arguments.call, f"optimization_mode must be one of {', '.join(_OPTIMIZATIONS)}, not {optimization!r}.")
    if optimization == "MINIMIZE_COST":
        text.warn("optimization_mode MINIMIZE_COST is ignored: every row is judged by the model, by no cheaper stand-in.")
    if ignored := [name for name in arguments.named if name != "max_error_ratio"]:
        known = "" if set(ignored) <= set(_PLUMBING) else "; the model and its limits are named in the profile"
        text.warn(f"Of {arguments.call.name}, {', '.join(sorted(ignored))} is ignored{known}.")
    options = {"max_error_ratio": arguments.named_constant("max_error_ratio")}
    arguments.named.clear()
    return options


def _labels(node: exp.Expr, text: Text) -> exp.Expr:
    """Categories as texts, or as pairs of a name and a description; a column or a variable holds a list of texts."""
    if not isinstance(node, exp.Array):
        return node.copy()
    pairs = [_pair(item, text) if isinstance(item, (exp.Tuple, exp.Struct)) else None for item in node.expressions]
    if not any(pairs):
        return node.copy()
    if not all(pairs):
        raise text.error(node, "Categories are all texts, or all pairs of a name and a description.")
    return literal([{"label": pair[0], "description": pair[1]} for pair in pairs if pair])


def _examples(arguments: Arguments) -> list[dict[str, Any]] | None:
    """Pairs of an input and its answer, a list of answers with output_mode 'multi'."""
    node = arguments.named.pop("examples", None)
    if node is None:
        return None
    if not isinstance(node, exp.Array):
        raise arguments.text.error(node, "examples is a constant list.", "examples => [('an input', 'its answer')]")
    pairs = [_pair(item, arguments.text) for item in node.expressions]
    return [{"input": given, "answer": answer} for given, answer in pairs]


def _pair(node: exp.Expr, text: Text) -> tuple[Any, Any]:
    """The two values of a struct, whatever its fields are called."""
    items = node.expressions if isinstance(node, (exp.Tuple, exp.Struct)) else []
    if len(items) != 2:
        raise text.error(node, "This is a pair of two constants.", "('a name', 'what it means')")
    values = [item.expression if isinstance(item, exp.PropertyEQ) else item.unalias() for item in items]
    return constant(values[0], "A value of a pair", text), constant(values[1], "A value of a pair", text)


_FUNCTIONS: dict[str, Callable[[VendorCall, Text], exp.Expr]] = {"AI.IF": _if, "AI.SCORE": _score, "AI.CLASSIFY": _classify}
