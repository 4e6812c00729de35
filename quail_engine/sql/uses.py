"""What an answer is used as: a label where SQL wants a condition or a number, or beside a text that is none of the labels."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from quail_engine.calls import AiCall, Kind
from quail_engine.sql.aliases import is_within
from quail_engine.sql.constants import constant_text
from quail_engine.sql.dialect import AiFunction
from quail_engine.sql.source import Source

_TRUTH = ("true", "false", "t", "f", "yes", "no", "y", "n", "1", "0")  # texts that DuckDB reads as BOOLEAN
_PLAIN = {Kind.FILTER: "TRUE or FALSE", Kind.SCORE: "a probability"}
_CONDITIONS = (exp.Where, exp.Having, exp.Qualify, exp.Connector, exp.Not)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


def refuse_use(node: AiFunction, call: AiCall, source: Source) -> None:
    """Raises for an answer that is used as what it cannot be: a choice, as what none of its labels is."""
    labels = [label.text for label in call.question.labels]
    around = _around(node)
    if call.kind in _PLAIN and _is_cast(around, exp.DataType.TEMPORAL_TYPES):
        raise source.error_at(node, f"{node.name} is {_PLAIN[call.kind]} and no date.")
    if call.kind is not Kind.CLASSIFY or not labels:
        return
    if _is_condition(node, around) and not any(label.strip().lower() in _TRUTH for label in labels):
        raise source.error_at(
            node,
            f"{node.name} answers with one of its labels, a text, and is no condition.",
            f"{source.sql(node)} = '{labels[0]}', or AI_FILTER for a question of yes or no",
        )
    if _is_number(around) and not any(map(_reads_as_number, labels)):
        raise source.error_at(
            node,
            f"{node.name} answers with one of its labels, a text, and none of them ({_listed(labels)}) is a number.",
            f"labels that are numbers, or case {node.name}(…) when '{labels[0]}' then 1 … end",
        )


def unlike_labels(node: AiFunction, call: AiCall) -> tuple[str, ...]:
    """Warnings about texts that the answer is compared with and can never be."""
    labels = [label.text for label in call.question.labels]
    around = _around(node)
    if call.kind is not Kind.CLASSIFY or not labels or not isinstance(around, (exp.EQ, exp.NEQ, exp.In)):
        return ()
    others = around.expressions if isinstance(around, exp.In) else [around.this, around.expression]
    texts = [constant_text(other) for other in others]
    return tuple(
        f"{node.name} is compared with '{text}', which is none of its labels: {_listed(labels)}."
        for text in texts
        if text is not None and text not in labels
    )


def _around(node: exp.Expr) -> exp.Expr | None:
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    return around


def _is_condition(node: exp.Expr, around: exp.Expr | None) -> bool:
    if isinstance(around, exp.Join):
        return node.arg_key == "on"
    if isinstance(around, exp.If):  # a branch of CASE; with a value behind the word CASE, that is compared with it
        return is_within(node, around.this) and not (isinstance(around.parent, exp.Case) and around.parent.this)
    return isinstance(around, _CONDITIONS)


def _is_number(around: exp.Expr | None) -> bool:
    if isinstance(around, _COMPARISONS):
        return any(isinstance(side, exp.Literal) and not side.is_string for side in (around.this, around.expression))
    return _is_cast(around, exp.DataType.NUMERIC_TYPES)


def _is_cast(around: exp.Expr | None, types: Collection[object]) -> bool:
    return isinstance(around, exp.Cast) and not isinstance(around, exp.TryCast) and around.to.this in types


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _listed(labels: list[str]) -> str:
    return ", ".join(map(repr, labels))
