"""Vendors' SQL into DuckDB's, with the AI functions in their native form: one pure function, `transpile`."""

from quail_engine.sql.dialects.transpile import DIALECTS, Transpiled, transpile

__all__ = ["DIALECTS", "Transpiled", "transpile"]
