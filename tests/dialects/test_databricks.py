# ruff: noqa: E501
"""Databricks' documented forms: each parses, plans, and gives the documented type and the mock's value; requests are counted."""

from __future__ import annotations

from typing import Any

import pytest

from quail_engine import Connection, SqlError
from quail_engine.sql.dialects import findings

LABEL = ["alpha", "beta", None, None]
TRUE = [True, True, None, None]
# What is written, its type, its value for tickets 1 to 4 in order. Ticket 3 fails, ticket 4 is NULL: three requests.
FORMS = {
    "classify": ("ai_classify(body, ARRAY('alpha', 'beta'))", "VARCHAR", LABEL),
    "classify, compared": ("AI_CLASSIFY(body, array('alpha', 'it\\'s')) = 'alpha'", "BOOLEAN", [True, False, None, None]),
    "classify by a column": ("ai_classify(body, cats)", "VARCHAR", LABEL),
    "classify text put together": ("ai_classify(concat('Which? ', body), ARRAY('alpha', 'beta'))", "VARCHAR", LABEL),
    "sentiment": ("ai_analyze_sentiment(replace(body, 'beta', 'mixed'))", "VARCHAR", ["mixed", "mixed", None, None]),
    "our filter": ("AI_FILTER(PROMPT('it\\'s \\'beta\\'? {0}', body), threshold => 0.3)", "BOOLEAN", TRUE),
    "our score": ("AI_SCORE(PROMPT('it\\'s \\'beta\\'? {0}', body)) > 0.9", "BOOLEAN", TRUE),
    "our options": ("AI_CLASSIFY(body, ['alpha', 'beta'], named_struct('instructions', 'it\\'s', 'examples', array(named_struct('input', 'x', 'answer', 'beta'))))", "VARCHAR", LABEL),
}  # fmt: skip


def run(con: Connection, sql: str) -> tuple[list[tuple[Any, ...]], int]:
    table, report = con.sql(sql, dialect="databricks", report=True)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)), report.asked


@pytest.mark.parametrize("form", FORMS)
def test_a_documented_form(con: Connection, form: str) -> None:
    written, kind, values = FORMS[form]
    rows, asked = run(con, f"SELECT {written}, typeof({written}) FROM tickets ORDER BY id")
    assert rows == [(value, kind) for value in values]
    assert asked == 3


def test_sparks_sql_around_a_call(con: Connection) -> None:
    sql = """SELECT `region`, cat, count_if(ai_classify(body, array('alpha', 'beta')) = 'beta') AS n FROM tickets
        LATERAL VIEW explode(cats) c AS cat WHERE id <= 2 GROUP BY ALL ORDER BY cat"""
    assert run(con, sql) == ([("north", "alpha", 1), ("north", "beta", 1)], 2)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ('ai_classify(body, \'["a", "b"]\')', "version 2 of ai_classify"),
        ("ai_classify(body)", "needs an array of labels"),
        ("ai_classify(body, ARRAY('a', 'b'), MAP('version', '2.0'))", "takes fewer arguments"),
        ("ai_query('a-model', body)", "AI_QUERY writes or measures text"),
        ("ai_summarize(body)", "AI_SUMMARIZE writes or measures text"),
    ],
)
def test_what_is_refused_says_why_and_what_to_write(con: Connection, written: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason) as raised:
        run(con, f"SELECT {written} FROM tickets")
    assert raised.value.rewrite


def test_the_doctor_reads_databricks() -> None:
    found = findings("select ai_classify(body, array('a', 'b')),\n  ai_query('m', body) from {{ ref('t') }}", "databricks")
    assert [(each.line, each.name, bool(each.problem)) for each in found] == [(1, "AI_CLASSIFY", False), (2, "AI_QUERY", True)]
