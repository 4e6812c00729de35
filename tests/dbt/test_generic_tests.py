"""The generic tests that come with the adapter: what fails, with which rows, what a run logs, and what it asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from quail_engine.quality.accuracy import wilson

Lines = Callable[[str], list[dict[str, Any]]]

# Ticket 6 has no answer and ticket 7 no gold; 8 has gold, and no row among the answers.
ANSWERS = """id,part,body,topic,urgency
1,1,one two,billing,0.9
2,1,two,billing,0.8
3,1,two,praise,0.55
4,1,four,praise,0.1
5,2,,delivery,
6,2,six,,0.5
7,2,seven is long,billing,1
"""
GOLD = """id,part,topic,label
1,1,billing,billing
2,1,billing,billing
3,1,billing,billing
4,1,praise,praise
5,2,delivery,delivery
6,2,billing,
7,2,,
8,2,billing,billing
"""
EARLIER = """id,part,topic
1,1,billing
2,1,praise
3,1,praise
4,1,praise
6,2,
9,9,praise
"""


def check(test: str, config: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    """A generic test as a project's YAML holds it. Stored, so that the failing rows can be read."""
    named = {**arguments, "config": {"store_failures": True, **(config or {})}}
    name = named.pop("name")
    return {test: {"name": name, "arguments": named, "config": named.pop("config")}}


GOLD_TICKETS = "ref('gold')"
PROJECT = {
    "models": [
        {
            "name": "answers",
            "columns": [
                {
                    "name": "topic",
                    "data_tests": [
                        check("ai_accuracy", name="good_enough", gold=GOLD_TICKETS, on="id", at_least=0.6),
                        check("ai_accuracy", name="too_bad", gold=GOLD_TICKETS, key=["id", "part"], at_least=0.9),
                        check("ai_accuracy", name="other_column", gold=GOLD_TICKETS, key="id", at_least=1, gold_column="label"),
                        check(
                            "ai_accuracy",
                            name="some_rows",
                            gold=GOLD_TICKETS,
                            key="id",
                            at_least=1,
                            config={"where": "id in (1, 2)"},
                        ),
                        check(
                            "ai_accuracy", name="no_rows", gold=GOLD_TICKETS, key="id", at_least=0, config={"where": "id = 7"}
                        ),
                        check("ai_no_errors", name="no_errors", inputs=["body"]),
                        check("ai_drift", name="little_drift", previous="ref('earlier')", on="id", at_most=0.2),
                        check("ai_drift", name="too_much_drift", previous="ref('earlier')", key=["id", "part"], at_most=0.1),
                        check(
                            "ai_drift",
                            name="no_common_key",
                            previous="ref('earlier')",
                            key="id",
                            at_most=1,
                            config={"where": "id = 7"},
                        ),
                        check("ai_drift", name="nothing_to_compare", previous="ref('empty')", key="id", at_most=0),
                        check("ai_drift", name="other_labels", previous="ref('earlier')", at_most=0.3),
                        check("ai_drift", name="like_labels", previous="ref('earlier')", at_most=0.5),
                        check("ai_drift", name="no_labels", previous="ref('empty')", at_most=0),
                    ],
                },
                {
                    "name": "urgency",
                    "data_tests": [
                        check("ai_confidence", name="sure_enough", at_least=0.8, share=0.6),
                        check("ai_confidence", name="unsure", at_least=0.8, share=0.7),
                    ],
                },
                {
                    "name": "body",
                    "data_tests": [check("ai_assert", name="asserted", question="Does it say 'two' or nothing?")],
                },
            ],
            "data_tests": [
                check(
                    "ai_confidence",
                    name="sure_call",
                    call="AI_CLASSIFY_SCORES(body, ['one', 'two', 'four'])",
                    at_least=0.95,
                    share=0.1,
                ),
                check(
                    "ai_assert",
                    name="asserted_of_two",
                    question="Does {0} or {1} say 'seven'?",
                    columns=["body", "topic"],
                    options={"threshold": 0.9},
                    config={"where": "id = 7"},
                ),
            ],
        },
    ]
}


@pytest.fixture(scope="class")
def dbt_profile_target(dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
    return {**dbt_profile_target, "quail": {"engine": "mock", "mock_margin": {"seven": 1.0}}}


@pytest.fixture(scope="class")
def seeds() -> dict[str, str]:
    return {"raw_answers.csv": ANSWERS, "gold.csv": GOLD, "earlier.csv": EARLIER}


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    return {
        "answers.sql": "select * from {{ ref('raw_answers') }}",
        "empty.sql": "select * from {{ ref('earlier') }} where false",
        "schema.yml": yaml.safe_dump(PROJECT),
    }


@pytest.fixture(scope="class")
def project_config_update() -> dict[str, Any]:
    return {"flags": {"require_generic_test_arguments_property": True}}


@pytest.fixture(scope="class")
def built(project: Any) -> tuple[dict[str, Any], str]:
    """Each test's status, number of failures and response of a first `dbt build`, and what it printed."""
    results, output = run_dbt_and_capture(["build"], expect_pass=False)
    return {r.node.name: (r.status.value, r.failures, r.adapter_response) for r in results}, output


def failing(project: Any, name: str, columns: str = "*", order: str = "1") -> list[tuple[Any, ...]]:
    rows = project.run_sql(f"select {columns} from {{schema}}_dbt_test__audit.{name} order by {order}", fetch="all")
    return [tuple(row) for row in rows]


class TestGenericTests:
    @pytest.mark.parametrize(
        ("name", "failures"),
        [
            ("good_enough", 0),  # 4 of 6: NULL is wrong, a row without gold is not counted, nor is gold without a row
            ("too_bad", 2),
            ("other_column", 1),
            ("some_rows", 0),
            ("no_rows", 1),
            ("no_errors", 1),
            ("little_drift", 0),
            ("too_much_drift", 1),
            ("no_common_key", 1),
            ("nothing_to_compare", 0),
            ("other_labels", 4),
            ("like_labels", 0),
            ("no_labels", 0),
            ("sure_enough", 0),
            ("unsure", 2),
            ("asserted", 2),
            ("sure_call", 6),
            ("asserted_of_two", 1),
        ],
    )
    def test_failures(self, built: tuple[dict[str, Any], str], name: str, failures: int) -> None:
        status, found, _ = built[0][name]
        assert (status, found) == ("fail" if failures else "pass", failures)

    def test_disagreements_are_listed_with_their_interval(self, project: Any, built: Any) -> None:
        low, high = wilson(4, 6)
        rows = failing(project, "too_bad", "id, part, answer, gold, n, round(accuracy, 6), round(low, 6), round(high, 6)")
        assert rows == [
            (3, 1, "praise", "billing", 6, 0.666667, round(low, 6), round(high, 6)),
            (6, 2, None, "billing", 6, 0.666667, round(low, 6), round(high, 6)),
        ]
        assert failing(project, "other_column", "id, answer, gold, n, accuracy") == [(3, "praise", "billing", 5, 0.8)]
        assert failing(project, "no_rows", "id, n, accuracy") == [(None, 0, None)]

    def test_accuracy_and_drift_are_logged_also_when_they_pass(self, built: tuple[dict[str, Any], str]) -> None:
        low, high = wilson(4, 6)
        assert (
            f"ai_accuracy of answers.topic: accuracy 0.667 (95 %: {low:.3f} to {high:.3f}), n = 6, at least 0.6 is wanted"
            in built[1]
        )
        assert "ai_drift of answers.topic: 0.200 changed, n = 5, at most 0.2 is wanted" in built[1]
        assert built[1].count("ai_accuracy of") == 4  # of nothing there is nothing to say

    def test_other_failing_rows(self, project: Any, built: Any) -> None:
        assert failing(project, "no_errors", "id") == [(6,)]
        assert failing(project, "too_much_drift") == [(2, 1, "praise", "billing", 5, 0.2)]
        assert failing(project, "no_common_key") == [(None, None, None, 0, None)]
        labels = failing(project, "other_labels", "label, round(share_before, 3), round(share_now, 3), n, round(drift, 3)")
        assert labels == [
            ("billing", 0.167, 0.429, 7, 0.405),
            ("delivery", 0.0, 0.143, 7, 0.405),
            ("praise", 0.667, 0.286, 7, 0.405),
            (None, 0.167, 0.143, 7, 0.405),
        ]
        assert failing(project, "unsure", "id, ai_confidence, round(confident_share, 3)") == [(3, 0.55, 0.667), (6, 0.5, 0.667)]

    def test_what_is_asked_once_a_text_and_never_of_a_null(self, project: Any, built: Any) -> None:
        assert failing(project, "asserted", "id") == [(4,), (6,)]
        assert built[0]["asserted"][2]["asked"] == 5
        chosen = "id, list_filter(map_keys(ai_answer), lambda l: ai_answer[l] = ai_confidence)[1]"
        assert failing(project, "sure_call", chosen)[:4] == [(1, "one"), (2, "two"), (3, "two"), (4, "four")]

    def test_requests(self, built: Any, run_log: Lines) -> None:
        asked = {name: sum(line["asked"] for line in run_log(name)) for name in ("asserted", "sure_call", "asserted_of_two")}
        assert asked == {"asserted": 5, "sure_call": 5, "asserted_of_two": 1}
        assert not run_log("too_bad")
        assert not run_log("no_errors")

    def test_an_empty_build_passes(self, project: Any, built: Any) -> None:
        results = run_dbt(["build", "--empty"])
        assert {r.status.value for r in results} == {"pass", "success"}
        assert not [r.node.name for r in results if r.adapter_response.get("asked")]


WRONG: list[tuple[str, dict[str, Any], str]] = [
    (
        "ai_accuracy",
        {"key": "id", "at_least": 1},
        r"ai_accuracy needs the argument 'gold'\. Write under arguments: gold: ref\(",
    ),
    ("ai_accuracy", {"gold": GOLD_TICKETS, "key": "id", "at_least": 90}, "'at_least', a number from 0 to 1, not 90"),
    ("ai_confidence", {"at_least": 0.5, "share": 1}, "ai_confidence needs the argument 'call'"),
    ("ai_no_errors", {"column_name": "topic"}, r"'inputs'\. Write under arguments: inputs: \[ticket_text\]"),
    ("ai_assert", {"question": "Good?"}, "ai_assert needs the argument 'columns'"),
    ("ai_drift", {"column_name": "topic", "previous": GOLD_TICKETS}, "'at_most', a number from 0 to 1, not nothing"),
]


class TestWrongArguments:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"answers.sql": "select 1 as id, 'x' as topic"}

    def test_a_wrong_argument_is_told_while_dbt_parses(self, project: Any) -> None:
        for test, given, message in WRONG:
            arguments = {"column_name": "topic", **given} if test == "ai_accuracy" else given
            schema = {"models": [{"name": "answers", "data_tests": [{test: {"arguments": arguments}}]}]}
            write_file(yaml.safe_dump(schema), project.project_root, "models", "schema.yml")
            with pytest.raises(Exception, match=message):
                run_dbt(["parse"])
