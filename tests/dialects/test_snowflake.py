# ruff: noqa: E501
"""Snowflake's documented forms: each parses, plans, and gives the documented type and the mock's value; requests are counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

import quail_engine
from quail_engine import Connection, Session, Settings, SettingsError, SqlError

FAILED = "The text is NULL or too long, or its request failed; the command quail answers errors lists it."
BETA = r"PROMPT('Is it \'beta\'? {0}', body)"


def run(con: Connection, sql: str) -> tuple[list[Any], int]:
    """The rows (a value where there is one column) and the number of requests."""
    table, report = con.sql(sql, dialect="snowflake", report=True)
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return [row[0] if len(row) == 1 else row for row in rows], report.asked


LABEL = ["alpha", "beta", None, None]
TRUE = [True, True, None, None]
# What is written, its type, its value for tickets 1 to 4 in order. Ticket 3 fails, ticket 4 is NULL: three requests.
FORMS = {
    "filter of a prompt": (f"AI_FILTER({BETA})", "BOOLEAN", TRUE),
    "filter of a text": ("AI_FILTER('Is it ''beta''? ' || body)", "BOOLEAN", TRUE),
    "filter of CONCAT": ("AI_FILTER(CONCAT('Is it ''beta''? ', body))", "BOOLEAN", TRUE),
    "filter of a dollar-quoted text": (r"""AI_FILTER($$It's "alpha" \n? $$ || body)""", "BOOLEAN", [True, False, None, None]),
    "a column where Snowflake wants return_error_details": ("AI_FILTER('Is it ''alpha''?', body)", "BOOLEAN", [True, False, None, None]),
    "filter without details": (f"AI_FILTER({BETA}, FALSE)", "BOOLEAN", TRUE),
    "filter with details": (
        f"AI_FILTER({BETA}, TRUE)", "JSON",
        [{"value": True, "error": None}, {"value": True, "error": None}, {"value": None, "error": FAILED}, {"value": None, "error": FAILED}],
    ),
    "details by name": (f"AI_FILTER({BETA}, return_error_details => TRUE):value::boolean", "BOOLEAN", TRUE),
    "the error in the details": (f"AI_FILTER({BETA}, TRUE):error::varchar", "VARCHAR", [None, None, FAILED, FAILED]),
    "classify": ("AI_CLASSIFY(body, ['alpha', 'beta'])", "JSON", [{"labels": ["alpha"]}, {"labels": ["beta"]}, None, None]),
    "classify, the label": ("AI_CLASSIFY(body, ['alpha', 'beta']):labels[0]::VARCHAR", "VARCHAR", LABEL),
    "classify, the label as string": ("AI_CLASSIFY(body, ['alpha', 'beta']):labels[0]::string", "VARCHAR", LABEL),
    "classify, the label as a VARIANT": ("AI_CLASSIFY(body, ['alpha', 'beta']):labels[0]", "JSON", LABEL),
    "classify by brackets": ("AI_CLASSIFY(body, ['alpha', 'beta'])['labels'][0]::text", "VARCHAR", LABEL),
    "classify with a configuration": (
        "AI_CLASSIFY(body, ['alpha', 'beta'], {'task_description': 'route', 'output_mode': 'single'}):labels[0]::varchar", "VARCHAR", LABEL,
    ),
    "classify with several labels": (
        "AI_CLASSIFY(body, ['alpha', 'beta', 'gamma'], {'output_mode': 'multi'}):labels", "JSON", [["alpha", "beta"], ["beta"], None, None],
    ),
    "classify with constructed objects": (
        "AI_CLASSIFY(body, ARRAY_CONSTRUCT('alpha', 'beta'), OBJECT_CONSTRUCT('output_mode', 'multi')):labels", "JSON", [["alpha", "beta"], ["beta"], None, None],
    ),
    "classify with descriptions": ("AI_CLASSIFY(body, [{'label': 'alpha', 'description': 'the first'}, {'label': 'beta'}]):labels[0]::varchar", "VARCHAR", LABEL),
    "classify with examples": (
        "AI_CLASSIFY(body, ['alpha', 'beta'], {'examples': [{'input': 'x', 'labels': ['beta'], 'explanation': 'why'}]}):labels[0]::varchar", "VARCHAR", LABEL,
    ),
    "classify a prompt": ("AI_CLASSIFY(PROMPT('Which? {0}', body), ['alpha', 'beta']):labels[0]::varchar", "VARCHAR", LABEL),
    "categories of a column": ("AI_CLASSIFY(body, cats):labels[0]::varchar", "VARCHAR", LABEL),
    "classify with details": ("AI_CLASSIFY(body, ['alpha', 'beta'], TRUE):value:labels[0]::varchar", "VARCHAR", LABEL),
    "classify with a configuration and details": (
        "AI_CLASSIFY(body, ['alpha', 'beta'], {'task_description': 'x'}, return_error_details => TRUE):error::varchar", "VARCHAR", [None, None, FAILED, FAILED],
    ),
    "classify_text": ("SNOWFLAKE.CORTEX.CLASSIFY_TEXT(body, ['alpha', 'beta'])", "JSON", [{"label": "alpha"}, {"label": "beta"}, None, None]),
    "classify_text, the label": ("snowflake.cortex.classify_text(body, ['alpha', 'beta']):label::varchar", "VARCHAR", LABEL),
    "classify_text by brackets": ("SNOWFLAKE.CORTEX.CLASSIFY_TEXT(body, ['alpha', 'beta'])['label']::varchar", "VARCHAR", LABEL),
    "classify with examples of several labels": (
        "AI_CLASSIFY(body, ['alpha', 'beta'], {'output_mode': 'multi', 'examples': [{'input': 'x', 'labels': ['beta', 'alpha'], 'explanation': 'why'}]}):labels[0]::varchar", "VARCHAR", LABEL,
    ),
    "classify_text with examples and a task": (
        "SNOWFLAKE.CORTEX.CLASSIFY_TEXT(body, [{'label': 'alpha', 'examples': ['first', 'one']}, {'label': 'beta'}], {'task_description': 'x'}):label::varchar", "VARCHAR", LABEL,
    ),
    "IFF": (f"IFF(AI_FILTER({BETA}), 'yes', 'no')", "VARCHAR", ["yes", "yes", "no", "no"]),
    "a VARIANT compared": ("AI_CLASSIFY(body, ['alpha', 'beta']):labels[0] = 'beta'", "BOOLEAN", [False, True, None, None]),
    "a VARIANT in a list": ("AI_CLASSIFY(body, ['alpha', 'beta']):labels[0] IN ('beta', 'x')", "BOOLEAN", [False, True, None, None]),
    "a VARIANT put together": ("'is ' || (AI_CLASSIFY(body, ['alpha', 'beta']):labels[0])", "VARCHAR", ["is alpha", "is beta", None, None]),
    "an ARRAY": ("AI_CLASSIFY(body, ['alpha', 'beta'], {'output_mode': 'multi'}):labels::array", "JSON", [["alpha", "beta"], ["beta"], None, None]),
    "the size of an ARRAY": ("ARRAY_SIZE(AI_CLASSIFY(body, ['alpha', 'beta'], {'output_mode': 'multi'}):labels::array)", "UBIGINT", [2, 1, None, None]),
    "a VARIANT sought in an ARRAY": (
        "ARRAY_CONTAINS('alpha'::variant, AI_CLASSIFY(body, ['alpha', 'beta'], {'output_mode': 'multi'}):labels::array)", "BOOLEAN", [True, False, None, None],
    ),
    "an OBJECT": ("AI_CLASSIFY(body, ['alpha', 'beta'])::object:labels[0]::varchar", "VARCHAR", LABEL),
    "classify with our examples": (
        "AI_CLASSIFY(body, ['alpha', 'beta'], {'examples': [{'input': 'x', 'answer': 'beta'}], 'instructions': 'it\\'s'}):labels[0]::varchar", "VARCHAR", LABEL,
    ),
    "the size of a VARIANT": ("ARRAY_SIZE(AI_CLASSIFY(body, ['alpha', 'beta'], {'output_mode': 'multi'}):labels)", "UBIGINT", [2, 1, None, None]),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_documented_form(con: Connection, form: str) -> None:
    written, kind, values = FORMS[form]
    rows, asked = run(con, f"SELECT {written}, typeof({written}) FROM tickets ORDER BY id")
    assert [json.loads(value) if kind == "JSON" and value is not None else value for value, _ in rows] == values
    assert {found for _, found in rows} == {kind}
    assert asked == 3


STATEMENTS = {
    "FLATTEN of labels": (
        "SELECT t.id, f.value::varchar, f.index FROM tickets t, LATERAL FLATTEN(input => AI_CLASSIFY(t.body, ['alpha', 'beta'], {'output_mode': 'multi'}):labels) f ORDER BY 1, 3",
        [(1, "alpha", 0), (1, "beta", 1), (2, "beta", 0)], 3,
    ),
    "outer FLATTEN of a column": (
        "SELECT t.id, f.value::string AS tag FROM tickets t, LATERAL FLATTEN(input => t.tags:labels, outer => TRUE) AS f WHERE AI_FILTER('Is it ''beta''?', t.body) IS NULL ORDER BY 1",
        [(3, None), (4, None)], 3,
    ),
    "TABLE(FLATTEN) of an array": ("SELECT count(*), min(f.path), min(f.this[0]) FROM tickets t, TABLE(FLATTEN(t.cats)) f WHERE f.value = 'alpha'", [(3, "[0]", "alpha")], 0),
    "FLATTEN of an object": ("SELECT f.key, f.value::int FROM tickets t, LATERAL FLATTEN(input => PARSE_JSON('{\"a\": 1, \"b\": 2}')) f WHERE t.id = 1 ORDER BY 1", [("a", 1), ("b", 2)], 0),
    "QUALIFY, of the rows that it leaves": (
        f"SELECT id, AI_FILTER({BETA}) FROM tickets QUALIFY ROW_NUMBER() OVER (PARTITION BY region ORDER BY id) = 1 ORDER BY id", [(1, True), (3, None)], 2,
    ),
    "a filter of the rows that WHERE leaves": (f"SELECT id FROM tickets WHERE id <= 2 AND AI_FILTER({BETA}) ORDER BY id", [1, 2], 2),
    "an AI join": (
        "SELECT a.id, b.id AS other FROM tickets a JOIN tickets b ON a.region = b.region AND a.id < b.id AND AI_FILTER(PROMPT('{0} shares {1}', a.body, b.body))", [(1, 2)], 1,
    ),
    "a count by an answer": (f"SELECT AI_FILTER({BETA}) AS is_beta, COUNT(*) FROM tickets GROUP BY 1 ORDER BY 1", [(True, 2), (None, 2)], 3),
    "an ARRAY of a column": ("SELECT id, x[1]::varchar FROM (SELECT id, cats::array AS x FROM tickets) WHERE array_contains('gamma'::variant, x)", [(3, "gamma")], 0),
    "elements of a list and of JSON": (
        "SELECT cats[1], cats[1]::varchar, tags['labels'][1]::varchar, x[0]::varchar, x[0] = 'alpha' FROM (SELECT *, PARSE_JSON('[\"alpha\"]') AS x FROM tickets) WHERE id = 1",
        [("beta", "beta", "beta", "alpha", True)], 0,
    ),
    "the size of a list and of JSON": ("SELECT ARRAY_SIZE(cats), ARRAY_SIZE(x) FROM (SELECT cats, tags:labels AS x FROM tickets WHERE id < 3) ORDER BY 2", [(2, 1), (2, 2)], 0),
    "an object through a CTE": (
        "WITH c AS (SELECT id, AI_CLASSIFY(body, ['alpha', 'beta']) AS answer FROM tickets) SELECT id, answer:labels[0]::varchar FROM c WHERE answer:labels[0] = 'beta'", [(2, "beta")], 3,
    ),
    "a VARIANT through a CTE": (
        "WITH c AS (SELECT id, AI_CLASSIFY(body, ['alpha', 'beta']):labels[0] AS label FROM tickets) SELECT id, label::varchar FROM c WHERE label = 'beta'", [(2, "beta")], 3,
    ),
    "a VARIANT asked about": (r"SELECT id FROM tickets WHERE AI_FILTER(PROMPT('Is it \'alpha\'? {0}', tags:labels[0]))", [1], 2),
    "a column that may be a VARIANT": ("SELECT tags::varchar, region::varchar, id::varchar FROM tickets WHERE id = 2", [('{"labels":["beta"]}', "north", "2")], 0),
    "a VARIANT as a number": ("SELECT n::int FROM (SELECT PARSE_JSON('{\"n\": 5}'):n AS n) WHERE n > 4 AND n < 6", [5], 0),
    "NULLs where Snowflake puts them": ("SELECT id FROM tickets ORDER BY body DESC", [4, 2, 1, 3], 0),
    "several statements": (f"CREATE TABLE answered AS SELECT id, AI_FILTER({BETA}) AS is_beta FROM tickets; SELECT COUNT_IF(is_beta) FROM answered", [2], 3),
}  # fmt: skip


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement(con: Connection, name: str) -> None:
    sql, expected, requests = STATEMENTS[name]
    assert run(con, sql) == (expected, requests)


def test_a_sentiment_is_a_classification_over_five_labels(con: Connection) -> None:
    con.sql("CREATE TABLE said AS SELECT * FROM (VALUES ('so positive'), ('mixed'), (NULL)) v(x)", dialect="duckdb")
    rows, asked = run(con, "SELECT AI_SENTIMENT(x, ['price']), AI_SENTIMENT(x):categories[0]:sentiment::varchar FROM said")
    found = [(json.loads(whole)["categories"] if whole else None, overall) for whole, overall in rows]
    assert [overall for _, overall in found] == ["positive", "mixed", None]
    assert found[0][0] == [{"name": "overall", "sentiment": "positive"}, {"name": "price", "sentiment": "positive"}]
    assert found[2][0] is None
    assert asked == 4  # two texts, overall and price; the second overall is the first


def test_a_column_without_a_name_has_its_text(con: Connection) -> None:
    table = con.sql(
        "SELECT id, id::varchar, AI_CLASSIFY(body, ['alpha', 'beta']):labels[0]::text FROM tickets", dialect="snowflake"
    )
    assert table.column_names == ["id", "id::varchar", "AI_CLASSIFY(body, ['alpha', 'beta']):labels[0]::text"]


REFUSED = {
    "a generative function": ("SELECT AI_COMPLETE('m', body) FROM tickets", "AI_COMPLETE", "writes or measures text"),
    "its old name": ("SELECT SNOWFLAKE.CORTEX.SENTIMENT(body) FROM tickets", "SNOWFLAKE.CORTEX.SENTIMENT", "writes or measures text"),
    "a placeholder without an argument": ("SELECT 1 AS a, AI_FILTER(PROMPT('x {1}', body)) FROM tickets", "AI_FILTER(PROMPT('x {1}', body))", "{1} has no argument"),
    "a template that is no constant": ("SELECT AI_FILTER(PROMPT(body)) FROM tickets", "body", "constant text"),
    "one label": ("SELECT AI_CLASSIFY(body, ['a']) FROM tickets", "AI_CLASSIFY(body, ['a'])", "two labels or more"),
    "an unknown key": ("SELECT AI_CLASSIFY(body, ['a', 'b'], {'foo': 1}) FROM tickets", "AI_CLASSIFY(body, ['a', 'b'], {'foo': 1})", "'foo'"),
    "details that are no constant": ("SELECT AI_FILTER(body, id) FROM tickets", "id", "return_error_details"),
    "an argument too many": ("SELECT AI_FILTER(body, TRUE, id) FROM tickets", "id", "takes fewer arguments"),
    "an argument by another name": ("SELECT AI_FILTER(body, details => TRUE) FROM tickets", "details => TRUE", "'details'"),
    "what DuckDB lacks": ("SELECT id, PARSE_URL(body) FROM tickets", "PARSE_URL(body)", "PARSE_URL"),
    "a stage": ("SELECT 1 FROM @stage/x", "@stage/x", "stage"),
    "recursive FLATTEN": ("SELECT 1 FROM tickets t, LATERAL FLATTEN(input => t.cats, recursive => TRUE) f", "LATERAL FLATTEN(input => t.cats, recursive => TRUE) f", "recursive"),
    "MATCH_RECOGNIZE": ("SELECT id FROM tickets MATCH_RECOGNIZE (PATTERN (a) DEFINE a AS id > 1)", "a AS id > 1", "MATCH_RECOGNIZE"),
    "a statement about the session": ("ALTER SESSION SET x = 1", "ALTER", "ALTER"),
    "text that does not parse": ("SELECT id FROM WHERE x", "WHERE", "SQL of snowflake"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_told_in_the_text_that_was_written(con: Connection, name: str) -> None:
    sql, underlined, reason = REFUSED[name]
    with pytest.raises(SqlError) as caught:
        con.sql(sql, dialect="snowflake")
    error = caught.value
    assert reason in str(error)
    assert error.sql == sql
    assert sql[error.position : error.end] == underlined
    assert con.report.asked == 0


def test_what_is_ignored_is_warned_of_once_a_run(con: Connection, warned: list[str]) -> None:
    sql = "SELECT AI_CLASSIFY(body, ['a', 'b'], {'examples': [{'input': 'x', 'labels': ['b'], 'explanation': 'why'}]}) FROM tickets"
    con.sql(sql, dialect="snowflake")
    con.sql(sql, dialect="snowflake")
    assert [text for text in warned if "explanation" in text] == ["The explanation of an example of AI_CLASSIFY is ignored."]


def test_the_setting_names_the_dialect_of_all_statements() -> None:
    with quail_engine.connect(engine="mock", sql_dialect="snowflake") as con:
        assert con.sql("SELECT IFF(1 = 1, 'a', 'b') AS x").to_pylist() == [{"x": "a"}]
        assert con.sql("SELECT [1, 2][1] AS first", dialect="duckdb").to_pylist() == [{"first": 1}]
        assert "AI_FILTER" in con.explain("SELECT AI_FILTER(PROMPT('a {0}', x)) FROM (SELECT 'b' AS x)")


def test_a_dialect_that_is_not_built_is_refused(con: Connection) -> None:
    with pytest.raises(SettingsError, match="there are duckdb, snowflake, bigquery, databricks"):
        con.sql("SELECT 1", dialect="oracle")
    with pytest.raises(SettingsError):
        Session(Settings.of({"engine": "mock", "sql_dialect": "oracle"}))
