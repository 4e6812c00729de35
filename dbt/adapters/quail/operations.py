"""What `dbt run-operation` does for a whole project: the report of a run."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from dbt.adapters.base.meta import available
from dbt.adapters.duckdb.impl import DuckDBAdapter
from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.quail.connections import QuailConnectionManager
from quail_engine import DatabaseError, Evaluation, QuailError, run_lines, run_page

logger = AdapterLogger("Quail")


class Operations(DuckDBAdapter):
    """The part of the adapter that looks at many nodes at once."""

    connections: QuailConnectionManager

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
        path = Path(to)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(run_page(lines, evaluations, f"AI calls of {self.config.project_name}"), encoding="utf-8")
        logger.info(f"{path.absolute()} is written")

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
