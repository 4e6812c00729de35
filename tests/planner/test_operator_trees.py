"""Plans of the shapes of AI queries, their rows whatever rule is left out, and what the order of their conditions saves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest
from operator_trees import SCHEMA, TREES

import quail_engine
from quail_engine.plan.rules import RULES


@pytest.fixture(scope="module")
def trees() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(SCHEMA)
        yield connection


def ask(database: duckdb.DuckDBPyConnection, sql: str, **settings: Any) -> tuple[Counter[tuple[Any, ...]], int]:
    """Rows and requests."""
    with quail_engine.connect(database, engine="mock", **settings) as con:
        rows = Counter(tuple(row.values()) for row in con.sql(sql).to_pylist())
        return rows, con.report.asked


@pytest.mark.parametrize("name", TREES)
def test_golden(name: str, trees: duckdb.DuckDBPyConnection, golden: Callable[[str, str], None]) -> None:
    with quail_engine.connect(trees, engine="mock") as con:
        text = con.explain(TREES[name])
    # Answer tables carry a number that grows through the process, and so move the place where a long line is cut.
    text = re.sub(r"__quail_answers_\d+_", "__quail_answers_N_", text)
    lines = [f"{line[:90]}…" if line.endswith("…") else line for line in text.splitlines()]
    golden(f"plans/trees/{name}.txt", re.sub(r"[\d,]+ (?=tokens|reused)", "N ", "\n".join(lines)) + "\n")


@pytest.mark.parametrize("name", TREES)
def test_rows_are_the_same_whatever_rule_is_left_out(name: str, trees: duckdb.DuckDBPyConnection) -> None:
    rows, asked = ask(trees, TREES[name])
    names = [rule.__name__ for rule in RULES]
    for disabled in names:
        assert ask(trees, TREES[name], disable_rules=[disabled])[0] == rows, disabled
    without_any = ask(trees, TREES[name], disable_rules=names)
    assert without_any[0] == rows
    assert asked <= without_any[1]


@pytest.mark.parametrize(
    ("name", "requests", "without"),
    [
        ("two_joins_on_one_anchor", 300, 1260),  # the join of 60 pairs before that of 1,200
        ("star", 58, 194),
        ("dimension_before_facts", 16, 64),  # 6 sites, and the reports of the one that is left
        ("self_join_chain", 81, 115),
    ],
)
def test_what_the_order_saves(name: str, requests: int, without: int, trees: duckdb.DuckDBPyConnection) -> None:
    assert ask(trees, TREES[name])[1] == requests
    assert ask(trees, TREES[name], disable_rules=["order_joins"])[1] == without


def test_as_written_stays(trees: duckdb.DuckDBPyConnection) -> None:
    fixed = TREES["dimension_before_facts"].replace("'selectivity': 0.67", "'selectivity': 0.67, 'order': 'as_written'")
    assert ask(trees, fixed)[1] > ask(trees, TREES["dimension_before_facts"])[1]


def test_an_outer_join_keeps_its_order(trees: duckdb.DuckDBPyConnection) -> None:
    outer = TREES["filters_on_both_sides"].replace("join articles a", "left join articles a")
    assert ask(trees, outer) == ask(trees, outer, disable_rules=["order_joins"])
