# ruff: noqa: E501
"""The AI macros, of the adapter and of the package: what they write on each adapter, and that it asks the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from dbt.tests.util import run_dbt
from dbt_common.exceptions import CompilationError
from rendering import LOCAL_PACKAGE, REPOSITORY, renderer, stand_in

import quail_engine
from quail_engine import Connection
from quail_engine.sql.dialects import transpile
from quail_engine.sql.options import KNOWN

Render = Callable[[str], str]
VENDORS = ("snowflake", "bigquery")


@pytest.fixture(scope="module")
def renderers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Render]]:
    with pytest.MonkeyPatch.context() as patch:
        made = {}
        for adapter in ("quail", *VENDORS, "duckdb"):
            folder = tmp_path_factory.mktemp(adapter)
            if adapter in VENDORS:
                stand_in(adapter, folder, patch)
            made[adapter] = renderer(adapter, folder, LOCAL_PACKAGE)
        yield made


@pytest.fixture
def con() -> Iterator[Connection]:
    with quail_engine.connect(engine="mock") as connection:
        connection.sql("create table tickets as select * from (values (1, 'alpha beta'), (2, 'beta'), (3, null)) v(id, body)")
        yield connection


def call(render: Render, written: str, package: str = "dbt_quail.") -> str:
    return render("{{ " + package + written + " }}")


def table(first: str) -> list[list[str]]:
    """The rows of the page's table that begins with that heading, as the code in their cells."""
    page = (REPOSITORY / "docs" / "macros.md").read_text(encoding="utf-8")
    rows = page.split(f"| {first} |", 1)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in row.strip("| ").split(" | ")] for row in rows]


TABLE = table("macro | dbt-quail | dbt-snowflake | dbt-bigquery")


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_the_table_of_the_page(renderers: dict[str, Render], row: list[str]) -> None:
    written, ours, *theirs = row
    assert call(renderers["quail"], written, package="") == ours
    assert call(renderers["quail"], written) == ours
    for vendor, text in zip(VENDORS, theirs, strict=True):
        if text == "refused":
            with pytest.raises(CompilationError, match=r"has no counterpart of ai_\w+: .* Write dbt_quail\."):
                call(renderers[vendor], written)
        else:
            assert call(renderers[vendor], written) == text
            assert transpile(f"select {text} as a from t as a, t as b", vendor).places  # parsed, and its call found


# More of what the adapter writes.
OURS = [
    ("ai_filter('Do they agree?', 'a.x', 'b.y')", "AI_FILTER(PROMPT('Do they agree? {0} {1}', a.x, b.y))"),
    ("ai_filter('Is {1} in {0}?', 'a', 'left(b, 50)')", "AI_FILTER(PROMPT('Is {1} in {0}?', a, left(b, 50)))"),
    ("ai_filter('Is the moon up?')", "AI_FILTER(PROMPT('Is the moon up?'))"),
    (
        "ai_filter(\"Isn't it 'late'?\", 'body', options={'threshold': 0.6, 'symmetric': true, 'model': \"o'hara\"})",
        "AI_FILTER(PROMPT('Isn''t it ''late''? {0}', body), {'threshold': 0.6, 'symmetric': true, 'model': 'o''hara'})",
    ),
    ("ai_score('How angry?', 'body', options={})", "AI_SCORE(PROMPT('How angry? {0}', body))"),
    ("ai_join('Same thing?', 'a.x', 'b.y', {'anchor': 1})", "AI_JOIN(PROMPT('Same thing? {0} {1}', a.x, b.y), {'anchor': 1})"),
    ("ai_classify('body', ['good', \"can't say\"])", "AI_CLASSIFY(body, ['good', 'can''t say'])"),
    ("ai_classify('body', 'labels')", "AI_CLASSIFY(body, labels)"),
    ("ai_classify_scores('body', ('a', 'b'))", "AI_CLASSIFY_SCORES(body, ['a', 'b'])"),
    (
        "ai_filter('Good?', 'x', options={'examples': [{'input': 'fine', 'answer': true}, {'input': none}]})",
        "AI_FILTER(PROMPT('Good? {0}', x), {'examples': [{'input': 'fine', 'answer': true}, {'input': null}]})",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("written", "sql"), OURS)
def test_the_adapter_writes_a_native_call(renderers: dict[str, Render], written: str, sql: str) -> None:
    assert call(renderers["quail"], written, package="") == sql
    assert call(renderers["quail"], written) == sql


BRACES = [
    ("{{0}} is a brace", "{{0}} is a brace {0}"),  # escaped braces are no placeholder
    ("{{{0}}} in braces", "{{{0}}} in braces"),
    ('Is it {"json"}?', 'Is it {"json"}? {0}'),  # an error of the engine, which can point at it
]


@pytest.mark.parametrize(("question", "template"), BRACES)
def test_escaped_braces_are_no_placeholder(renderers: dict[str, Render], question: str, template: str) -> None:
    written = "{% set question = " + repr(question) + " %}{{ ai_filter(question, 'body') }}"
    assert renderers["quail"](written) == f"AI_FILTER(PROMPT('{template}', body))"


# More of what the package writes on the vendors: Snowflake's text, then BigQuery's; a pattern of the error where it begins with "!".
THEIRS = [
    ("ai_filter('Is the moon up?')", "AI_FILTER('Is the moon up?')", "AI.IF('Is the moon up?')"),
    ("ai_filter('{0}', 'body')", "AI_FILTER(PROMPT('{0}', body))", "AI.IF(body)"),
    ("ai_filter('Is {1} in {0}? {1}', 'a', 'left(b, 5)')", "AI_FILTER(PROMPT('Is {1} in {0}? {1}', a, left(b, 5)))", "AI.IF(('Is ', left(b, 5), ' in ', a, '? ', left(b, 5)))"),
    ("ai_filter('Do they agree?', 'a.x', 'b.y')", "AI_FILTER(PROMPT('Do they agree? {0} {1}', a.x, b.y))", "AI.IF(('Do they agree? ', a.x, ' ', b.y))"),
    ("ai_filter('It\\'s \\\\d', 'x')", "AI_FILTER(PROMPT('It\\'s \\\\d {0}', x))", "AI.IF(('It\\'s \\\\d ', x))"),
    ("ai_filter('A\\nB', 'x')", "AI_FILTER(PROMPT('A\\nB {0}', x))", "AI.IF(('A\\nB ', x))"),
    ("ai_filter('{' ~ '{0}' ~ '}?', 'x')", "AI_FILTER(CONCAT('{0}? ', x))", "AI.IF(('{0}? ', x))"),
    (
        "ai_filter('Good?', 'x', options={'threshold': 0.6, 'model': 'm', 'instructions': 'Be {strict}.', 'max_error_ratio': 0.1})",
        "AI_FILTER(CONCAT('Be {strict}. Good? ', x))", "AI.IF(('Be {strict}. Good? ', x), max_error_ratio => 0.1)",
    ),
    ("ai_filter('Good?', 'x', options={'examples': [{'input': ['y'], 'answer': true}]})", "!AI_FILTER of Snowflake cannot be given 'examples'", "AI.IF(('Good? ', x), examples => [('y', TRUE)])"),
    ("ai_join('Same?', 'x', 'y', {'examples': [{'input': ['y', 'z'], 'answer': true}]})", "!AI_FILTER of Snowflake cannot be given 'examples'", "!An example of BigQuery is about one text, not 2"),
    ("ai_join('Same?', 'x', 'y', {'symmetric': true})", "AI_FILTER(PROMPT('Same? {0} {1}', x, y))", "AI.IF(('Same? ', x, ' ', y))"),
    ("ai_classify('x', 'labels')", "AI_CLASSIFY(x, labels):labels[0]::varchar", "AI.CLASSIFY(x, categories => labels)"),
    (
        "ai_classify('x', ['a', 'b'], {'instructions': 'Which?', 'examples': [{'input': 'y', 'answer': 'a'}], 'threshold': 0.2})",
        "AI_CLASSIFY(x, ['a', 'b'], {'task_description': 'Which?', 'examples': [{'input': 'y', 'labels': ['a'], 'explanation': 'labelled by hand'}]}):labels[0]::varchar",
        "AI.CLASSIFY(('Which? ', x), categories => ['a', 'b'], examples => [('y', 'a')])",
    ),
    (
        "ai_classify('x', ['a', 'b'], {'output_mode': 'multi', 'examples': [{'input': 'y', 'answer': ['a', 'b']}]})",
        "AI_CLASSIFY(x, ['a', 'b'], {'output_mode': 'multi', 'examples': [{'input': 'y', 'labels': ['a', 'b'], 'explanation': 'labelled by hand'}]}):labels::array",
        "AI.CLASSIFY(x, categories => ['a', 'b'], examples => [('y', ['a', 'b'])], output_mode => 'multi')",
    ),
    ("ai_sentiment('x', {'instructions': 'Of the price.'})", "!AI_SENTIMENT of Snowflake cannot be given 'instructions'", "AI.CLASSIFY(('Of the price. ', x), categories => ['positive', 'negative', 'neutral', 'mixed', 'unknown'])"),
    ("ai_score('How?', 'x', options={'examples': [{'input': 'y', 'answer': true}]})", "!Snowflake has no counterpart of ai_score", "!AI.SCORE of BigQuery cannot be given 'examples'"),
    ("ai_filter('Good?', 'x', treshold=0.6)", "!ai_filter has no argument 'treshold'", "!ai_filter has no argument 'treshold'"),
    ("ai_classify('x', ['a', 'b'], {'treshold': 1})", "!ai_classify has no option treshold. Known options: threshold", "!ai_classify has no option treshold. Known"),
    ("ai_filter('Is {1} good?', 'x')", "!has {1}, and 1 columns follow it", "!has {1}, and 1 columns follow it"),
    ("ai_filter('Is it {good}?', 'x')", "!a single { in the question", "!a single { in the question"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(VENDORS)), ids=VENDORS)
@pytest.mark.parametrize("case", THEIRS, ids=[case[0] for case in THEIRS])
def test_the_package_writes_the_vendors_calls(renderers: dict[str, Render], case: tuple[str, str, str], number: int) -> None:
    written, expected = case[0], case[1 + number]
    if expected.startswith("!"):
        with pytest.raises(CompilationError) as raised:
            call(renderers[VENDORS[number]], written)
        assert expected[1:] in str(raised.value)
    else:
        assert call(renderers[VENDORS[number]], written) == expected
        assert transpile(f"select {expected} from a, b", VENDORS[number]).places


@pytest.mark.parametrize("written", [row[0] for row in TABLE])
def test_another_adapter_is_told_what_to_do(renderers: dict[str, Render], written: str) -> None:
    with pytest.raises(CompilationError, match=r"this target is of type duckdb. Set type: quail"):
        call(renderers["duckdb"], written)


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_package_knows_the_options_of_the_functions(renderers: dict[str, Render], vendor: str) -> None:
    with pytest.raises(CompilationError) as raised:
        call(renderers[vendor], "ai_filter('q', 'x', options={'other': 1})")
    assert f"Known options: {', '.join(KNOWN)}." in str(raised.value)


@pytest.mark.parametrize("package", ["", "dbt_quail."])
def test_an_unknown_keyword_is_refused(renderers: dict[str, Render], package: str) -> None:
    with pytest.raises(CompilationError, match="ai_filter has no argument 'treshold'"):
        call(renderers["quail"], "ai_filter('Good?', 'x', treshold=0.6)", package)


# What gives the same rows on all three, and whether the vendor's text asks the same question, so that nothing is asked again.
SAME = [
    ("ai_filter(\"Is it 'beta'?\", 'body')", {"snowflake": True, "bigquery": True}),
    ("ai_filter(\"Is it 'beta', {\" ~ \"{a \\\\ b}\" ~ \"}? {0}!\", 'body')", {"snowflake": True, "bigquery": True}),
    ("ai_join('{0} shares {1}', 'body', \"replace(body, 'beta', 'alpha')\")", {"snowflake": True, "bigquery": True}),
    ("ai_score(\"Is it 'beta'?\", 'body')", {"bigquery": False}),
    ("ai_classify('body', ['alpha', 'beta'])", {"snowflake": True, "bigquery": True}),
    ("ai_classify('body', ['beta', 'alpha'], {'instructions': \"What's it?\"})", {"snowflake": True, "bigquery": False}),
    ("ai_classify('body', [{'label': 'alpha', 'description': \"it's first\"}, {'label': 'beta', 'description': 'next'}])", {"snowflake": True, "bigquery": True}),
    ("ai_classify('body', ['alpha', 'beta'], {'examples': [{'input': 'x', 'answer': 'beta'}]})", {"snowflake": True, "bigquery": True}),
    ("ai_classify('body', ['alpha', 'beta'], {'output_mode': 'multi'})", {"snowflake": True, "bigquery": True}),
    ("ai_sentiment(\"replace(replace(body, 'alpha', 'positive'), 'beta', 'negative')\")", {"snowflake": True, "bigquery": False}),
]  # fmt: skip


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(("written", "same"), SAME, ids=[written for written, _ in SAME])
def test_the_vendors_text_gives_the_rows_of_ours(
    renderers: dict[str, Render], con: Connection, written: str, same: dict[str, bool], vendor: str
) -> None:
    if vendor not in same:
        with pytest.raises(CompilationError, match="has no counterpart"):
            call(renderers[vendor], written)
        return

    def rows(text: str, dialect: str) -> tuple[list[Any], int]:
        found, report = con.sql(f"select {text} as a from tickets order by id", dialect=dialect, report=True)
        values = found.column("a").to_pylist()
        return [json.loads(v) if isinstance(v, str) and v.startswith("[") else v for v in values], report.asked

    ours, asked = rows(call(renderers["quail"], written), "duckdb")
    theirs, asked_again = rows(call(renderers[vendor], written), vendor)
    assert theirs == ours
    assert ours[2] is None
    assert (asked, asked_again) == (2, 0 if same[vendor] else 2)


class TestInstalledPackage:
    """The package in a project on this adapter: the macros with and without its name are the same, in a project's own tests too."""

    @pytest.fixture(scope="class")
    def packages(self) -> str:
        return LOCAL_PACKAGE

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        condition = "{% test is_beta(model, column_name) %} select * from {{ model }} where not {{ dbt_quail.ai_filter(\"Is it 'beta'?\", column_name) }} {% endtest %}"
        return {"is_beta.sql": condition}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        filtered = "{{ config(materialized='table') }} select * from (values ('alpha beta'), ('beta'), ('gamma')) v(body) where {{ %sai_filter(\"Is it 'beta'?\", 'body') }}"
        return {
            "with_its_name.sql": filtered % "dbt_quail.",
            "without.sql": filtered % "",
            "schema.yml": "models: [{name: without, columns: [{name: body, tests: [is_beta, {ai_assert: {arguments: {question: Is it 'beta'?}}}]}]}]",
        }

    def test_it_shadows_nothing(self, project: Any) -> None:
        run_dbt(["deps"])
        built = run_dbt(["build"])
        asked = sorted((result.node.name.split("_body")[0], result.adapter_response.get("asked", 0)) for result in built)
        assert [name for name, _ in asked] == ["ai_assert_without", "is_beta_without", "with_its_name", "without"]
        assert sum(count for _, count in asked) == 3  # one question about three texts, whoever asks it
        for name in ("with_its_name", "without"):
            (bodies,) = project.run_sql(f"select list(body order by body) from {{schema}}.{name}", fetch="one")
            assert bodies == ["alpha beta", "beta"]
