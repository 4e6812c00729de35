# ruff: noqa: E501 - a model is easier to read on one line
"""Labelled rows from a relation, in SQL and in a macro's options: what is rendered, what is asked, what a mistake says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt
from tickets import responses, rows

GOOD, BAD = "superb lovely", "dreadful boring"
_GOLD = """
select case when i % 2 = 0 then '{good} it''s film ' else '{bad} film ' end || i as body, i % 2 = 0 as is_good,
       case when i % 2 = 0 then 'good' else 'bad' end as verdict
from range(40) r(i)
union all select null, true, 'good' union all select 'no label', null, null
"""
_EXAMPLES = "ai_examples(ref('gold'), text='body', label='is_good')"
_ASKED = "select id, {call} as a, id % 2 = 0 as truth from {{{{ ref('reviews') }}}}"


class TestExamples:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "gold.sql": "{{ config(materialized='table') }}" + _GOLD.format(good=GOOD, bad=BAD),
            "reviews.sql": "{{ config(materialized='table') }}"
            f"select i as id, case when i % 2 = 0 then '{GOOD} play ' else '{BAD} play ' end || i as body from range(20) r(i)",
            "in_sql.sql": "{{ config(materialized='table') }} "
            + _ASKED.format(call=f"AI_FILTER('Is it good?', body, {{'examples': {{{{ {_EXAMPLES} }}}}}})"),
            "in_options.sql": "{{ config(materialized='table') }} "
            + _ASKED.format(call=f"{{{{ ai_filter('Is it good?', 'body', options={{'examples': {_EXAMPLES}}}) }}}}"),
            "labels.sql": "{{ config(materialized='table') }} "
            + _ASKED.format(
                call="{{ ai_classify('body', ['good', 'bad'], {'examples': ai_examples(ref('gold'), 'body', 'verdict', limit=32)}) }}"
            ),
            "pairs.sql": "{{ config(materialized='table') }} "
            + _ASKED.format(
                call="AI_FILTER(PROMPT('Is {0} {1}?', body, 'fine'), {'examples': {{ ai_examples(ref('gold'), text=['body', \"'fine'\"], label='is_good') }}})"
            ),
            "several.sql": "{{ config(materialized='table') }} "
            + _ASKED.format(
                call="{{ ai_classify('body', ['good', 'film'], {'output_mode': 'multi', 'examples': ai_examples(ref('gold'), 'body', \"case when is_good then ['good', 'film'] else ['film'] end\")}) }}"
            ),
            "without.sql": "{{ config(materialized='table', enabled=var('broken', false)) }} "
            + _ASKED.format(
                call="{{ ai_filter('q', 'body', options={'examples': ai_examples(ref('gold'), 'cast(null as varchar)', 'is_good')}) }}"
            ),
            "unit.yml": json.dumps(
                {
                    "unit_tests": [
                        {
                            "name": "in_sql_unit",
                            "model": "in_sql",
                            "given": [
                                {"input": "ref('reviews')", "rows": [{"id": 2, "body": "text"}]},
                                {"input": "ref('gold')", "rows": [{"body": "x", "is_good": True}]},
                            ],
                            "expect": {"rows": [{"id": 2, "truth": True}]},
                        }
                    ]
                }
            ),
        }

    def test_labelled_rows_of_a_relation(self, project: Any) -> None:
        first = responses(run_dbt(["run", "--select", "gold reviews in_sql"]))["in_sql"]
        assert first["asked"] == 40 + 20
        assert first["decided"][0].startswith("'Is it good? {0}': head fitted to 40 labelled rows")
        found = responses(run_dbt(["run", "--select", "in_options labels pairs several"]))
        assert found["in_options"]["asked"] == 0, "the same question with the same labelled rows"
        assert "32 labelled rows" in found["labels"]["decided"][0]
        assert found["pairs"]["asked"] == 40 + 20
        for model, right in (
            ("in_sql", "a"),
            ("in_options", "a"),
            ("labels", "a = 'good'"),
            ("pairs", "a"),
            ("several", "list_contains(a, 'good')"),
        ):
            assert rows(project, f"select count(*) from {{schema}}.{model} where ({right}) = truth") == [(20,)], model
        compiled = (Path(project.project_root) / "target" / "compiled" / "test" / "models" / "in_sql.sql").read_text()
        assert f"{{'input': ['{GOOD} it''s film 0'], 'answer': 'true'}},\n" in compiled
        assert "no label" not in compiled

    def test_what_reads_nothing(self, project: Any) -> None:
        run_dbt(["run", "--select", "gold reviews"])
        run_dbt(["run", "--empty", "--select", "in_sql"])
        assert rows(project, "select count(*) from {schema}.in_sql") == [(0,)]
        assert run_dbt(["test", "--select", "in_sql_unit"])[0].status == "pass"
        broken = run_dbt(["run", "--select", "without", "--vars", "{broken: true}"], expect_pass=False)[0]
        assert "has no row in which cast(null as varchar), is_good all have a value" in broken.message
