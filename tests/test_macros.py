"""The AI macros render the calls that the SQL contract promises."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import jinja2
import pytest

MACROS = Path(__file__).parents[1] / "macros"


class CompilerError(Exception):
    """What dbt's `exceptions.raise_compiler_error` raises, in its stead."""


def _fail(message: str) -> None:
    raise CompilerError(message)


def _renderer(adapter: str) -> Callable[[str], str]:
    """Renders a text as dbt would on `adapter`, with the few names of dbt's context that the macros use."""
    environment = jinja2.Environment(extensions=["jinja2.ext.do"], undefined=jinja2.StrictUndefined)
    macros: dict[str, Any] = {}

    def dispatch(name: str, namespace: str) -> Any:
        assert namespace == "dbt"
        return macros.get(f"{adapter}__{name}") or macros[f"default__{name}"]

    environment.globals.update(
        {
            "adapter": SimpleNamespace(dispatch=dispatch),
            "modules": SimpleNamespace(re=re),
            "exceptions": SimpleNamespace(raise_compiler_error=_fail),
            "return": lambda value: value,
        }
    )
    source = "".join(path.read_text(encoding="utf-8") for path in sorted(MACROS.glob("*.sql")))
    module = environment.from_string(source).module
    macros.update({name: value for name, value in vars(module).items() if not name.startswith("_")})
    return lambda text: environment.from_string(text).render(macros)


@pytest.fixture(scope="module")
def render() -> Callable[[str], str]:
    return _renderer("quail")


@pytest.mark.parametrize(
    ("written", "sql"),
    [
        ("ai_filter('Is it urgent?', 'body')", "AI_FILTER(PROMPT('Is it urgent? {0}', body))"),
        ("ai_filter('Is {0} urgent?', 'body')", "AI_FILTER(PROMPT('Is {0} urgent?', body))"),
        ("ai_filter('Do they agree?', 'a.x', 'b.y')", "AI_FILTER(PROMPT('Do they agree? {0} {1}', a.x, b.y))"),
        ("ai_filter('Is {1} in {0}?', 'a', 'left(b, 50)')", "AI_FILTER(PROMPT('Is {1} in {0}?', a, left(b, 50)))"),
        ("ai_filter('Is the moon up?')", "AI_FILTER(PROMPT('Is the moon up?'))"),
        (
            "ai_filter(\"Isn't it 'late'?\", 'body', options={'threshold': 0.6, 'symmetric': true, 'model': \"o'hara\"})",
            "AI_FILTER(PROMPT('Isn''t it ''late''? {0}', body), {'threshold': 0.6, 'symmetric': true, 'model': 'o''hara'})",
        ),
        ("ai_score('How angry?', 'body', options={})", "AI_SCORE(PROMPT('How angry? {0}', body))"),
        (
            "ai_join('Report {0} mentions reaction {1}', 'a.text', 'b.term', {'anchor': 1})",
            "AI_JOIN(PROMPT('Report {0} mentions reaction {1}', a.text, b.term), {'anchor': 1})",
        ),
        ("ai_join('Same thing?', 'a.x', 'b.y')", "AI_JOIN(PROMPT('Same thing? {0} {1}', a.x, b.y))"),
        ("ai_classify('body', ['good', \"can't say\"])", "AI_CLASSIFY(body, ['good', 'can''t say'])"),
        ("ai_classify('body', 'labels')", "AI_CLASSIFY(body, labels)"),
        (
            "ai_classify('body', [{'label': 'a', 'description': 'the first'}], {'output_mode': 'multi'})",
            "AI_CLASSIFY(body, [{'label': 'a', 'description': 'the first'}], {'output_mode': 'multi'})",
        ),
        ("ai_classify_scores('body', ('a', 'b'))", "AI_CLASSIFY_SCORES(body, ['a', 'b'])"),
        (
            "ai_filter('Good?', 'x', options={'examples': [{'input': 'fine', 'answer': true}, {'input': none}]})",
            "AI_FILTER(PROMPT('Good? {0}', x), {'examples': [{'input': 'fine', 'answer': true}, {'input': null}]})",
        ),
    ],
)
def test_a_macro_renders_its_call(render: Callable[[str], str], written: str, sql: str) -> None:
    assert render("{{ " + written + " }}") == sql


@pytest.mark.parametrize(
    ("question", "template"),
    [
        ("{{0}} is a brace", "{{0}} is a brace {0}"),  # escaped braces are no placeholder
        ("{{{0}}} in braces", "{{{0}}} in braces"),
        ('Is it {"json"}?', 'Is it {"json"}? {0}'),  # an error of the engine, which can point at it
    ],
)
def test_escaped_braces_are_no_placeholder(render: Callable[[str], str], question: str, template: str) -> None:
    text = "{{ ai_filter(question, 'body') }}"
    assert render("{% set question = " + repr(question) + " %}" + text) == f"AI_FILTER(PROMPT('{template}', body))"


def test_a_literal_is_read_back_by_duckdb(render: Callable[[str], str]) -> None:
    value = {"a": "it's", "b": [1, 2], "c": {"d": False, "e e": 0.5}, "f": None, "g": "\\ {0} \n ☂"}
    literal = render("{% set value = " + repr(value) + " %}{{ quail_literal(value) }}")
    row = duckdb.connect().execute(f"select {literal}").fetchone()
    assert row is not None
    assert row[0] == {**value, "c": {"d": False, "e e": row[0]["c"]["e e"]}}
    assert float(row[0]["c"]["e e"]) == 0.5


def test_an_unknown_keyword_is_refused(render: Callable[[str], str]) -> None:
    with pytest.raises(CompilerError, match="ai_filter has no argument 'treshold'"):
        render("{{ ai_filter('Good?', 'x', treshold=0.6) }}")


@pytest.mark.parametrize(
    "call",
    ["ai_filter('q', 'x')", "ai_score('q', 'x')", "ai_join('q', 'x', 'y')", "ai_classify('x', ['a', 'b'])"],
)
def test_another_adapter_is_told_what_to_do(call: str) -> None:
    with pytest.raises(CompilerError, match="type: quail"):
        _renderer("postgres")("{{ " + call + " }}")
