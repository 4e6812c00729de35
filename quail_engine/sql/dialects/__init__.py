"""Vendors' SQL into DuckDB's with native AI calls: `transpile`; `findings` says of a model's file whether it will run."""

from quail_engine.sql.dialects.check import Finding, findings
from quail_engine.sql.dialects.transpile import Transpiled, transpile

__all__ = ["Finding", "Transpiled", "findings", "transpile"]
