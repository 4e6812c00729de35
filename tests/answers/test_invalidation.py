"""What makes a stored answer another one: the table in docs/answers.md, a test a row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import quail_engine
from quail_engine.engine.mock import MockEngine
from quail_engine.prompts.bytes import BytePrompter

JUDGE = "AI_FILTER(PROMPT('Is {0} urgent?', body))"
CHOOSE = "AI_CLASSIFY(body, ['calm', 'angry'])"
AROUND = "(select AI_FILTER(PROMPT('Is {0} urgent?', b)) from (select body as b))"
PAIR = "AI_FILTER(PROMPT('Does {0} match {1}?', body, 'word ' || id))"

# Row of the table → the call, the call after the change, and what else changes: attributes, or settings of the session.
Change = tuple[str, str, dict[tuple[type, str], Any], dict[str, Any]]
ASKED_AGAIN: dict[str, Change] = {
    "other weights": (JUDGE, JUDGE, {(MockEngine, "weights"): "mock/other"}, {}),
    "another precision class (fp8)": (JUDGE, JUDGE, {(MockEngine, "precision"): "fp8"}, {}),
    "a new layout of the model's profile": (JUDGE, JUDGE, {(BytePrompter, "layout"): "mock/2"}, {}),
    "a word of the template": (JUDGE, JUDGE.replace("urgent", "pressing"), {}, {}),
    "white space in the template": (JUDGE, JUDGE.replace("urgent", " urgent"), {}, {}),
    "a label": (CHOOSE, CHOOSE.replace("angry", "cross"), {}, {}),
    "the order of labels": (CHOOSE, CHOOSE.replace("'calm', 'angry'", "'angry', 'calm'"), {}, {}),
    "a label's description": (CHOOSE, CHOOSE.replace("'calm'", "{'label': 'calm', 'description': 'at ease'}"), {}, {}),
    "`instructions`": (JUDGE, JUDGE[:-1] + ", {'instructions': 'Be strict.'})", {}, {}),
    "`examples`": (CHOOSE, CHOOSE[:-1] + ", {'examples': [{'input': 'hm', 'answer': 'calm'}]})", {}, {}),
    "`output_mode`": (CHOOSE, CHOOSE[:-1] + ", {'output_mode': 'multi'})", {}, {}),
    "`anchor` of a pair": (PAIR, PAIR[:-1] + ", {'anchor': 1})", {}, {}),
    "a row's text": (JUDGE, JUDGE.replace("body", "body || '.'"), {}, {}),
}
NOTHING: dict[str, Change] = {
    "`threshold`": (JUDGE, JUDGE[:-1] + ", {'threshold': 0.9})", {}, {}),
    "AI_FILTER to AI_SCORE": (JUDGE, JUDGE.replace("FILTER", "SCORE"), {}, {}),
    "AI_CLASSIFY to AI_CLASSIFY_SCORES": (CHOOSE, CHOOSE.replace("CLASSIFY", "CLASSIFY_SCORES"), {}, {}),
    "`selectivity`, `order`": (JUDGE, JUDGE[:-1] + ", {'selectivity': 0.1, 'order': 'as_written'})", {}, {}),
    "`max_error_ratio`": (JUDGE, JUDGE[:-1] + ", {'max_error_ratio': 0.5})", {}, {}),
    "`on_overlong`, of rows that fit": (JUDGE, JUDGE[:-1] + ", {'on_overlong': 'truncate'})", {}, {}),
    "fp32, bf16 or fp16": (JUDGE, JUDGE, {(MockEngine, "dtype"): "bfloat16"}, {}),
    "`token_budget`, `cpu_threads`, `max_missing_per_round`": (JUDGE, JUDGE, {}, {"token_budget": 64, "cpu_threads": 1}),
    "the SQL around the call, its columns' and tables' names": (JUDGE, AROUND, {}, {}),
    "the order of rows": (JUDGE, JUDGE, {}, {}),
}


def ask(folder: Path, call: str, order: str = "id", **settings: Any) -> tuple[int, int]:
    """Requests and recalled answers for ten rows; a statement that recalls another's answers says so by these numbers."""
    with quail_engine.connect(engine="mock", answers=str(folder), **settings) as con:
        con.sql("create table t as select i as id, 'text ' || i as body from range(10) r(i)")
        con.sql(f"select {call} as a from t order by {order}")
        return con.report.asked, con.report.recalled


@pytest.mark.parametrize(("row", "asks"), [*((row, True) for row in ASKED_AGAIN), *((row, False) for row in NOTHING)])
def test_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str, asks: bool) -> None:
    before, after, attributes, settings = ASKED_AGAIN[row] if asks else NOTHING[row]
    assert ask(tmp_path, before) == (10, 0)
    for (owner, name), value in attributes.items():
        monkeypatch.setattr(owner, name, value)
    order = "id desc" if row == "the order of rows" else "id"
    assert ask(tmp_path, after, order, **settings) == ((10, 0) if asks else (0, 10))
    monkeypatch.undo()
    assert ask(tmp_path, before) == (0, 10)  # neither replaces the other


def test_the_table_is_the_documents() -> None:
    text = (Path(__file__).parents[2] / "docs" / "answers.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (.+?) \| (asked again|nothing) \|$", text, re.MULTILINE)
    assert table == [*((row, "asked again") for row in ASKED_AGAIN), *((row, "nothing") for row in NOTHING)]


def test_a_new_layout_says_how_many_answers_it_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(tmp_path, JUDGE) == (10, 0)
    quail_engine.answers.AnswerStore(quail_engine.Settings.of({"answers": str(tmp_path)}).answers, "mock").compact()
    assert ask(tmp_path, JUDGE.replace("body", "body || '!'")) == (10, 0)  # in a journal
    assert ask(tmp_path, CHOOSE) == (10, 0)
    monkeypatch.setattr(BytePrompter, "layout", "mock/3")
    said: list[str] = []
    session = quail_engine.Session(
        quail_engine.Settings.of({"engine": "mock", "answers": str(tmp_path)}), lambda event: said.append(str(event))
    )
    cursor = quail_engine.connect(engine="mock")._connection
    session.register(cursor)
    cursor.execute("create table t as select i as id, 'text ' || i as body from range(10) r(i)")
    for _ in range(2):
        session.execute(cursor, f"select {JUDGE} from t")
    session.execute(cursor, f"select {JUDGE.replace('body', 'body || 1')} from t")
    warnings = [text for text in said if "layout" in text]
    told = "mock: 20 stored answers to 'Is {0} urgent?' were given under an earlier layout than mock/3 and are not used"
    assert warnings == [f"{told}: what the rows need is asked again."]
    session.close()
