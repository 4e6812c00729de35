"""Look-ups: DuckDB functions that give the answers known so far and note the inputs that are missing.

They never raise and never wait for a model: a missing answer is NULL, and the round goes on.
"""

from quail_engine.lookups.functions import create_function, register
from quail_engine.lookups.inquiry import Arguments, Inquiry, digest_of
from quail_engine.lookups.statement import StatementLookUps
from quail_engine.lookups.values import labels_of, probability, sql_value

__all__ = [
    "Arguments",
    "Inquiry",
    "StatementLookUps",
    "create_function",
    "digest_of",
    "labels_of",
    "probability",
    "register",
    "sql_value",
]
