"""The SQL front end: the only package that knows SQL syntax. Text in, `Query` out, and text again with look-ups in it."""

from quail_engine.sql.conjuncts import Conjunct, Conjunction, Order, Passes, RowSpace, ordered
from quail_engine.sql.depends import PIN
from quail_engine.sql.extract import label_of, labels_problem
from quail_engine.sql.limit import RowLimit
from quail_engine.sql.listing import (
    counts_query,
    pair_counts_queries,
    pairs_query,
    pairs_sample_query,
    part_counts_query,
    sample_query,
    threshold_query,
)
from quail_engine.sql.pairs import PairSpace
from quail_engine.sql.query import Query, analyze, pinned, settled
from quail_engine.sql.render import aside_columns, candidates_query, lookups_query, render, render_written, result_query
from quail_engine.sql.source import quoted
from quail_engine.sql.stand_ins import BEFORE, BESIDE, KNOWN, LIST_LOOK_UP, LOOK_UPS, OPEN
from quail_engine.sql.statements import Form, Statement, contains_ai, meant, mentions_ai, misspelt, split

__all__ = [
    "BEFORE",
    "BESIDE",
    "KNOWN",
    "LIST_LOOK_UP",
    "LOOK_UPS",
    "OPEN",
    "PIN",
    "Conjunct",
    "Conjunction",
    "Form",
    "Order",
    "PairSpace",
    "Passes",
    "Query",
    "RowLimit",
    "RowSpace",
    "Statement",
    "analyze",
    "aside_columns",
    "candidates_query",
    "contains_ai",
    "counts_query",
    "label_of",
    "labels_problem",
    "lookups_query",
    "meant",
    "mentions_ai",
    "misspelt",
    "ordered",
    "pair_counts_queries",
    "pairs_query",
    "pairs_sample_query",
    "part_counts_query",
    "pinned",
    "quoted",
    "render",
    "render_written",
    "result_query",
    "sample_query",
    "settled",
    "split",
    "threshold_query",
]
