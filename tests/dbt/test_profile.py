"""The profile's keys, and the commands that read it: `dbt debug` and `dbt init`."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import duckdb
import pytest
import yaml
from dbt.adapters.factory import get_include_paths, load_plugin
from dbt.tests.util import run_dbt, run_dbt_and_capture
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.quail.credentials import QuailCredentials
from quail_engine import Settings


def credentials(folder: Path, **keys: Any) -> QuailCredentials:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("dbt.adapters.quail.credentials.get_flags", lambda: None)
        return QuailCredentials.from_dict({"schema": "main", **keys})


def test_paths_are_absolute(tmp_path: Path) -> None:
    made = credentials(tmp_path, path="dev.duckdb", quail={"engine": "mock", "models_path": "weights"})
    assert made.path == str(tmp_path / "dev.duckdb")
    assert made.database == "dev"
    assert made.quail == {
        "engine": "mock",
        "models_path": str(tmp_path / "weights"),
        "answers": str(tmp_path / ".quail" / "answers"),
    }
    assert dict(made.connection_info())["quail"] == made.quail


@pytest.mark.parametrize("path", [":memory:", "md:my_db", "ducklake:metadata.ducklake"])
def test_an_address_is_not_a_path(tmp_path: Path, path: str) -> None:
    assert credentials(tmp_path, path=path).path == path


def test_answers_may_be_a_mapping(tmp_path: Path) -> None:
    made = credentials(tmp_path, quail={"answers": {"mode": "read_only"}})
    assert made.engine_settings().answers.mode == "read_only"
    assert made.engine_settings().answers.path == str(tmp_path / ".quail" / "answers")


def test_a_model_that_is_a_file_is_found_in_the_project(tmp_path: Path) -> None:
    (tmp_path / "own.gguf").touch()
    assert credentials(tmp_path, quail={"model": "own.gguf"}).engine_settings().model == str(tmp_path / "own.gguf")
    assert credentials(tmp_path, quail={"model": "smollm2-135m"}).engine_settings().model == "smollm2-135m"


def test_equal_profiles_share_an_environment(tmp_path: Path) -> None:
    assert credentials(tmp_path, quail={"engine": "mock"}) == credentials(tmp_path, quail={"engine": "mock"})
    assert credentials(tmp_path, quail={"engine": "mock"}) != credentials(tmp_path, quail={"engine": "local"})


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"quail": "mock"}, r"`quail:` in the target is a block of settings, not 'mock'\. Write"),
        (
            {"quail": {"engin": "mock"}},
            r"Unknown quail setting 'engin' \(did you mean 'engine'\?\). Known settings: engine, model",
        ),
        ({"quail": {"threshold": 2}}, "threshold must be a number between 0 and 1"),
        ({"remote": {"host": "h", "port": 1, "user": "u"}}, "cannot run with `remote:`"),
    ],
)
def test_a_wrong_profile_is_refused(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(DbtRuntimeError, match=message):
        credentials(tmp_path, **keys)


def test_debug_answers_a_question(project: Any) -> None:
    for _ in range(2):  # the second time the answer is recalled
        _, output = run_dbt_and_capture(["debug"])
        assert f"versions: dbt-quail {version('dbt-quail')}, duckdb {duckdb.__version__}" in output
        assert f"answers: {Path(project.project_root) / '.quail' / 'answers' / 'mock'} (read_write)" in output
        assert "device: none, float32" in output
        assert "test question: answered" in output
        assert "All checks passed!" in output


def test_debug_tries_the_answer_store(project: Any, profiles_root: Path) -> None:
    use(profiles_root, {"engine": "mock", "answers": "dbt_project.yml"})
    _, output = run_dbt_and_capture(["debug"], expect_pass=False)
    assert "cannot be written" in output
    assert "set `answers` to another folder" in output


def use(profiles_root: Path, quail: dict[str, Any]) -> None:
    file = Path(profiles_root) / "profiles.yml"
    profile = yaml.safe_load(file.read_text())
    profile["test"]["outputs"]["default"]["quail"] = quail
    file.write_text(yaml.safe_dump(profile))


def test_debug_says_why_a_model_cannot_answer(project: Any, profiles_root: Path) -> None:
    use(profiles_root, {"engine": "local", "model": "no-such-model"})
    _, output = run_dbt_and_capture(["debug"], expect_pass=False)
    assert "no-such-model" in output


@pytest.fixture(scope="class")
def models() -> dict[str, str]:
    asking = "{{ config(materialized='table') }} select AI_FILTER('Is it urgent?', body) as u from {{ ref('plain') }}"
    return {"plain.sql": "select 'some text' as body", "asking.sql": asking}


def test_a_model_is_loaded_for_a_question_and_not_before(project: Any, profiles_root: Path) -> None:
    use(profiles_root, {"engine": "local", "model": "no-such-model"})
    for command in (["parse"], ["compile"], ["docs", "generate"], ["run", "--empty"]):
        run_dbt(command)
    results = run_dbt(["run"], expect_pass=False)
    message = {result.node.name: result.message for result in results}["asking"]
    assert message.startswith("Database Error in model asking")
    assert "no-such-model" in message


def test_init_offers_a_default_for_every_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dbt.task.init import InitTask

    load_plugin("quail")
    template = yaml.safe_load((get_include_paths("quail")[0] / "profile_template.yml").read_text())
    monkeypatch.setattr(click, "prompt", lambda *args, default, **kwargs: default)
    task = InitTask.__new__(InitTask)  # its constructor wants the command line
    target = task.generate_target_from_input(template["prompts"], dict(template["fixed"]))
    quail = {"engine": "local", "model": Settings().model}
    assert target == {"type": "quail", "path": "dev.duckdb", "schema": "main", "threads": 4, "quail": quail}
    target.pop("type"), target.pop("threads")
    assert credentials(tmp_path, **target).engine_settings().engine == "local"


def test_the_sample_profile_is_valid(tmp_path: Path) -> None:
    load_plugin("quail")
    sample = yaml.safe_load((get_include_paths("quail")[0] / "sample_profiles.yml").read_text())
    for target in sample["default"]["outputs"].values():
        assert target["type"] == "quail"
        credentials(tmp_path, path=target["path"], quail=target["quail"])


def test_shared_answers_lie_in_the_project_or_at_a_url(tmp_path: Path) -> None:
    answers = {"shared": ["../production", "s3://bucket/answers"]}
    assert credentials(tmp_path, quail={"answers": answers}).engine_settings().answers.shared == (
        str(tmp_path / ".." / "production"),
        "s3://bucket/answers",
    )
    assert credentials(tmp_path, quail={"answers": "s3://bucket/own"}).engine_settings().answers.path == "s3://bucket/own"
    assert credentials(tmp_path, quail={"answers": "~/own"}).engine_settings().answers.path == str(Path("~/own").expanduser())
