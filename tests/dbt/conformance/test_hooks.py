from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from dbt.tests.adapter.hooks.test_model_hooks import (
    BaseDuplicateHooksInConfigs,
    BaseHookRefs,
    BaseHooksRefsOnSeeds,
    BasePrePostModelHooks,
    BasePrePostModelHooksInConfig,
    BasePrePostModelHooksInConfigKwargs,
    BasePrePostModelHooksInConfigWithCount,
    BasePrePostModelHooksOnSeeds,
    BasePrePostModelHooksOnSeedsPlusPrefixed,
    BasePrePostModelHooksOnSeedsPlusPrefixedWhitespace,
    BasePrePostModelHooksOnSnapshots,
    BasePrePostSnapshotHooksInConfigKwargs,
)
from dbt.tests.adapter.hooks.test_run_hooks import BaseAfterRunHooks, BasePrePostRunHooks

FIELDS = (
    *("test_state", "target_dbname", "target_host", "target_name", "target_schema", "target_type", "target_user"),
    *("target_pass", "target_threads integer", "run_started_at", "invocation_id", "thread_id"),
)
# A hook may vacuum the table while it is empty; the base classes' own SQL file also makes Postgres' functions.
CREATE = "create or replace table {schema}.{name} (" + ", ".join(f if " " in f else f + " text" for f in FIELDS) + ")"


def check_context(context: dict[str, Any], state: str, project: Any) -> None:
    """What a hook saw of `target`: an embedded database has neither host nor user."""
    seen = {name: context[name] for name in context if name.startswith("target_")}
    assert seen == {
        "target_dbname": "",
        "target_host": "",
        "target_name": "default",
        "target_schema": project.test_schema,
        "target_threads": 4,
        "target_type": "quail",
        "target_user": "",
        "target_pass": "",
    }
    assert context["test_state"] == state
    assert context["run_started_at"]
    assert context["invocation_id"]
    assert context["thread_id"].startswith(("Thread-", "MainThread"))


class ModelHooks:
    @pytest.fixture(scope="class", autouse=True)
    def setUp(self, project: Any) -> None:
        project.run_sql(CREATE.format(schema=project.test_schema, name="on_model_hook"))

    def check_hooks(self, state: str, project: Any, host: Any, count: int = 1) -> None:
        for context in self.get_ctx_vars(state, count=count, project=project):  # type: ignore[attr-defined]
            check_context(context, state, project)


class TestPrePostModelHooks(ModelHooks, BasePrePostModelHooks):
    pass


class TestHookRefs(ModelHooks, BaseHookRefs):
    pass


class TestPrePostModelHooksInConfig(ModelHooks, BasePrePostModelHooksInConfig):
    pass


class TestPrePostModelHooksInConfigWithCount(ModelHooks, BasePrePostModelHooksInConfigWithCount):
    pass


class TestPrePostModelHooksInConfigKwargs(ModelHooks, BasePrePostModelHooksInConfigKwargs):
    pass


class TestPrePostModelHooksOnSeeds(BasePrePostModelHooksOnSeeds):
    pass


class TestHooksRefsOnSeeds(BaseHooksRefsOnSeeds):
    pass


class TestPrePostModelHooksOnSeedsPlusPrefixed(BasePrePostModelHooksOnSeedsPlusPrefixed):
    pass


class TestPrePostModelHooksOnSeedsPlusPrefixedWhitespace(BasePrePostModelHooksOnSeedsPlusPrefixedWhitespace):
    pass


class TestPrePostModelHooksOnSnapshots(BasePrePostModelHooksOnSnapshots):
    pass


class TestPrePostSnapshotHooksInConfigKwargs(BasePrePostSnapshotHooksInConfigKwargs):
    pass


class TestDuplicateHooksInConfigs(BaseDuplicateHooksInConfigs):
    pass


class TestPrePostRunHooks(BasePrePostRunHooks):
    @pytest.fixture
    def setUp(self, project: Any) -> Iterator[None]:
        project.run_sql(CREATE.format(schema=project.test_schema, name="on_run_hook"))
        for table in ("schemas", "db_schemas"):
            project.run_sql(f"drop table if exists {project.test_schema}.{table}")
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("TERM_TEST", "TESTING")
            yield

    def check_hooks(self, state: str, project: Any, host: Any) -> None:
        check_context(self.get_ctx_vars(state, project), state, project)


class TestAfterRunHooks(BaseAfterRunHooks):
    pass
