"""The oracle: the mock's rules as plain scalar functions of a DuckDB connection, evaluated naively, row by row.

DuckDB with these functions is the reference for the rows of any AI query. It knows nothing of rounds, guards or plans, and
of the front end it shares only the rules. Two forms have no plain function: named arguments (write a struct), and a prompt
put together with `||` (the oracle sees one text; write PROMPT).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import pyarrow as pa

from quail_engine.calls import Kind, Label, Question, Task, Template
from quail_engine.engine.rules import Rules
from quail_engine.lookups import create_function, probability, sql_value

_MARK = "\x01prompt:"
_PIECE = re.compile(r"\{\{|\}\}|\{(\d+)\}")


def oracle(
    database: str = ":memory:",
    threshold: float = 0.5,
    mock_fail: str | None = None,
    mock_margin: Mapping[str, float] | None = None,
) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection on which every AI function answers by the mock's rules, wherever DuckDB evaluates it."""
    connection = duckdb.connect(database)
    rules = Rules(mock_fail, mock_margin or {})

    def judge(*row: Any) -> float | None:
        texts, _ = _split(row)
        prompt = _shorthand(texts) if len(texts) > 1 else _prompt(texts[0])
        return None if prompt is None else _margin(rules, *prompt)

    def cutoff(row: tuple[Any, ...]) -> float:
        return float(_split(row)[1].get("threshold", threshold))

    def filter_(*row: Any) -> bool | None:
        margin = judge(*row)
        return None if margin is None else probability(margin) >= cutoff(row)

    def score(*row: Any) -> float | None:
        margin = judge(*row)
        return None if margin is None else probability(margin)

    def classify(kind: Kind) -> Callable[..., Any]:
        return lambda *row: _classify(rules, kind, row)

    functions: dict[str, tuple[Callable[..., Any], str, pa.DataType]] = {
        "PROMPT": (_pack, "VARCHAR", pa.string()),
        "AI_FILTER": (filter_, "BOOLEAN", pa.bool_()),
        "AI_JOIN": (filter_, "BOOLEAN", pa.bool_()),
        "AI_SCORE": (score, "DOUBLE", pa.float64()),
        "AI_CLASSIFY": (classify(Kind.CLASSIFY), "VARCHAR", pa.string()),
        "AI_CLASSIFY_SCORES": (
            classify(Kind.CLASSIFY_SCORES),
            "MAP(VARCHAR, DOUBLE)",
            pa.map_(pa.string(), pa.float64()),
        ),
    }
    for name, (function, sql_type, arrow_type) in functions.items():
        create_function(connection, name, _by_row(function, arrow_type), sql_type)
    return connection


def _by_row(function: Callable[..., Any], arrow_type: pa.DataType) -> Callable[..., pa.Array]:
    def evaluate(*columns: pa.Array) -> pa.Array:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([function(*row) for row in rows], arrow_type)

    return evaluate


def _pack(template: str, *arguments: Any) -> str:
    return _MARK + json.dumps([template, [None if a is None else str(a) for a in arguments]], ensure_ascii=False)


def _split(row: tuple[Any, ...]) -> tuple[list[Any], dict[str, Any]]:
    """Texts and options of a call's row."""
    if len(row) > 1 and isinstance(row[-1], dict):
        return list(row[:-1]), row[-1]
    return list(row), {}


def _prompt(value: Any) -> tuple[Template, tuple[str, ...]] | None:
    """Template and documents of one value; None where a document is NULL."""
    if value is None:
        return None
    text = str(value)
    if not text.startswith(_MARK):
        return Template((0,)), (text,)
    template, values = json.loads(text.removeprefix(_MARK))
    used = sorted({int(m[1]) for m in _PIECE.finditer(template) if m[1]})
    documents = tuple(values[number] for number in used)
    return None if None in documents else (_template(template, used), documents)


def _template(text: str, used: list[int]) -> Template:
    parts: list[str | int] = []
    at, plain = 0, ""
    for piece in _PIECE.finditer(text):
        plain += text[at : piece.start()]
        at = piece.end()
        if piece[1] is None:
            plain += piece[0][0]
        else:
            parts += [plain, used.index(int(piece[1]))] if plain else [used.index(int(piece[1]))]
            plain = ""
    plain += text[at:]
    return Template(tuple([*parts, plain] if plain else parts))


def _shorthand(texts: list[Any]) -> tuple[Template, tuple[str, ...]] | None:
    question, document = texts
    return None if document is None else (Template((f"{question} ", 0)), (str(document),))


def _margin(rules: Rules, template: Template, documents: tuple[str, ...]) -> float | None:
    margin = rules.answer(Question(Task.JUDGE, template), documents)[0]
    return None if margin != margin else margin


def _classify(rules: Rules, kind: Kind, row: tuple[Any, ...]) -> Any:
    (text, labels), options = _split(row)
    prompt = _prompt(text)
    if prompt is None or labels is None:
        return None
    named = tuple(
        Label(item) if isinstance(item, str) else Label(item["label"], item.get("description") or "") for item in labels
    )
    task = Task.TAG if options.get("output_mode") == "multi" else Task.CLASSIFY
    weights = rules.answer(Question(task, prompt[0], named), prompt[1])
    return None if weights[0] != weights[0] else sql_value(kind, task, weights, named, options.get("threshold", 0.5))
