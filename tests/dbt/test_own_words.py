# ruff: noqa: E501 - a model is easier to read on one line
"""What dbt shows of a mistake in a model: the line of the model, not of the statement that dbt and the adapter made of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

TICKETS = "select i as id, 'text ' || i as body from range(5) r(i)"

# Model → its SQL, the line that is shown with what is underlined in it, and what is said.
MISTAKES = {
    "misspelled": (
        "{{ config(materialized='table') }}\nselect\n  id,\n  AI_FILTER('Is it ''late''?', bdy) as late\nfrom {{ ref('tickets') }}",
        ("  AI_FILTER('Is it ''late''?', bdy) as late", "bdy"),
        'Referenced column "bdy" not found',
    ),
    "unknown_in_cte": (
        "with asked as (\n  select id, AI_FILTER('q', body) as late\n  from {{ ref('tickets') }}\n)\nselect id, urgent\nfrom asked",
        ("select id, urgent", "urgent"),
        'Referenced column "urgent" not found',
    ),
    "incremental": (
        "{{ config(materialized='incremental', unique_key='id') }}\nselect id, AI_FILTER('q', body) as late\n"
        "from {{ ref('tickets') }} where numbr > 3",
        (None, "numbr"),
        'Referenced column "numbr" not found',
    ),
    "bad_cast": (
        "{{ config(materialized='table') }}\nselect id from {{ ref('tickets') }}\nwhere AI_FILTER('q', body)\n  and body::int > 3",
        ("  and body::int > 3", "::int"),
        "Could not convert string 'text 0'",
    ),
    "not_sql": (
        "{{ config(materialized='table') }}\nselect id,\n  AI_FILTER('q', body)\nfrm {{ ref('tickets') }}",
        (None, '"dev"'),
        "syntax error",
    ),
    "python": (
        "def model(dbt, session):\n    dbt.ref('tickets')\n"
        "    return session.sql(\"select 1 as a,\\n AI_FILTER('q', wrong) as b\\nfrom (select 'x' as body)\")\n",
        (" AI_FILTER('q', wrong) as b", "wrong"),
        'Referenced column "wrong" not found',
    ),
}


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    files = {f"{name}.{'py' if name == 'python' else 'sql'}": sql for name, (sql, _, _) in MISTAKES.items()}
    return {"tickets.sql": "{{ config(materialized='table') }} " + TICKETS, **files}


def test_a_mistake_is_shown_in_the_models_own_lines(project: Any) -> None:
    run_dbt(["run"], expect_pass=False)
    results = json.loads((Path(project.project_root) / "target" / "run_results.json").read_text())["results"]
    message = {result["unique_id"].split(".")[-1]: result["message"] for result in results}
    for name, (_, (line, underlined), says) in MISTAKES.items():
        text = message[name]
        assert says in text, text
        assert "__quail" not in text, text
        lines = text.split("\n")  # a Python model's have a traceback before them
        at = max(number for number, part in enumerate(lines) if "^" in part and not part.strip(" ^"))
        shown, marks = lines[at - 1 : at + 1]
        start = marks.index("^")
        assert shown[start : start + marks.count("^")] == underlined, text
        if line is not None:
            assert shown.split(": ", 1)[1] == line, text
    assert not (Path(project.project_root) / "target" / "quail_run.jsonl").exists(), "something was asked"
