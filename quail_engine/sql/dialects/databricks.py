"""Databricks: ai_classify of a list of labels, and ai_analyze_sentiment. Both give a text, as ours do."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.parsers.databricks import DatabricksParser

from quail_engine.sql.constants import constant_text
from quail_engine.sql.dialect import noting
from quail_engine.sql.dialects.prompts import prompt_of
from quail_engine.sql.dialects.vendor import Arguments, Text, VendorCall, literal, native, vendor_functions

GENERATIVE = (
    "AI_QUERY", "AI_GEN", "AI_EXTRACT", "AI_FIX_GRAMMAR", "AI_FORECAST", "AI_MASK", "AI_PARSE_DOCUMENT", "AI_SIMILARITY",
    "AI_SUMMARIZE", "AI_TRANSLATE",
)  # fmt: skip
_OURS = ("AI_FILTER", "AI_SCORE", "AI_JOIN", "AI_CLASSIFY_SCORES")
ASKING = ("AI_CLASSIFY", "AI_ANALYZE_SENTIMENT", *_OURS)
_SENTIMENTS = ("positive", "negative", "neutral", "mixed")


class DatabricksDialect(Databricks):
    """Databricks' SQL with the AI functions."""

    class Parser(DatabricksParser):
        FUNCTIONS = {  # noqa: RUF012
            **DatabricksParser.FUNCTIONS,
            **vendor_functions(ASKING),
        }

        _parse_function_call = noting(DatabricksParser._parse_function_call)
        _parse_lambda = noting(DatabricksParser._parse_lambda)
        _parse_expression = noting(DatabricksParser._parse_expression)


def rewrite(tree: exp.Expr, text: Text) -> None:
    for call in reversed(list(tree.find_all(VendorCall))):  # inner calls first
        call.replace(_FUNCTIONS.get(call.name, _native)(call, text))


def _classify(call: VendorCall, text: Text) -> exp.Expr:
    example = "ai_classify(body, ARRAY('billing', 'delivery'))"
    labels = call.expressions[1] if len(call.expressions) > 1 else None
    if labels is not None and constant_text(labels) is not None:
        reason = "Labels as a JSON text are version 2 of ai_classify, which gives a VARIANT; here the label itself is given."
        raise text.error(labels, reason, example)
    if any(isinstance(argument, exp.Struct) for argument in call.expressions[2:]):  # a native call, as the macros write it
        return _native(call, text)
    arguments = Arguments(call, text)
    asked = prompt_of(arguments.needed("content", "a text", example), text)
    chosen = arguments.needed("labels", "an array of labels", example)
    arguments.finish(example)
    return native("AI_CLASSIFY", [asked, chosen.copy()], {}, call)


def _sentiment(call: VendorCall, text: Text) -> exp.Expr:
    example = "ai_analyze_sentiment(body)"
    arguments = Arguments(call, text)
    asked = prompt_of(arguments.needed("content", "a text", example), text)
    arguments.finish(example)
    instructions = "What sentiment does the text express? Judge the text as a whole."
    return native("AI_CLASSIFY", [asked, literal(_SENTIMENTS)], {"instructions": instructions}, call)


def _native(call: VendorCall, text: Text) -> exp.Expr:
    """A function that Databricks lacks: ours."""
    return native(call.name, [argument.copy() for argument in call.expressions], {}, call)


_FUNCTIONS: dict[str, Callable[[VendorCall, Text], exp.Expr]] = {
    "AI_CLASSIFY": _classify,
    "AI_ANALYZE_SENTIMENT": _sentiment,
}
