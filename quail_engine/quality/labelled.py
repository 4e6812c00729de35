"""Labelled sets: files of rows whose answers people gave.

A file (Parquet or CSV) is one set. Its columns:

* `text`, and for questions about a pair `text_2`
* `label`: BOOLEAN for yes/no questions; else text, and the set is a classification among all the labels that occur
* `question`: as in `AI_FILTER`, where {0} stands for `text` and {1} for `text_2`; each row has its own. A classification does
  without it
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from quail_engine.calls import Label, Question, Task, Template
from quail_engine.errors import SettingsError

BUILT_IN = Path(__file__).parent / "sets"
"""Small sets of our own: enough to see that a layout does not work, not to choose between two that do."""

_PLACEHOLDER = re.compile(r"\{([01])\}")


@dataclass(frozen=True)
class LabelledRow:
    question: Question
    texts: tuple[str, ...]
    gold: bool | str  # a judgement, or one of the question's labels


@dataclass(frozen=True)
class LabelledSet:
    name: str
    rows: tuple[LabelledRow, ...]

    @property
    def task(self) -> Task:
        return self.rows[0].question.task

    @property
    def arguments(self) -> int:
        return len(self.rows[0].texts)

    def sample(self, count: int) -> LabelledSet:
        """At most `count` rows, as many of each label as there are: the first by a hash of their texts, the same every time."""
        by_label: dict[bool | str, list[LabelledRow]] = defaultdict(list)
        for row in sorted(self.rows, key=_digest):
            by_label[row.gold].append(row)
        rows = chain.from_iterable(zip_longest(*(by_label[gold] for gold in sorted(by_label, key=str))))
        return LabelledSet(self.name, tuple(row for row in rows if row is not None)[:count])


def read_sets(folder: Path) -> list[LabelledSet]:
    """The labelled sets of a folder, by name. Raises SettingsError for a folder without any, and for files of another form."""
    paths = sorted(path for path in folder.glob("*") if path.suffix in (".parquet", ".csv")) if folder.is_dir() else []
    if not paths:
        raise SettingsError(f"{folder} holds no labelled rows: give a folder with .parquet or .csv files.")
    return [_read_set(path) for path in paths]


def _read_set(path: Path) -> LabelledSet:
    try:
        table = pa.parquet.read_table(path) if path.suffix == ".parquet" else pa.csv.read_csv(path)
    except (OSError, pa.ArrowException) as error:
        raise SettingsError(f"{path} cannot be read: {error}.") from error
    if missing := [name for name in ("text", "label") if name not in table.column_names]:
        raise _malformed(path, f"it has no column {missing[0]!r}")
    rows = [row for row in table.to_pylist() if all(row[name] is not None for name in ("text", "label"))]
    if not rows:
        raise _malformed(path, "it has no row with a text and a label")
    if pa.types.is_boolean(table.schema.field("label").type):
        return LabelledSet(path.stem, tuple(_judgement(path, row) for row in rows))
    labels = tuple(Label(text) for text in sorted({str(row["label"]) for row in rows}))
    if len(labels) < 2:
        raise _malformed(path, f"all its rows have the label {labels[0].text!r}")
    return LabelledSet(path.stem, tuple(_choice(row, labels) for row in rows))


def _judgement(path: Path, row: dict[str, Any]) -> LabelledRow:
    texts = _texts(row)
    question = str(row.get("question") or "").strip()
    if not question:
        raise _malformed(path, "its labels are true and false, but a row has no `question`")
    template = _template(question, len(texts))
    if len(template.arguments) < len(texts):
        raise _malformed(path, f"the question {question!r} does not say where its texts stand: write {{0}} and {{1}}")
    return LabelledRow(Question(Task.JUDGE, template), texts, row["label"])


def _choice(row: dict[str, Any], labels: tuple[Label, ...]) -> LabelledRow:
    question = str(row.get("question") or "").strip()
    template = _template(question, 1) if question else Template((0,))
    return LabelledRow(Question(Task.CLASSIFY, template, labels), (str(row["text"]),), str(row["label"]))


def _texts(row: dict[str, Any]) -> tuple[str, ...]:
    second = row.get("text_2")
    return (str(row["text"]),) if second is None else (str(row["text"]), str(second))


def _template(question: str, texts: int) -> Template:
    """A question without a placeholder is about the one text, which follows it."""
    pieces = _PLACEHOLDER.split(question)
    if len(pieces) == 1 and texts == 1:
        return Template((f"{question} ", 0))
    parts = (int(piece) if i % 2 else piece for i, piece in enumerate(pieces))
    return Template(tuple(part for part in parts if part != ""))


def _digest(row: LabelledRow) -> bytes:
    return hashlib.sha256("\x00".join((row.question.template.text, *row.texts)).encode()).digest()


def _malformed(path: Path, why: str) -> SettingsError:
    return SettingsError(
        f"{path} is no labelled set: {why}. It needs the columns `text`, `label` (true/false, or a label's text) and, where "
        f"the label is true or false, `question`; about two texts also `text_2`."
    )
