"""The text of an AI call that a macro writes: columns are SQL, questions and labels plain values that are quoted here.

It is native, in the quoting of the dialect that the model's own SQL is in; what it gives has the type that the dialect's own
function gives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

SENTIMENTS = ("positive", "negative", "neutral", "mixed", "unknown")
SENTIMENT_INSTRUCTIONS = "What sentiment does the text express? Judge the text as a whole."
_PLACEHOLDER = re.compile(r"\{[0-9]+\}")
# The vendors read backslashes; not all of them read doubled quotes.
_VENDOR_ESCAPES = str.maketrans({"\\": r"\\", "'": r"\'", "\n": r"\n", "\r": r"\r"})


def question_call(function: str, question: str, columns: Sequence[str], options: Mapping[str, Any], dialect: str) -> str:
    """A function of PROMPT over the columns. A question without a placeholder gets all of them, in order, at its end."""
    unescaped = question.replace("{{", "").replace("}}", "")
    if not _PLACEHOLDER.search(unescaped):
        question += "".join(f" {{{number}}}" for number in range(len(columns)))
    return _call(function, [f"PROMPT({', '.join([literal(question, dialect), *columns])})"], options, dialect)


def choice_call(function: str, column: str, labels: Any, options: Mapping[str, Any], dialect: str) -> str:
    """A function of a text and labels: a list of texts or of mappings with `label` and `description`; a text is SQL.

    In Snowflake's SQL AI_CLASSIFY gives an object, out of which the label is taken, or the list of labels.
    """
    call = _call(function, [column, labels if isinstance(labels, str) else literal(labels, dialect)], options, dialect)
    if dialect != "snowflake" or function != "AI_CLASSIFY":
        return call
    return call + (":labels::array" if options.get("output_mode") == "multi" else ":labels[0]::varchar")


class Examples(list[Any]):
    """Labelled rows; as a text the SQL of their list, a row a line, so that an error shows the row and not all of them."""

    def __init__(self, rows: Iterable[Sequence[Any]], dialect: str) -> None:
        """Each row has its texts, its label, and whether that is a list in JSON."""
        super().__init__(
            {"input": list(texts), "answer": json.loads(label) if is_list else label} for *texts, label, is_list in rows
        )
        self._dialect = dialect

    def __str__(self) -> str:
        return "[\n" + ",\n".join(literal(row, self._dialect) for row in self) + "\n]"


def _call(function: str, arguments: list[str], options: Mapping[str, Any], dialect: str) -> str:
    return f"{function}({', '.join([*arguments, literal(options, dialect)] if options else arguments)})"


def literal(value: Any, dialect: str) -> str:
    """A text, number, truth value, None, list or mapping (a struct) as SQL."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return f"'{value.translate(_VENDOR_ESCAPES)}'" if dialect != "duckdb" else "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping) and dialect == "databricks":  # braces are none of its SQL
        return f"named_struct({', '.join(literal(each, dialect) for pair in value.items() for each in pair)})"
    if isinstance(value, Mapping):
        members = (f"{literal(name, dialect)}: {literal(member, dialect)}" for name, member in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, Iterable):
        return f"[{', '.join(literal(member, dialect) for member in value)}]"
    return str(value)
