"""Look-ups: DuckDB functions that give the answers known so far and note the inputs that are missing.

They never raise and never wait for a model: a missing answer is NULL, and the round goes on.
"""

from quail_engine.lookups.digests import DigestTable, Positions, digests_of, distinct
from quail_engine.lookups.functions import create_function, register
from quail_engine.lookups.inquiry import Arguments, Inquiry
from quail_engine.lookups.spill import Spill
from quail_engine.lookups.statement import StatementLookUps
from quail_engine.lookups.values import labels_of, least_margin, probability, sql_value

__all__ = [
    "Arguments",
    "DigestTable",
    "Inquiry",
    "Positions",
    "Spill",
    "StatementLookUps",
    "create_function",
    "digests_of",
    "distinct",
    "labels_of",
    "least_margin",
    "probability",
    "register",
    "sql_value",
]
