"""Generated tables: texts with NULLs, duplicates, empty strings, unicode, quotes and braces, and a column of another type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

TEXTS = [
    "late refund", "late", "", "Refund ünï 🦊", "brown {0} 'q'", "brown fox", "x", "nothing \"here\"", "{{1}} %s \\n",
    "word late", "refund word", "y\nx",
]  # fmt: skip

# What `t.d` may be: its type, and literals that a cast to text gives back as they are.
TYPED = {
    "varchar": ("'x'", "''", "'late fox'"),
    "integer": ("0", "1", "-7"),
    "date": ("date '2026-01-31'", "date '1999-12-01'"),
    "decimal(6, 2)": ("1.50", "-0.25", "10.00"),
}

# r is what statements write: a copy of t with room for an answer; v shows t.
SCHEMA = """
drop view if exists v; drop table if exists made; drop table if exists made_for_now;
create or replace table t (id integer{key}, k integer, a varchar, b varchar, d {type});
create or replace table u (uid integer, k integer, c varchar);
{rows}create view v as select * from t;
create or replace table r as select *, null::varchar as x from t;
"""

Row = tuple[object, ...]  # SQL literals


@dataclass(frozen=True)
class Tables:
    """Rows of t and u as SQL literals, and how t is declared."""

    t: tuple[Row, ...]
    u: tuple[Row, ...]
    type: str = "varchar"  # of t.d
    key: bool = False  # whether t.id is declared a primary key

    @property
    def sql(self) -> str:
        """Statements that create the tables in place of what there was."""
        inserts = [f"insert into {name} values {', '.join(map(_row, rows))};\n" for name, rows in self._rows if rows]
        return SCHEMA.format(key=" primary key" if self.key else "", type=self.type, rows="".join(inserts)).strip()

    @property
    def _rows(self) -> tuple[tuple[str, tuple[Row, ...]], ...]:
        return (("t", self.t), ("u", self.u))

    def load(self, run: Callable[[str], object]) -> None:
        run(self.sql)


@st.composite
def tables(draw: st.DrawFn) -> Tables:
    """Rows of t and u. A third of the tables hold no NULL at all, so that both cases occur in every position."""
    nulls = ["null"] * draw(st.sampled_from((0, 6, 12)))
    texts = st.sampled_from([*map(quoted, TEXTS[: draw(st.sampled_from((12, 7, 3)))]), *nulls])
    keys = st.sampled_from(["0", "0", "1", "1", "2", "3", *nulls[:1]])
    kind = draw(st.sampled_from(list(TYPED)))
    t = draw(st.lists(st.tuples(keys, texts, texts, st.sampled_from([*TYPED[kind], *nulls[:2]])), min_size=3, max_size=10))
    u = draw(st.lists(st.tuples(keys, texts), min_size=2, max_size=7)) if draw(st.integers(0, 9)) else []
    return Tables(_numbered(t), _numbered(u), kind, draw(st.booleans()))


def _numbered(rows: list[tuple[str, ...]]) -> tuple[Row, ...]:
    return tuple((i, *row) for i, row in enumerate(rows, 1))


def _row(row: Row) -> str:
    return f"({', '.join(map(str, row))})"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
