"""Generated rows of two tables: texts with NULLs, duplicates, empty strings, unicode, quotes and braces."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

TEXTS = [
    "late refund", "late", "", "Refund ünï 🦊", "brown {0} 'q'", "brown fox", "x", "nothing \"here\"", "{{1}} %s \\n",
    "word late", "refund word", "y\nx",
]  # fmt: skip

SCHEMA = """
create or replace table t (id integer, k integer, a varchar, b varchar);
create or replace table u (uid integer, k integer, c varchar);
"""

Row = tuple[int | str | None, ...]
Data = tuple[list[Row], list[Row]]


def data(seed: int) -> Data:
    """Rows of t and u. A quarter of the seeds gives no NULL at all, so that both cases occur in every position."""
    random = Random(f"rows {seed}")
    nulls = [None] * random.choice([0, 5, 5, 5])
    texts, keys = [*random.sample(TEXTS, 7), *nulls], [0, 0, 1, 1, 2, 3, *nulls[:1]]
    t = [(i, random.choice(keys), random.choice(texts), random.choice(texts)) for i in range(1, random.randint(4, 11))]
    u = [(i, random.choice(keys), random.choice(texts)) for i in range(1, random.choice([1, 4, 5, 6, 7, 8]))]
    return t, u


def load(run: Callable[[str], object], rows: Data) -> None:
    """Creates both tables with these rows, in place of what they held."""
    run(SCHEMA)
    for table, values in zip(("t", "u"), rows, strict=True):
        if values:
            run(f"insert into {table} values {', '.join(map(_literals, values))}")


def _literals(row: Row) -> str:
    return f"({', '.join('null' if v is None else repr(v) if isinstance(v, int) else quoted(v) for v in row)})"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
