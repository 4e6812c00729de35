"""The SQL front end: the only package that knows SQL syntax. Text in, `Query` out, and text again with look-ups in it."""

from quail_engine.sql.query import Query, analyze
from quail_engine.sql.render import pairs_query, render
from quail_engine.sql.statements import Form, Statement, contains_ai, mentions_ai, split

__all__ = ["Form", "Query", "Statement", "analyze", "contains_ai", "mentions_ai", "pairs_query", "render", "split"]
