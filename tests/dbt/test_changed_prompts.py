"""Incremental models whose prompts change: what is said, what is asked, and which rows keep which answers.

Few runs of dbt, each of several models: a run takes a second. What makes two prompts different is in test_fingerprints.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt_and_capture

TICKETS = "select i as id, 'text ' || i as body from range(1, {{ env_var('UPTO', '4') }} + 1) as r(i)"
LATER = "{% if is_incremental() %} where id > (select max(id) from {{ this }}) {% endif %}"


def call(model: str) -> str:
    """A question of the model's own, so that no other model answers it."""
    return "AI_FILTER(PROMPT('" + model + " has {0}: does it say ''{{ env_var(\"WORD\", \"text\") }}''?', body))"


def incremental(name: str, answer: str, of: str = "tickets", later: str = LATER, **config: Any) -> str:
    settings = {"materialized": "incremental", "unique_key": "id", **config}
    configured = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    return f"{{{{ config({configured}) }}}} select id, {answer} as answer from {{{{ ref('{of}') }}}} {later}"


MODELS = {
    "tickets.sql": TICKETS,
    "warned.sql": incremental("warned", call("warned")),
    "strict.sql": incremental("strict", call("strict"), meta={"quail_on_prompt_change": "error"}),
    "judged.sql": "{{ config(materialized='ephemeral') }} select id, " + call("anew") + " as judged from {{ ref('tickets') }}",
    "anew.sql": incremental("anew", "judged", of="judged", quail_on_prompt_change="full_refresh"),
    "kept.sql": incremental("kept", call("kept"), quail_on_prompt_change="full_refresh", full_refresh=False),
    "odd.sql": incremental("odd", call("odd"), quail_on_prompt_change="perhaps"),
}


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    return MODELS


class Runs:
    """Runs models with a word to ask for and a number of tickets."""

    def __init__(self, project: Any) -> None:
        self.project = project
        self.output = ""

    def __call__(self, models: str, *arguments: str, passes: bool = True, **environment: object) -> dict[str, Any]:
        """The models' results. They read the environment, because other --vars would have dbt parse everything again."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, str(value))
            command = ["run", "--select", f"tickets {models}", *arguments]
            results, self.output = run_dbt_and_capture(command, expect_pass=passes)
        return {result.node.name: result for result in results}

    def asked(self, result: Any) -> int:
        return int(result.adapter_response.get("asked", 0))

    def answers(self, model: str) -> list[bool | None]:
        return [row[0] for row in self.project.run_sql(f"select answer from {{schema}}.{model} order by id", fetch="all")]

    @property
    def changed(self) -> set[str]:
        """The models whose prompts were said to have changed."""
        return {words.split(" ")[0] for words in self.output.split("The prompts of ")[1:]}


@pytest.fixture
def run(project: Any) -> Runs:
    return Runs(project)


class TestChangedPrompts:
    def test_the_story_of_a_table(self, run: Runs) -> None:
        every = "warned strict anew kept odd"
        results = run(every)
        assert {name: run.asked(results[name]) for name in every.split()} == dict.fromkeys(every.split(), 4)
        assert not run.changed

        results = run(every, passes=False, WORD=5, UPTO=5)
        assert run.changed == {"warned", "strict", "anew", "kept"}
        # warn: the new row alone is asked, and the message has the rows and the cost.
        assert run.asked(results["warned"]) == 1
        assert (
            "The prompts of warned have changed: this run asks AI_FILTER 'warned has {0}: does it say '5'?' of mock, "
            "threshold 0.5; the 4 rows that are there were answered by AI_FILTER 'warned has {0}: does it say 'text'?' of mock"
            ", threshold 0.5, and keep their answers. Building the table anew asks up to 4 questions (≈ "
        ) in run.output
        assert "To do so: dbt run --full-refresh --select warned" in run.output
        assert run.answers("warned") == [True] * 5
        # error: nothing is asked, and the table stays.
        assert run.asked(results["strict"]) == 0
        assert (
            "Nothing was asked, because quail_on_prompt_change is error. Run `dbt run --full-refresh"
            in results["strict"].message
        )
        assert run.answers("strict") == [True] * 4
        # full_refresh: also of a call that stands in an ephemeral model.
        assert run.asked(results["anew"]) == 5
        assert run.answers("anew") == [False, False, False, False, True]
        assert "It is built anew." in run.output
        assert "is full_refresh, while the model's full_refresh is false" in results["kept"].message
        assert "must be one of warn, error, full_refresh, not 'perhaps'" in results["odd"].message

        # It is said once of a run that went on; one that failed is not what a table was filled by.
        results = run("warned strict anew", passes=False, WORD=5, UPTO=6)
        assert run.changed == {"strict"}
        assert (run.asked(results["warned"]), run.asked(results["anew"])) == (1, 1)

        results = run("warned strict", "--full-refresh", WORD=5, UPTO=6)
        assert not run.changed
        assert (run.asked(results["warned"]), run.asked(results["strict"])) == (4, 6)  # texts 5 and 6 are known
        assert run.answers("warned") == run.answers("strict") == [False, False, False, False, True, False]

        # --empty has no rows to mix, so it neither compares nor keeps; the variable speaks for models that say nothing.
        run("warned strict", "--empty", WORD=8)
        assert not run.changed
        results = run("warned", "--vars", "quail_on_prompt_change: error", passes=False, WORD=8)
        assert "quail_on_prompt_change is error" in results["warned"].message


@pytest.mark.slow
class TestMicrobatch:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        events = (
            "select i as id, timestamp '2020-01-01' + to_hours(12 * i) as seen_at, 'text ' || i as body from range(6) as r(i)"
        )
        batched = (
            "{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='seen_at', batch_size='day',"
            " begin='2020-01-01', quail_on_prompt_change=env_var('POLICY', 'warn')) }} "
        )
        return {
            "tickets.sql": "{{ config(materialized='table', event_time='seen_at') }} " + events,
            "batched.sql": batched + "select id, seen_at, " + call("batched") + " as answer from {{ ref('tickets') }}",
        }

    def test_a_microbatch_model_warns_once_and_is_not_built_anew_by_a_batch(self, run: Runs) -> None:
        days = ("--event-time-start", "2020-01-01", "--event-time-end", "2020-01-04")
        run("batched", *days)
        assert not run.changed
        assert run.answers("batched") == [True] * 6
        run("batched", *days, WORD=4)
        assert run.output.count("The prompts of batched have changed") == 1
        assert run.answers("batched") == [False] * 4 + [True, False]
        run("batched", *days, passes=False, WORD=5, POLICY="full_refresh")
        assert "a microbatch model is not built anew in the middle of its batches" in run.output
        assert run.answers("batched") == [False] * 4 + [True, False]
        run("batched", *days, "--full-refresh", WORD=5, POLICY="full_refresh")
        assert not run.changed
        assert run.answers("batched") == [False] * 5 + [True]


class TestRetried:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
        return {**dbt_profile_target, "quail": {"engine": "mock", "mock_fail": "{{ env_var('FAILING', 'text 2') }}"}}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        again = "{% if is_incremental() %} where id not in (select id from {{ this }} where answer is not null) {% endif %}"
        return {"tickets.sql": TICKETS, "retried.sql": incremental("retried", call("retried"), later=again)}

    def test_rows_without_an_answer_come_again(self, run: Runs) -> None:
        """The pattern of docs/dbt.md."""
        result = run("retried")["retried"]
        assert run.asked(result) == 4
        assert "1 failed" in result.message
        assert run.answers("retried") == [True, None, True, True]
        assert run.asked(run("retried", UPTO=5)["retried"]) == 2  # the new row, and the one that failed
        assert run.asked(run("retried", UPTO=5, FAILING="nothing")["retried"]) == 1
        assert run.answers("retried") == [True] * 5
