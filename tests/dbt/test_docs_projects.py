"""Pages whose examples make a dbt project: their files are written and their dbt commands run, as a reader would."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.cli.main import dbtRunner

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"(?:#|--) (\S+\.(?:yml|sql|csv|py))\n")

TICKETS = """ticket_id,body,is_paying
1,a billing question,true
2,where is a delivery,false
3,praise for a kettle,true
4,,true
"""
GOLD = """ticket_id,true_topic
1,billing
2,delivery
3,billing
"""


def blocks(page: str) -> Iterator[tuple[str, str]]:
    yield from _BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


def write_project(folder: Path, page: str) -> None:
    """The page's blocks that begin with the name of a file, as files."""
    for _, body in blocks(page):
        if named := _NAMED.match(body):
            path = folder / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body, encoding="utf-8")
    (folder / "dbt_project.yml").write_text("name: shop\nprofile: shop\nflags: {send_anonymous_usage_stats: false}\n")
    (folder / "seeds").mkdir(exist_ok=True)


def commands(page: str) -> list[str]:
    return [line for word, body in blocks(page) if word == "sh" for line in body.splitlines() if "dbt " in line]


def invoke(folder: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs one line such as `NAME=value dbt build --target ci` in the project; the result must be a success."""
    words = shlex.split(line, comments=True)
    at = words.index("dbt")
    with monkeypatch.context() as patch:
        for name, value in (word.split("=", 1) for word in words[:at]):
            patch.setenv(name, value)
        patch.setenv("DBT_LOG_PATH", str(folder / "logs"))
        patch.chdir(folder)
        result = dbtRunner().invoke([*words[at + 1 :], "--profiles-dir", str(folder), "--project-dir", str(folder)])
    assert result.success, (line, result.exception or [(r.node.name, r.status, r.message) for r in result.result])
    return result.result


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    here = os.getcwd()
    yield tmp_path
    os.chdir(here)  # dbt changes into the project


def test_the_project_of_testing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(folder, "testing.md")
    (folder / "seeds/tickets.csv").write_text(TICKETS)
    (folder / "seeds/gold_tickets.csv").write_text(GOLD)
    (folder / "models/topics_before.sql").write_text("select 1 as ticket_id, 'billing' as topic")
    lines = commands("testing.md")
    assert lines == ["dbt build --target ci", "dbt build --vars 'engine: mock'", "QUAIL_ENGINE=mock dbt build"]
    results = invoke(folder, lines[0], monkeypatch)
    asked = {result.node.name: result.adapter_response.get("asked") for result in results}
    kinds = {result.node.name.split("_ticket_topics")[0]: result.status.value for result in results}
    assert asked["only_paying_customers"] is None  # the macro is overridden: no call is left
    assert asked["topics_by_the_rules_of_the_mock"] == 1
    assert asked["ticket_topics"] == 3
    expected = dict.fromkeys(("ai_accuracy", "ai_no_errors", "ai_drift", "ai_confidence", "ai_assert"), "pass")
    assert {name: kinds[name] for name in expected} == expected
    for line in lines[1:]:  # target dev, whose engine a variable chooses; a part of it, to be quick
        names = {
            result.node.name
            for result in invoke(folder, f"{line} --select +ticket_topics --indirect-selection cautious", monkeypatch)
        }
        assert "ticket_topics" in names
        assert "topics_by_the_rules_of_the_mock" not in names


MAILS = """mail_id,sent_at,body
1,2026-01-01,a billing question
2,2026-01-02,where is my delivery
3,2026-01-03,
"""
PROFILE = "shop: {target: dev, outputs: {dev: {type: quail, path: dev.duckdb, quail: {engine: mock, mock_fail: where}}}}"


def test_the_incremental_models_of_dbt(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(folder, "dbt.md")
    (folder / "profiles.yml").write_text(PROFILE)
    mails = folder / "seeds" / "mails.csv"
    mails.write_text(MAILS)
    counts = []
    for later in ("", "4,2026-01-04,praise\n"):
        mails.write_text(MAILS + later)
        responses = {result.node.name: result.adapter_response for result in invoke(folder, "dbt build", monkeypatch)}
        counts.append({name: (responses[name]["asked"], responses[name]["failed"]) for name in ("mail_anger", "mail_topics")})
    # The NULL is never asked. Mail 2 fails, and comes again where rows without an answer are read again.
    assert counts == [{"mail_anger": (2, 1), "mail_topics": (2, 1)}, {"mail_anger": (1, 0), "mail_topics": (2, 1)}]


def test_the_ways_from_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(folder, "moving.md")
    (folder / "seeds/tickets.csv").write_text(TICKETS)
    (folder / "models/plain.sql").write_text("select count(*) as n from {{ ref('tickets') }}")
    invoke(folder, "dbt build --select +plain", monkeypatch)  # the page's own profile: one word changed, no model here
    (folder / "profiles.yml").write_text(PROFILE.replace(", mock_fail: where", ""))
    results = invoke(folder, "dbt build", monkeypatch)
    asked = {result.node.name: result.adapter_response.get("asked") for result in results}
    # The filter of three texts, and of the two that pass it two questions each.
    assert (asked["plain"], asked["from_snowflake"], asked["from_bigquery"]) == (None, 7, 7)


def test_the_model_of_macros(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(folder, "macros.md")
    (folder / "profiles.yml").write_text(PROFILE.replace(", mock_fail: where", ""))
    (folder / "seeds/tickets.csv").write_text(TICKETS)
    results = invoke(folder, "dbt build", monkeypatch)
    assert {result.node.name: result.adapter_response.get("asked") for result in results} == {"tickets": None, "routed": 7}
