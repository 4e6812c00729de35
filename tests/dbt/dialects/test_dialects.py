# ruff: noqa: E501
"""A vendor's SQL in dbt beside ours: which dialect a statement is in, and where mistakes are told."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture

VENDOR = "{{ config(materialized='table', quail_sql_dialect='%s') }}\n"
DOCS = "select unnest(['alpha beta', 'beta', 'gamma']) as body"
LABEL = "AI_CLASSIFY(body, ['alpha', 'beta']):labels[0]::varchar as label"
# Quotes, a backslash and a threshold, which a vendor has not; the examples in our own words.
MACROS = r"""
select
    {{ ai_classify('body', ['alpha', 'beta', "it's"], {'instructions': "It's \\'what'?", 'examples': [{'input': 'x', 'answer': 'beta'}]}) }} as label,
    {{ ai_filter("It's \\ 'beta'?", 'body', options={'threshold': 0.2}) }} as is_beta,
    {{ ai_score("It's \\ 'beta'?", 'body') }} > 0.9 as is_surely,
    {{ ai_sentiment('body') }} as sentiment"""
HOOKED = (
    "{{ config(materialized='table', quail_sql_dialect='snowflake', post_hook=\"create or replace table hooked as %s\") }}\n"
)
SCHEMA = """
models:
  - name: labelled
    columns:
      - name: label
        tests: [{accepted_values: {arguments: {values: [alpha, beta]}}}]
  - name: contracted
    config: {contract: {enforced: true}}
    columns: [{name: label, data_type: varchar}]
"""


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    return {
        "docs.sql": "{{ config(materialized='table') }} " + DOCS,
        "labelled.sql": VENDOR % "snowflake" + f"select {LABEL} from {{{{ ref('docs') }}}} where AI_FILTER('Is it ''beta''?', body)",
        "contracted.sql": VENDOR % "snowflake" + f"select {LABEL} from {{{{ ref('docs') }}}}",
        "viewed.sql": VENDOR.replace("'table'", "'view'") % "snowflake"
        + "select SNOWFLAKE.CORTEX.CLASSIFY_TEXT(body, ['alpha', 'beta']):label::text as label from {{ ref('docs') }}",
        "plain_view.sql": VENDOR.replace("'table'", "'view'") % "bigquery" + 'select if(body = "beta", 1, 0) as x from {{ ref("docs") }}',
        "passed_on.sql": VENDOR.replace("'table'", "'ephemeral'") % "snowflake" + "select body, iff(body = 'beta', 1, 0) as n from {{ ref('docs') }}",
        "reads_it.sql": VENDOR % "snowflake" + "select sum(n) as n from {{ ref('passed_on') }} where AI_FILTER('Is it ''beta''?', body)",
        "snow_macros.sql": VENDOR % "snowflake" + MACROS + ", array_size({{ ai_classify('body', ['alpha', 'beta'], {'output_mode': 'multi'}) }}) as n from {{ ref('docs') }}",
        "big_macros.sql": VENDOR % "bigquery" + MACROS + ", array_length({{ ai_classify('body', ['alpha', 'beta'], {'output_mode': 'multi'}) }}) as n from {{ ref('docs') }}",
        "brick_macros.sql": VENDOR % "databricks" + MACROS + ", size({{ ai_classify('body', ['alpha', 'beta'], {'output_mode': 'multi'}) }}) as n from {{ ref('docs') }}",
        "our_macros.sql": "{{ config(materialized='table') }}" + MACROS + ", len({{ ai_classify('body', ['alpha', 'beta'], {'output_mode': 'multi'}) }}) as n from {{ ref('docs') }}",
        "ours.sql": "{{ config(materialized='table') }} select AI_CLASSIFY(body, ['alpha', 'beta']) as label, [1, 2][1] as one from {{ ref('docs') }}",
        "hooked.sql": HOOKED % "select 1 as x" + "select iff(true, 1, 0) as x",
        "wrong.sql": VENDOR % "snowflake" + "select\n  AI_CLASSIFY(body, ['alpha']):labels[0] as label from {{ ref('docs') }}",
        "unknown.sql": VENDOR % "bigquery" + "select AI.GENERATE(body) as x from {{ ref('docs') }}",
        "asking_hook.sql": HOOKED % "select AI_FILTER('a') as x" + "select 1 as x",
        "schema.yml": SCHEMA,
    }  # fmt: skip


MACRO_MODELS = ("snow_macros", "big_macros", "brick_macros", "our_macros")
WRONG = ("wrong", "unknown", "asking_hook")


def test_dialects_side_by_side(project: Any) -> None:
    results = {result.node.name: result for result in run_dbt(["build", "--exclude", *WRONG, *MACRO_MODELS])}
    assert {result.status for result in results.values()} <= {"success", "pass"}

    def column(name: str, what: str = "label") -> list[Any]:
        return sorted((row[0] for row in project.run_sql(f"select {what} from {{schema}}.{name}", fetch="all")), key=repr)

    assert column("labelled") == ["alpha", "beta"]
    assert column("contracted") == column("viewed") == column("ours") == ["alpha", "beta", "beta"]
    assert column("plain_view", "x") == [0, 0, 1]
    assert column("reads_it", "n") == [1]
    assert column("ours", "one") == [1, 1, 1]
    asked = [result.adapter_response.get("asked") or 0 for result in results.values()]
    assert sum(asked) == 6  # three texts judged once, and classified once, by all models together
    assert run_dbt(["run", "--empty", "--select", "labelled"])[0].adapter_response.get("asked") in (None, 0)
    assert column("labelled") == []


def test_macros_mean_the_same_in_every_dialect(project: Any) -> None:
    run_dbt(["run", "--select", "docs"])
    asked = [result.adapter_response["asked"] for result in run_dbt(["run", "--select", *MACRO_MODELS, "--threads", "1"])]
    rows = [
        sorted(project.run_sql(f"select label, is_beta, is_surely, sentiment, n from {{schema}}.{name}", fetch="all"))
        for name in MACRO_MODELS
    ]
    assert rows == [rows[0]] * len(MACRO_MODELS)
    assert {("alpha", True, True, 2), ("beta", True, True, 1)} < {(*row[:3], row[4]) for row in rows[0]}
    assert sum(asked) == max(asked) == 12  # four questions about three texts, the same ones in every dialect


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("wrong", ["A choice needs two labels or more", "line 2:   AI_CLASSIFY(body, ['alpha']):labels[0] as label"]),
        ("unknown", ["AI.GENERATE writes or measures text", "^^^^^^^^^^^"]),
        ("asking_hook", ["is written in the SQL of snowflake", "move the call into a model of its own"]),
    ],
)
def test_a_mistake_is_told_in_the_models_own_text(project: Any, name: str, lines: list[str]) -> None:
    run_dbt(["run", "--select", "docs"])
    _, output = run_dbt_and_capture(["run", "--select", name], expect_pass=False)
    for line in lines:
        assert line in output


def test_show_takes_the_models_dialect(project: Any) -> None:
    run_dbt(["run", "--select", "docs"])
    shown = run_dbt(["show", "--select", "contracted", "--limit", "1"])
    assert [tuple(row) for row in shown.results[0].agate_table.rows] in ([("alpha",)], [("beta",)])
    ours = run_dbt(["show", "--inline", "select [1, 2][1] as one"])
    assert [tuple(row) for row in ours.results[0].agate_table.rows] == [(1,)]
