"""Relations of which, under `quail_sample`, a model reads a share of the rows: the same ones wherever their key occurs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dbt.adapters.contracts.relation import HasQuoting, RelationConfig
from dbt.adapters.duckdb.relation import DuckDBRelation

_PARTS = 1_000_000  # of the space of hashes; a share is a number of them


@dataclass(frozen=True, eq=False, repr=False)
class QuailRelation(DuckDBRelation):
    sample: str | None = None  # condition on its rows; None: all of them

    share: ClassVar[float] = 1.0  # of the invocation that runs in this process

    @classmethod
    def create_from(cls, quoting: HasQuoting, relation_config: RelationConfig, **kwargs: Any) -> QuailRelation:
        # dbt names a limit where a node reads a relation by `ref` or `source`, and never for the node's own.
        key = sample_key(relation_config) if "limit" in kwargs and cls.share < 1 else None
        if key:
            # As text, so that a number matches itself in every type. NULL keys are rows, too, and stay together.
            kwargs["sample"] = f"hash(cast({key} as varchar)) % {_PARTS} < {round(cls.share * _PARTS)}"
        relation: Any = super().create_from(quoting, relation_config, **kwargs)  # declared as dbt-duckdb's own class
        return relation

    def __str__(self) -> str:
        whole = super().__str__()
        return f"(select * from {whole} where {self.sample})" if self.sample else whole


def sample_key(relation_config: Any) -> str | None:
    """The SQL of the column that `quail_key` names in the config or the `meta` of a model, seed, snapshot or source."""
    config = getattr(relation_config, "config", None)
    for place in (getattr(relation_config, "meta", None), getattr(config, "meta", None), getattr(config, "_extra", None)):
        if isinstance(place, Mapping) and place.get("quail_key"):
            return str(place["quail_key"])
    return None
