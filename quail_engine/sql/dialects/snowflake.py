"""Snowflake: Cortex AI functions with their signatures and return shapes. An OBJECT or VARIANT is DuckDB's JSON here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.dialects.snowflake import Snowflake
from sqlglot.parsers.snowflake import SnowflakeParser
from sqlglot.tokenizer_core import Token

from quail_engine.errors import SqlError
from quail_engine.sql.constants import constant_text
from quail_engine.sql.dialect import noting
from quail_engine.sql.dialects.prompts import prompt_of
from quail_engine.sql.dialects.variant import flatten_as_join, text_by_value
from quail_engine.sql.dialects.vendor import (
    Arguments,
    Text,
    VendorCall,
    constant,
    function,
    joined,
    literal,
    native,
    unless_null,
    vendor_functions,
)

GENERATIVE = (
    "AI_COMPLETE", "AI_EXTRACT", "AI_AGG", "AI_SUMMARIZE_AGG", "AI_SUMMARIZE", "AI_TRANSLATE", "AI_EMBED", "AI_SIMILARITY",
    "AI_PARSE_DOCUMENT", "AI_REDACT", "AI_TRANSCRIBE", "AI_COUNT_TOKENS", *(
        f"SNOWFLAKE.CORTEX.{name}" for name in (
            "COMPLETE", "TRY_COMPLETE", "EXTRACT_ANSWER", "SENTIMENT", "SUMMARIZE", "TRANSLATE", "EMBED_TEXT_768",
            "EMBED_TEXT_1024", "ENTITY_SENTIMENT", "PARSE_DOCUMENT", "COUNT_TOKENS", "FINETUNE",
        )
    ),
)  # fmt: skip
_CLASSIFY_TEXT = "SNOWFLAKE.CORTEX.CLASSIFY_TEXT"
ASKING = ("AI_FILTER", "AI_CLASSIFY", "AI_SENTIMENT", _CLASSIFY_TEXT, "AI_SCORE", "AI_JOIN", "AI_CLASSIFY_SCORES")
_SENTIMENTS = ("positive", "negative", "neutral", "mixed", "unknown")
_FAILED = "The text is NULL or too long, or its request failed; the command quail answers errors lists it."


class SnowflakeDialect(Snowflake):
    """Snowflake's SQL with the AI functions."""

    def tokenize(self, sql: str, dialect: Any = None) -> list[Token]:
        return joined(super().tokenize(sql, dialect), (_CLASSIFY_TEXT, *GENERATIVE))

    class Parser(SnowflakeParser):
        FUNCTIONS = {  # noqa: RUF012
            **SnowflakeParser.FUNCTIONS,
            **vendor_functions(ASKING),
        }

        _parse_function_call = noting(SnowflakeParser._parse_function_call)
        _parse_lambda = noting(SnowflakeParser._parse_lambda)
        _parse_lateral = noting(SnowflakeParser._parse_lateral)
        _parse_expression = noting(SnowflakeParser._parse_expression)


def rewrite(tree: exp.Expr, text: Text) -> None:
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Var) and table.this.name.startswith("@"):
            at = text.text.find(table.this.name)
            reason = "A stage has no counterpart in DuckDB."
            raise SqlError(reason, text.text, at, at + len(table.this.name), "FROM read_csv('file.csv'), or a seed")
    for values in tree.find_all(exp.Values):
        alias = values.args.get("alias") or exp.TableAlias(this=exp.to_identifier("column_values"))
        if not alias.columns and isinstance(values.parent, (exp.From, exp.Join)) and values.expressions:
            width = len(values.expressions[0].expressions)
            alias.set("columns", [exp.to_identifier(f"column{number}") for number in range(1, width + 1)])
            values.set("alias", alias)
    text_by_value(tree, returns_object)
    flatten_as_join(tree, text)
    for call in reversed(list(tree.find_all(VendorCall))):  # inner calls first
        call.replace(_FUNCTIONS[call.name](call, text))


def returns_object(node: exp.Expr) -> bool:
    """Whether a call gives an OBJECT."""
    if not isinstance(node, VendorCall):
        return False
    if node.name == "AI_FILTER":
        return any(isinstance(_bare(a), exp.Boolean) and _bare(a).this for a in node.expressions[-1:])
    return node.name in ("AI_CLASSIFY", "AI_SENTIMENT", _CLASSIFY_TEXT)


def _bare(argument: exp.Expr) -> exp.Expr:
    return argument.expression if isinstance(argument, exp.Kwarg) else argument


def _filter(call: VendorCall, text: Text) -> exp.Expr:
    example = "AI_FILTER(PROMPT('Is it urgent? {0}', body))"
    options = call.expressions[-1] if len(call.expressions) > 1 and isinstance(call.expressions[-1], exp.Struct) else None
    if options is not None:  # a native call, as the macros write it
        return native(call.name, [_prompt(call.expressions[0], text), options.copy()], {}, call)
    arguments = Arguments(call, text)
    prompt = arguments.needed("input", "a prompt", example)
    second = arguments.positional[0] if arguments.positional else None
    if second is not None and constant_text(prompt) is not None and not isinstance(second, (exp.Boolean, exp.Null)):
        # Snowflake would take the column for return_error_details, and refuse it.
        arguments.positional.pop(0)
        asked: list[exp.Expr] = [prompt.copy(), second.copy()]
    else:
        asked = [_prompt(prompt, text)]
    details = _details(arguments)
    arguments.finish(example)
    made = native("AI_FILTER", asked, {}, call)
    return _with_details(made, made) if details else made


def _classify(call: VendorCall, text: Text) -> exp.Expr:
    example = "AI_CLASSIFY(body, ['billing', 'delivery'])"
    arguments = Arguments(call, text)
    asked = _prompt(arguments.needed("input", "a text", example), text)
    labels = arguments.needed("list_of_categories", "a list of categories", example)
    no_config = isinstance(next(iter(arguments.positional), None), exp.Boolean)
    config = None if no_config else arguments.take("config_object")
    options = _config(config, text) if config is not None else {}
    details = _details(arguments)
    arguments.finish(example)
    made = native("AI_CLASSIFY", [asked, labels.copy()], options, call)
    listed = made if options.get("output_mode") == "multi" else function("json_array", made)
    shaped = unless_null(made, function("json_object", exp.Literal.string("labels"), listed))
    return _with_details(made, shaped) if details else shaped


def _classify_text(call: VendorCall, text: Text) -> exp.Expr:
    example = f"{_CLASSIFY_TEXT}(body, ['billing', 'delivery'])"
    arguments = Arguments(call, text)
    asked = _prompt(arguments.needed("input", "a text", example), text)
    labels = arguments.needed("list_of_categories", "a list of categories", example)
    config = arguments.take("options")
    options = _config(config, text) if config is not None else {}
    arguments.finish(example)
    found = [] if not isinstance(labels, exp.Array) else [_as_dict(item, text) for item in labels.expressions]
    examples = [{"input": one, "answer": item["label"]} for item in found for one in item.get("examples", ())]
    if any("examples" in item for item in found):
        kept = [{key: value for key, value in item.items() if key != "examples"} for item in found]
        labels = literal(kept)
    made = native("AI_CLASSIFY", [asked, labels.copy()], {**options, "examples": examples or None}, call)
    return unless_null(made, function("json_object", exp.Literal.string("label"), made))


def _sentiment(call: VendorCall, text: Text) -> exp.Expr:
    example = "AI_SENTIMENT(body), AI_SENTIMENT(body, ['price', 'service'])"
    arguments = Arguments(call, text)
    asked = _prompt(arguments.needed("text", "a text", example), text)
    has_list = "categories" in arguments.named or isinstance(next(iter(arguments.positional), None), exp.Array)
    listed = arguments.take("categories") if has_list else None
    categories = constant(listed, "The list of categories", text) if listed is not None else []
    if not all(isinstance(category, str) and category.strip() for category in categories):
        raise text.error(listed or call, "A category of AI_SENTIMENT is a text that is not empty.", example)
    details = _details(arguments)
    arguments.finish(example)
    overall: exp.Expr | None = None
    entries = []
    for category in ["overall", *categories]:
        about = "the text as a whole" if category == "overall" else f"{category}; unknown where the text does not speak of it"
        made = native(
            "AI_CLASSIFY",
            [asked.copy(), literal(_SENTIMENTS)],
            {"instructions": f"What sentiment does the text express? Judge {about}."},
            call,
        )
        overall = overall or made
        entries.append(function("json_object", *map(exp.convert, ("name", category, "sentiment")), made))
    assert overall is not None, "there is always the overall sentiment"
    shaped = unless_null(overall, function("json_object", exp.convert("categories"), function("json_array", *entries)))
    return _with_details(overall, shaped) if details else shaped


def _native(call: VendorCall, text: Text) -> exp.Expr:
    """A function that Snowflake lacks: ours."""
    return native(call.name, [argument.copy() for argument in call.expressions], {}, call)


def _prompt(node: exp.Expr, text: Text) -> exp.Expr:
    is_prompt = isinstance(node, exp.Anonymous) and node.name.upper() == "PROMPT"
    if not is_prompt or not node.expressions:
        return node.copy() if is_prompt else prompt_of(node, text)
    template = constant_text(node.expressions[0])
    if template is None:
        raise text.error(node.expressions[0], "PROMPT's template must be a constant text.", "PROMPT('Is it urgent? {0}', body)")
    return function("PROMPT", exp.Literal.string(template), *(argument.copy() for argument in node.expressions[1:]))


def _details(arguments: Arguments) -> bool:
    """The last argument, return_error_details."""
    given = arguments.take("return_error_details")
    if given is None or isinstance(given, exp.Null):
        return False
    if not isinstance(given, exp.Boolean):
        raise arguments.text.error(
            given,
            f"This argument of {arguments.call.name} is return_error_details, which is TRUE or FALSE.",
            "PROMPT('question {0} {1}', a, b) to ask about several expressions",
        )
    return bool(given.this)


def _with_details(call: exp.Expr, value: exp.Expr) -> exp.Expr:
    """`{value, error}`, exactly one of which is NULL."""
    failed = exp.Case(ifs=[exp.If(this=exp.Is(this=call.copy(), expression=exp.Null()), true=exp.Literal.string(_FAILED))])
    return function("json_object", exp.convert("value"), value, exp.convert("error"), failed)


def _as_dict(item: exp.Expr, text: Text) -> dict[str, Any]:
    value = constant(item, "A category", text)
    return value if isinstance(value, dict) else {"label": value}


def _config(node: exp.Expr, text: Text) -> dict[str, Any]:
    """Native options from a config object."""
    example = "{'task_description': 'what is asked', 'output_mode': 'multi'}"
    given = constant(node, "The configuration", text)
    if not isinstance(given, dict):
        raise text.error(node, "The configuration is an object.", example)
    renamed = {"task_description": "instructions", "output_mode": "output_mode"}
    options = {renamed[key]: value for key, value in given.items() if key in renamed}
    examples, multi = [], given.get("output_mode") == "multi"
    for row in given.get("examples") or ():
        if isinstance(row, dict) and set(row) == {"input", "answer"}:  # ours, as the macros write them
            examples.append(row)
            continue
        if not isinstance(row, dict) or not {"input", "labels"} <= set(row):
            raise text.error(node, "An example has the keys input, labels and explanation.", example)
        labels = row["labels"]
        examples += [{"input": row["input"], "answer": answer} for answer in ([labels] if multi else labels)]
        if row.get("explanation"):
            text.warn("The explanation of an example of AI_CLASSIFY is ignored.")
    unknown = [key for key in given if key not in (*renamed, "examples")]
    for key in unknown:  # ours, such as threshold, are checked where native calls are
        options[key] = given[key]
    return {**options, "examples": examples or None}


_FUNCTIONS: dict[str, Callable[[VendorCall, Text], exp.Expr]] = {
    "AI_FILTER": _filter,
    "AI_JOIN": _native,
    "AI_SCORE": _native,
    "AI_CLASSIFY_SCORES": _native,
    "AI_CLASSIFY": _classify,
    "AI_SENTIMENT": _sentiment,
    _CLASSIFY_TEXT: _classify_text,
}
