"""`quail doctor --dialect`: every AI call of a project's files, and whether it will run."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from quail_engine.cli import main
from quail_engine.sql.dialects import Finding, findings

MODEL = """{{ config(materialized='incremental',
          tags=['a']) }}
{# AI_COMPLETE('not a call') #}
select id, AI_CLASSIFY(body, ['a', 'b']):labels[0]::varchar as label,
    AI_COMPLETE('m', body) as text,
    AI_FILTER(PROMPT('x {1}', body)) as broken,
    SNOWFLAKE.CORTEX.CLASSIFY_TEXT(body, ['a', 'b']):label::text as old
from {{ ref('tickets') }}
{% if is_incremental() %} where id > (select max(id) from {{ this }}) and {{ ai_filter('x', 'body') }} {% endif %}
"""


def test_a_call_that_will_not_run_hides_no_other() -> None:
    found = findings(MODEL, "snowflake")
    assert [(f.line, f.name, f.problem[:16]) for f in found] == [
        (4, "AI_CLASSIFY", ""),
        (5, "AI_COMPLETE", "AI_COMPLETE writ"),
        (6, "AI_FILTER", "{1} has no argum"),
        (7, "SNOWFLAKE.CORTEX.CLASSIFY_TEXT", ""),
    ]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("select 1 from\n where AI.IF(('a ', b))", Finding(2, "AI.IF", "cannot be told; see below")),
        ("select 'AI.GENERATE(x)' as a", None),
        ("select AI.IF(('a ', AI.CLASSIFY(b, ['x'])))", Finding(1, "AI.IF", "")),
    ],
)
def test_texts_of_bigquery(text: str, finding: Finding | None) -> None:
    found = findings(text, "bigquery")
    assert (found[0] if found else None) == finding
    assert not found or found[-1].problem


def test_the_command_lists_the_calls_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "good.sql").write_text("select AI_FILTER(PROMPT('x {0}', body)) from {{ ref('t') }}")
    good = CliRunner().invoke(main, ["doctor", "--dialect", "snowflake", str(tmp_path)])
    assert (good.exit_code, good.output.splitlines()[-1]) == (0, "1 AI call in 1 file, none will not run")
    (tmp_path / "bad.sql").write_text(MODEL)
    bad = CliRunner().invoke(main, ["doctor", "--dialect", "snowflake", str(tmp_path)])
    assert (bad.exit_code, bad.output.splitlines()[-1]) == (1, "5 AI calls in 2 files, 2 will not run")
    assert f"{tmp_path}/deeper/good.sql:1  AI_FILTER  runs" in bad.output.splitlines()


def test_files_need_a_dialect(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["doctor", str(tmp_path)])
    assert result.exit_code == 2
    assert "--dialect" in result.output
