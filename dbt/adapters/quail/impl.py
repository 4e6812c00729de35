"""The adapter: what dbt and its macros call. Everything that is not about AI calls is dbt-duckdb's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.duckdb.impl import DuckDBAdapter
from dbt.adapters.events.logging import AdapterLogger
from dbt_common.contracts.metadata import CatalogTable
from dbt_common.exceptions import DbtRuntimeError

import quail_engine
from dbt.adapters.quail import macro_calls, node
from dbt.adapters.quail.catalog import catalog_table
from dbt.adapters.quail.connections import QuailConnectionManager
from dbt.adapters.quail.operations import Operations
from dbt.adapters.quail.prompts import PromptChanges
from dbt.adapters.quail.relation import QuailRelation
from quail_engine import QuailError

logger = AdapterLogger("Quail")


class QuailAdapter(Operations, PromptChanges, DuckDBAdapter):
    ConnectionManager = QuailConnectionManager
    Relation = QuailRelation
    connections: QuailConnectionManager

    _capabilities = CapabilityDict(
        {
            **DuckDBAdapter._capabilities,
            Capability.GetCatalogForSingleRelation: CapabilitySupport(support=Support.Full),
        }
    )

    def debug_query(self) -> None:
        """DuckDB answers, then the model answers one question. Raises DbtRuntimeError with what to do."""
        super().debug_query()
        try:
            checks = self.connections.session().check()
        except QuailError as error:
            raise DbtRuntimeError(str(error)) from error
        for name, value in checks:
            logger.info(f"{name}: {value}")

    def pre_model_hook(self, config: Any) -> Any:
        # Read before dbt-duckdb's hook, which may take a lock that only post_model_hook gives back.
        work = self._work(config)
        context = super().pre_model_hook(config)
        self.connections.thread_cursor().start_node(*work)
        return context

    @available.parse(lambda *a, **k: "")
    def ai_question(self, function: str, question: str, columns: Any, options: Any, config: Any) -> str:
        """The text of AI_FILTER, AI_SCORE or AI_JOIN in the node of `config`."""
        return macro_calls.question_call(function, question, columns, options or {}, self._dialect(config))

    @available.parse(lambda *a, **k: "")
    def ai_choice(self, function: str, column: str, labels: Any, options: Any, config: Any) -> str:
        """The text of AI_CLASSIFY or AI_CLASSIFY_SCORES in the node of `config`."""
        return macro_calls.choice_call(function, column, labels, options or {}, self._dialect(config))

    @available.parse(lambda *a, **k: "")
    def ai_sentiment(self, column: str, options: Any, config: Any) -> str:
        """The text of the question that AI_SENTIMENT is in Snowflake's SQL."""
        options = {"instructions": macro_calls.SENTIMENT_INSTRUCTIONS, **(options or {})}
        return self.ai_choice("AI_CLASSIFY", column, macro_calls.SENTIMENTS, options, config)

    @available.parse(lambda *a, **k: "")
    def ai_rows(self, rows: Any, config: Any) -> macro_calls.Examples:
        """Labelled rows of the option `examples` in the node of `config`: each has its texts, its label, and whether that is a
        list in JSON."""
        return macro_calls.Examples((tuple(row) for row in rows), self._dialect(config))

    def _dialect(self, config: Any) -> str:
        return node.dialect(self._tested(config), self.config.credentials.engine_settings())

    @available.parse_none
    def announce(self, config: Any) -> None:
        """Begins the node of `config` where dbt calls no hook."""
        self.connections.thread_cursor().start_node(*self._work(config))

    def _work(self, config: Any) -> tuple[dict[str, Any], node.Refresh, str, str, tuple[str, ...]]:
        """The node's overrides, whether it asks again, its SQL, the dialect of that, and the fixtures dbt wrote into it."""
        if not hasattr(config, "model"):
            return {}, False, "", "duckdb", ()
        settings = self.config.credentials.engine_settings()
        refresh = node.refreshes(config, node.variable(self.config, "quail_refresh"))
        compiled = getattr(config.model, "compiled_code", None) or ""
        tested = self._tested(config)
        dialect = node.dialect(tested, settings)
        return node.overrides(tested, settings), refresh, compiled.strip(), dialect, node.fixtures(config.model)

    def _tested(self, config: Any) -> Any:
        """The config of the model whose SQL a unit test runs, which dbt does not hand down; of any other node its own."""
        manifest: Any = self.get_macro_resolver()
        model = manifest.nodes.get(getattr(config.model, "tested_node_unique_id", None)) if manifest else None
        return config if model is None else SimpleNamespace(model=model, get=model.config.get)

    def get_catalog_for_single_relation(self, relation: BaseRelation) -> CatalogTable | None:
        kwargs = {"information_schema": relation.information_schema(), "relations": [relation]}
        table: Any = self.execute_macro("get_catalog_relations", kwargs=kwargs)
        return catalog_table(table.rows)

    @available
    def ai_view_becomes_table(self, config: Any, sql: str) -> bool:
        """Whether a view model must be stored as a table, because DuckDB cannot evaluate an AI call when the view is read.

        Warns when so. Raises DbtRuntimeError where `ai_views: error` is set.
        """
        try:
            sql = self.connections.thread_cursor().in_duckdb(sql)
            if not quail_engine.mentions_ai(sql) or not self.connections.session().contains_ai(sql):
                return False
        except QuailError as error:
            raise DbtRuntimeError(str(error)) from error
        name = config.model.name
        settings = self.config.credentials.engine_settings()
        if settings.with_overrides(node.overrides(config, settings)).ai_views == "error":
            raise DbtRuntimeError(
                f"The view {name} contains an AI call, and `ai_views` is `error`. A view would keep the call in DuckDB, which "
                "cannot answer it when the view is read. Write materialized='table' or 'incremental' in the model's config, or "
                "set `ai_views: table` in the profile or `quail_ai_views: table` on the model to store such views as tables."
            )
        logger.warning(
            f"{name} is configured as a view and contains an AI call, so it is stored as a table: a view would keep the call "
            "in DuckDB, which cannot answer it when the view is read. Write materialized='table' in its config to silence this."
        )
        return True
