"""The catalog entry of one relation, from the rows that dbt-duckdb's catalog macros give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dbt_common.contracts.metadata import CatalogTable, ColumnMetadata, TableMetadata


def catalog_table(rows: Iterable[Mapping[str, Any]]) -> CatalogTable | None:
    """`rows` is a row a column, in the columns of dbt's `get_catalog`; None where there is no row."""
    columns = list(rows)
    if not columns:
        return None
    first = columns[0]
    metadata = TableMetadata(
        type=first["table_type"],
        schema=first["table_schema"],
        name=first["table_name"],
        database=first["table_database"],
        comment=first["table_comment"],
        owner=first["table_owner"],
    )
    described = {
        row["column_name"]: ColumnMetadata(
            type=row["column_type"], index=int(row["column_index"]), name=row["column_name"], comment=row["column_comment"]
        )
        for row in columns
    }
    return CatalogTable(metadata=metadata, columns=described, stats={})
