"""The tickets that the AI paths are tested on, questions that the mock answers by rule, and how results are read."""

from __future__ import annotations

from typing import Any

# Four different texts, one of them twice, and a NULL. So a question of its own about every ticket is asked 4 times: a NULL is
# not asked, and equal texts are asked once.
TICKETS = """id,body
1,urgent: the server is down
2,all fine
3,please refund me
4,hello there
5,all fine
6,
"""


def says(word: str, about: str = "body") -> str:
    """An AI call that the mock answers TRUE where the text contains the word."""
    return f"AI_FILTER(PROMPT('Does {{0}} say ''{word}''?', {about}))"


def responses(results: Any) -> dict[str, dict[str, Any]]:
    """The nodes' adapter responses."""
    return {result.node.name: result.adapter_response for result in results}


def rows(project: Any, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a query in which `{schema}` is the project's schema."""
    return [tuple(row) for row in project.run_sql(sql, fetch="all")]
