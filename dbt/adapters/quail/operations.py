"""What `dbt run-operation` does for a whole project: what a run would ask, and the report of one that was."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, cast

from dbt.adapters.base.meta import available
from dbt.adapters.duckdb.impl import DuckDBAdapter
from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtBaseException, DbtRuntimeError

import quail_engine
from dbt.adapters.quail import node as node_config
from dbt.adapters.quail.connections import QuailConnectionManager
from quail_engine import (
    DatabaseError,
    Evaluation,
    NodePlan,
    QuailError,
    run_lines,
    run_page,
    run_plan_data,
    run_plan_page,
    run_plan_text,
)

logger = AdapterLogger("Quail")


class _Config:
    """A node's config as macros see it."""

    def __init__(self, node: Any) -> None:
        self.model = node

    def get(self, key: str, default: Any = None) -> Any:
        return self.model.config.get(key, default)


class Operations(DuckDBAdapter):
    """The part of the adapter that looks at many nodes at once."""

    connections: QuailConnectionManager

    @available
    def explain_run(self, select: str | None, exclude: str | None, json_file: str | None, html_file: str | None) -> None:
        """Logs what the selected models, snapshots and tests would ask, and writes it as JSON and as a page where told to.

        Raises DbtRuntimeError for a selection that dbt does not know.
        """
        plans = list(self._node_plans(self._selected(select, exclude)))
        data = run_plan_data(plans)
        if json_file:
            _write(json_file, json.dumps(data, indent=2))
        if html_file:
            _write(html_file, run_plan_page(plans, f"What a run of {self.config.project_name} would ask"))
        logger.info(f"\n{run_plan_text(data)}")

    def _node_plans(self, nodes: Sequence[Any]) -> Iterator[NodePlan]:
        """The plans of nodes with AI calls; what one asks is known to those after it."""
        session, asked = self.connections.session(), set[bytes]()
        selected = {node.unique_id for node in nodes}
        for node in nodes:
            config = _Config(node)
            kind = str(node.config.get("materialized") or node.resource_type)
            if kind == "ephemeral" or getattr(node, "language", "sql") != "sql":
                continue
            before = tuple(parent for parent in self._parents(node) if parent in selected)
            try:
                sql = self._compiled(copy.deepcopy(node))
                if not quail_engine.mentions_ai(sql):
                    continue
                settings = session.settings
                own = node_config.overrides(config, settings)
                dialect = node_config.dialect(config, settings)
                trees = session.explain(self._connection(), sql, dialect, own, asked_before=asked, unbuilt=True)
            except (QuailError, DatabaseError, DbtBaseException) as error:
                yield NodePlan(node.unique_id, kind, (), before, " ".join(str(error).split()))
                continue
            if trees:
                yield NodePlan(node.unique_id, kind, tuple(trees), before)

    def _selected(self, select: str | None, exclude: str | None) -> list[Any]:
        """The nodes that dbt's own selection names, each after what it depends on."""
        from dbt.artifacts.resources.types import NodeType
        from dbt.compilation import Linker
        from dbt.graph import Graph, ResourceTypeSelector, parse_difference  # type: ignore[attr-defined]

        manifest, linker = self._manifest(), Linker()
        linker.link_graph(manifest)
        kinds = [NodeType.Model, NodeType.Snapshot, NodeType.Test]
        selector = ResourceTypeSelector(Graph(linker.graph), manifest, None, kinds)
        chosen = selector.get_selected(parse_difference(*(given.split() if given else None for given in (select, exclude))))
        order = TopologicalSorter({name: manifest.nodes[name].depends_on_nodes for name in sorted(manifest.nodes)})
        return [manifest.nodes[name] for name in order.static_order() if name in chosen]

    def _parents(self, node: Any) -> Iterator[str]:
        """The nodes whose tables a node reads: through ephemeral models, which are a part of its own SQL."""
        nodes = self._manifest().nodes
        for name in node.depends_on_nodes:
            parent = nodes.get(name)
            if parent is not None and parent.config.get("materialized") == "ephemeral":
                yield from self._parents(parent)
            else:
                yield name

    @available
    def write_report(self, to: str, invocation: str | None, gold: str | None) -> None:
        """Writes the page of an invocation, the last one's by default; `gold` is one more query of answers beside gold.

        Nothing is asked. Raises DbtRuntimeError.
        """
        try:
            lines = run_lines(Path(self.config.project_target_path) / "quail_run.jsonl", invocation)
            evaluations = list(self._evaluations())
            if gold:
                evaluations.append(self.connections.session().judge(self._connection(), gold, "gold"))
        except (QuailError, DatabaseError) as error:
            raise DbtRuntimeError(str(error)) from error
        _write(to, run_page(lines, evaluations, f"AI calls of {self.config.project_name}"))

    def _evaluations(self) -> Iterator[Evaluation]:
        """What the project's ai_accuracy tests judge. One whose tables are not there is left out, with a warning."""
        session = self.connections.session()
        for node in self._manifest().nodes.values():
            metadata = getattr(node, "test_metadata", None)
            if metadata is None or metadata.name != "ai_accuracy":
                continue
            judged = copy.deepcopy(node)
            judged.raw_code = "{{ quail_judged_rows(**_dbt_generic_test_kwargs) }}"
            model = node.attached_node or ""
            name = f"{model.split('.')[-1]}.{node.column_name}"
            try:
                yield session.judge(self._connection(), self._compiled(judged), name, model)
            except (QuailError, DatabaseError) as error:
                logger.warning(f"{name} is not in the report: {error}")

    def _compiled(self, node: Any) -> str:
        """The SQL of a node as it reads now."""
        from dbt.compilation import Compiler

        node.extra_ctes, node.extra_ctes_injected = [], False
        Compiler(self.config).compile_node(node, self._manifest(), write=False)
        return str(node.compiled_code)

    def _manifest(self) -> Any:
        return cast(Any, self.get_macro_resolver())

    def _connection(self) -> Any:
        return self.connections.thread_cursor().connection


def _write(to: str, text: str) -> None:
    path = Path(to)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    logger.info(f"{path.absolute()} is written")
