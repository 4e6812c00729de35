# ruff: noqa: E501
"""BigQuery's documented forms: each parses, plans, and gives the documented type and the mock's value; requests are counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

import quail_engine
from quail_engine import Connection, SqlError


def run(con: Connection, sql: str) -> tuple[list[Any], int]:
    """The rows (a value where there is one column) and the number of requests."""
    table, report = con.sql(sql, dialect="bigquery", report=True)
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return [row[0] if len(row) == 1 else row for row in rows], report.asked


LABEL = ["alpha", "beta", None, None]
TRUE = [True, True, None, None]
# What is written, its type, its value for tickets 1 to 4 in order. Ticket 3 fails, ticket 4 is NULL: three requests.
FORMS = {
    "a struct without names": (r"AI.IF(('Is it \'beta\'? ', body))", "BOOLEAN", TRUE),
    "a struct with several columns": ("AI.IF((\"Is it 'beta'? \", body, ' from ', region))", "BOOLEAN", [False, False, None, None]),
    "prompt by name": ("AI.IF(prompt => (\"Is it 'beta'? \", body))", "BOOLEAN", TRUE),
    "lower case and spaces": ("ai . if ((\"Is it 'beta'? \", body))", "BOOLEAN", TRUE),
    "SAFE": ("SAFE.AI.IF((\"Is it 'beta'? \", body))", "BOOLEAN", TRUE),
    "CONCAT": ("AI.IF(CONCAT(\"Is it 'beta'? \", body))", "BOOLEAN", TRUE),
    "two bars": ("AI.IF(\"Is it 'beta'? \" || body)", "BOOLEAN", TRUE),
    "STRUCT": ("AI.IF(STRUCT(\"Is it 'beta'? \" AS question, body AS text))", "BOOLEAN", TRUE),
    "FORMAT": ('AI.IF(FORMAT("""Is it \'beta\' to 100%%? %s""", body))', "BOOLEAN", TRUE),
    "a raw text": ("AI.IF(r\"Is it 'beta'\\n? \" || body)", "BOOLEAN", TRUE),
    "a prompt that is a column": ("AI.IF(body) IS NULL", "BOOLEAN", [False, False, True, True]),
    "braces are plain text": ("AI.IF((\"Is it 'beta'? {0} {x} \", body))", "BOOLEAN", TRUE),
    "plumbing": (
        "AI.IF(prompt => (\"Is it 'beta'? \", body), connection_id => 'p.us.c', endpoint => 'gemini', model_params => JSON '{\"a\": 1}', optimization_mode => 'MAXIMIZE_QUALITY', max_error_ratio => 1.0)",
        "BOOLEAN", TRUE,
    ),
    "examples of a condition": ("AI.IF((\"Is it 'beta'? \", body), examples => [('one', TRUE), ('two', FALSE)])", "BOOLEAN", TRUE),
    "CASE": ("CASE WHEN AI.IF((\"Is it 'beta'? \", body)) THEN 'yes' ELSE 'no' END", "VARCHAR", ["yes", "yes", "no", "no"]),
    "IF": ("IF(AI.IF((\"Is it 'beta'? \", body)), 1, 0)", "INTEGER", [1, 1, 0, 0]),
    "classify": ("AI.CLASSIFY(body, categories => ['alpha', 'beta'])", "VARCHAR", LABEL),
    "classify by position": ("AI.CLASSIFY(body, ['alpha', 'beta'])", "VARCHAR", LABEL),
    "classify by names": ("AI.CLASSIFY(input => body, categories => ['alpha', 'beta'])", "VARCHAR", LABEL),
    "classify a struct": ("AI.CLASSIFY(('What is it? ', body), categories => ['alpha', 'beta'])", "VARCHAR", LABEL),
    "classify with descriptions": ("AI.CLASSIFY(body, categories => [('alpha', 'the first'), ('beta', 'the next')])", "VARCHAR", LABEL),
    "classify with structs": ("AI.CLASSIFY(body, [STRUCT('alpha' AS label, 'the first' AS description), STRUCT('beta', 'the next')])", "VARCHAR", LABEL),
    "classify by a column": ("AI.CLASSIFY(body, cats)", "VARCHAR", LABEL),
    "classify in mode single": ("AI.CLASSIFY(body, categories => ['alpha', 'beta'], output_mode => 'single')", "VARCHAR[]", [["alpha"], ["beta"], None, None]),
    "classify in mode multi": (
        "AI.CLASSIFY(body, categories => ['alpha', 'beta', 'gamma'], output_mode => 'multi')", "VARCHAR[]", [["alpha", "beta"], ["beta"], None, None],
    ),
    "classify with examples": ("AI.CLASSIFY(body, ['alpha', 'beta'], examples => [('x', 'beta')])", "VARCHAR", LABEL),
    "classify with examples of several labels": (
        "AI.CLASSIFY(body, ['alpha', 'beta'], output_mode => 'multi', examples => [('x', ['alpha', 'beta'])])", "VARCHAR[]", [["alpha", "beta"], ["beta"], None, None],
    ),
    "classify with examples of none of several labels": (
        "AI.CLASSIFY(body, ['alpha', 'beta'], output_mode => 'multi', examples => [('x', [])])", "VARCHAR[]", [["alpha", "beta"], ["beta"], None, None],
    ),
    "score": ("ROUND(AI.SCORE((\"How 'beta' is it? \", body)), 2)", "DOUBLE", [0.95, 0.95, None, None]),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_documented_form(con: Connection, form: str) -> None:
    written, kind, values = FORMS[form]
    rows, asked = run(con, f"SELECT {written}, typeof({written}) FROM tickets ORDER BY id")
    assert [value for value, _ in rows] == values
    assert {found for _, found in rows} == {kind}
    assert asked == (2 if form == "braces" else 3)


STATEMENTS = {
    "WHERE and LIMIT, in backticks": ("SELECT id FROM `memory`.`main`.`tickets` WHERE AI.IF((\"Is it 'beta'? \", body)) AND id = 2 LIMIT 5", [2], 1),
    "names as dbt writes them here": ('SELECT id, "text" AS x FROM "memory"."main"."tickets" WHERE body = "beta"', [(2, "text")], 0),
    "an AI join": (
        "SELECT a.id, b.id AS other FROM tickets a JOIN tickets b ON a.region = b.region AND a.id < b.id WHERE AI.IF((a.body, ' shares ', b.body))", [(1, 2)], 1,
    ),
    "a share": ("SELECT SUM(CASE WHEN AI.IF((\"Is it 'beta'? \", body)) THEN 1 ELSE 0 END) / COUNT(*) FROM tickets", [0.5], 3),
    "COUNTIF and a window": ("SELECT id, COUNTIF(AI.IF((\"Is it 'beta'? \", body))) OVER (PARTITION BY region) AS n FROM tickets ORDER BY id", [(1, 2), (2, 2), (3, 0), (4, 0)], 3),
    "groups of an answer": (
        "SELECT AI.CLASSIFY(body, categories => [('alpha', 'x'), ('beta', 'y')]) AS label, COUNT(*) FROM tickets GROUP BY label ORDER BY label", [(None, 2), ("alpha", 1), ("beta", 1)], 3,
    ),
    "the best scores": ("SELECT id FROM tickets ORDER BY AI.SCORE((\"How 'alpha'? \", body)) DESC, id LIMIT 2", [1, 2], 3),
    "QUALIFY, of the rows that it leaves": (
        "SELECT id, AI.IF((\"Is it 'beta'? \", body)) AS b FROM tickets QUALIFY ROW_NUMBER() OVER (PARTITION BY region ORDER BY id) = 1 ORDER BY id", [(1, True), (3, None)], 2,
    ),
    "UNNEST of labels": (
        "SELECT id, label FROM tickets, UNNEST(AI.CLASSIFY(body, ['alpha', 'beta'], output_mode => 'multi')) AS label ORDER BY 1, 2", [(1, "alpha"), (1, "beta"), (2, "beta")], 3,
    ),
    "WITH OFFSET counts from 0": ("SELECT id, cat, place FROM tickets, UNNEST(cats) AS cat WITH OFFSET AS place WHERE id = 3 ORDER BY place", [(3, "beta", 0), (3, "gamma", 1)], 0),
    "LEFT JOIN UNNEST keeps rows": ("SELECT id, cat FROM tickets LEFT JOIN UNNEST(IF(id = 1, cats, NULL)) AS cat WITH OFFSET AS place ORDER BY id, place", [(1, "alpha"), (1, "beta"), (2, None), (3, None), (4, None)], 0),
    "days of the week count from 1": ("SELECT EXTRACT(DAYOFWEEK FROM DATE '2024-01-07')", [1], 0),
    "arrays by place": ("SELECT cats[OFFSET(0)], cats[SAFE_OFFSET(9)], cats[ORDINAL(2)] FROM tickets WHERE id = 1", [("alpha", None, "beta")], 0),
    "EXCEPT": ("SELECT * EXCEPT (body, cats, tags) FROM tickets WHERE id = 1", [(1, "north")], 0),
}  # fmt: skip


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement(con: Connection, name: str) -> None:
    sql, expected, requests = STATEMENTS[name]
    assert run(con, sql) == (expected, requests)


REFUSED = {
    "a generative function": ("SELECT AI.GENERATE('x').result", "AI.GENERATE", "writes or measures text"),
    "one with a syntax of its own": ("SELECT * FROM ML.GENERATE_TEXT(MODEL `m`, TABLE t, STRUCT(1 AS n))", "ML.GENERATE_TEXT", "writes or measures text"),
    "no prompt": ("SELECT AI.IF() FROM tickets", "AI.IF()", "needs a prompt"),
    "an argument too many": ("SELECT AI.IF(body, 'x') FROM tickets", "'x'", "takes fewer arguments"),
    "an unknown mode": ("SELECT AI.CLASSIFY(body, ['a', 'b'], output_mode => 'some') FROM tickets", "AI.CLASSIFY(body, ['a', 'b'], output_mode => 'some')", "'some'"),
    "an unknown optimization": ("SELECT AI.IF(body, optimization_mode => 'FAST') FROM tickets", "AI.IF(body, optimization_mode => 'FAST')", "'FAST'"),
    "one label": ("SELECT id, AI.CLASSIFY(body, ['a']) FROM tickets", "AI.CLASSIFY(body, ['a'])", "two labels or more"),
    "labels of two kinds": ("SELECT AI.CLASSIFY(body, ['a', ('b', 'c')]) FROM tickets", "['a', ('b', 'c')]", "all texts, or all pairs"),
    "a format that is not that of a text": ("SELECT AI.IF(FORMAT('%T', body)) FROM tickets", "FORMAT('%T', body)", "%T"),
    "a format without a value": ("SELECT AI.IF(FORMAT('a %s %s', body)) FROM tickets", "FORMAT('a %s %s', body)", "has no value"),
    "an example for nothing": ("SELECT AI.CLASSIFY(body, ['a', 'b'], examples => [('x', 'c')]) FROM tickets", "AI.CLASSIFY(body, ['a', 'b'], examples => [('x', 'c')])", "An example has"),
    "a script": ("SELECT 1 AS a; DECLARE x INT64 DEFAULT 1", "DECLARE", "has no counterpart in DuckDB"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_told_in_the_text_that_was_written(con: Connection, name: str) -> None:
    sql, underlined, reason = REFUSED[name]
    with pytest.raises(SqlError) as caught:
        con.sql(sql, dialect="bigquery")
    error = caught.value
    assert reason in str(error)
    assert error.sql == sql
    assert sql[error.position : error.end].startswith(underlined)
    assert con.report.asked == 0


def test_plumbing_is_warned_of_once_a_run(con: Connection, warned: list[str]) -> None:
    sql = "SELECT AI.IF((\"Is it 'beta'? \", body), connection_id => 'c', endpoint => 'e') AS b, AI.SCORE(('a', body)) AS s FROM tickets"
    con.sql(sql, dialect="bigquery")
    con.sql(sql, dialect="bigquery")
    assert sorted(warned) == [
        "AI.SCORE gives the probability that the answer is yes, from 0 to 1, and not a grade on the prompt's scale.",
        "Of AI.IF, connection_id, endpoint is ignored.",
    ]


def test_the_error_ratio_is_kept() -> None:
    with quail_engine.connect(engine="mock", mock_fail="x") as con:
        con.sql("CREATE TABLE many AS SELECT 'x' || i AS body FROM range(40) r(i)", dialect="duckdb")
        sql = "SELECT COUNT(AI.IF(('a', body){})) AS n FROM many"
        assert con.sql(sql.format(", max_error_ratio => 1.0"), dialect="bigquery").to_pylist() == [{"n": 0}]
        with pytest.raises(quail_engine.QuailError, match="failed"):
            con.sql(sql.format(""), dialect="bigquery")


def test_values_of_json_survive(con: Connection) -> None:
    rows, _ = run(con, "SELECT JSON_VALUE(tags, '$.labels[0]'), TO_JSON_STRING(tags) FROM tickets WHERE id = 1")
    assert rows[0][0] == "alpha"
    assert json.loads(rows[0][1]) == {"labels": ["alpha", "beta"]}
