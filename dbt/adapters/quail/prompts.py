"""Changed prompts of incremental models: what the macros of the incremental materialization call.

The table's old rows keep the answers to the old prompts unless it is built anew, so a run that would mix the two says so first.
"""

from __future__ import annotations

from typing import Any, cast

from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.connection import ConnectionState
from dbt.adapters.duckdb.impl import DuckDBAdapter
from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.quail import node
from dbt.adapters.quail.connections import QuailConnectionManager
from quail_engine import QuailError

logger = AdapterLogger("Quail")

_KEY = "on_prompt_change"
_POLICIES = ("warn", "error", "full_refresh")


class PromptChanges(DuckDBAdapter):
    """The part of the adapter that compares prompts."""

    connections: QuailConnectionManager

    @available
    def must_rebuild_for_prompts(self, config: Any, relation: BaseRelation) -> bool:
        """Whether the table is to be built anew, because the run asks what its rows were not asked; warns where it is not.

        Raises DbtRuntimeError where the policy is `error`, and where a rebuild is asked for that this run cannot do.
        """
        policy = self._policy(config)
        session, work = self.connections.session(), self.connections.thread_cursor().node
        try:
            change = session.prompt_change(str(relation), work.in_duckdb(work.compiled, session))
        except QuailError as error:
            raise DbtRuntimeError(str(error)) from error
        if change is None:
            return False
        _, table = self.execute(f"select count(*) from {relation}", fetch=True)
        rows = table.rows[0][0]
        if not rows:
            return False
        told = change.told(rows)
        name = config.model.name
        anew = f"dbt run --full-refresh --select {name}"
        cannot = self._cannot_rebuild(config) if policy == "full_refresh" else ""
        if policy == "error" or cannot:
            raise DbtRuntimeError(
                f"The prompts of {name} have changed: {told}. Nothing was asked, because quail_{_KEY} is {policy}{cannot}. "
                f"Run `{anew}`, or set quail_{_KEY} to warn, to go on with both kinds of answers in one table."
            )
        done = "It is built anew." if policy == "full_refresh" else f"To do so: {anew}"
        logger.warning(f"The prompts of {name} have changed: {told}. {done}")
        if policy == "full_refresh":
            work.rebuilds = True
        return policy == "full_refresh"

    @available.parse(lambda *a, **k: False)
    def rebuilds(self) -> bool:
        """Whether the running node is built anew because of its prompts."""
        connection = self.connections.get_if_exists()
        opened = connection is not None and connection.state == ConnectionState.OPEN
        return opened and self.connections.thread_cursor().node.rebuilds

    @available
    def compile_again(self, config: Any) -> str:
        """The node's SQL as it reads now, ephemeral models included."""
        from dbt.compilation import Compiler

        model, manifest = config.model, cast(Any, self.get_macro_resolver())
        model.extra_ctes, model.extra_ctes_injected = [], False
        Compiler(self.config).compile_node(model, manifest)
        self.connections.thread_cursor().node.compiled = model.compiled_code.strip()
        return str(model.compiled_code)

    @available
    def keep_prompts(self, config: Any, relation: BaseRelation) -> None:
        """Keeps what the node asked in this run, which has succeeded."""
        work = self.connections.thread_cursor().node
        try:
            session = self.connections.session()
            session.keep_prompts(str(relation), work.in_duckdb(work.compiled, session), work.report)
        except QuailError as error:  # the table is there; a later run will not know what it was asked
            logger.warning(f"{config.model.name}: {error}")

    def _policy(self, config: Any) -> str:
        own = node.value(config, _KEY)
        policy = node.variable(self.config, f"quail_{_KEY}") if own is None else own
        if policy is None:
            return "warn"
        if policy not in _POLICIES:
            raise DbtRuntimeError(f"quail_{_KEY} must be one of {', '.join(_POLICIES)}, not {policy!r}.")
        return str(policy)

    @staticmethod
    def _cannot_rebuild(config: Any) -> str:
        if config.get("incremental_strategy") == "microbatch":
            return ", and a microbatch model is not built anew in the middle of its batches"
        return ", while the model's full_refresh is false" if config.get("full_refresh") is False else ""
