# ruff: noqa: E501 - SQL is easier to read on one line
"""Each rule can be left out by name, and rows are the same without any of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from planner_cases import contains

import quail_engine
from quail_engine import Connection, SettingsError
from quail_engine.plan.rules import RULES

Connected = Callable[..., Connection]

NAMES = [rule.__name__ for rule in RULES]
EVEN, FIVE, TWENTY = (contains(word, "t.body") for word in ("even", "five", "twenty"))
SHARES = "AI_FILTER(PROMPT('Contain ''even''? {0} {1}', t.body, u.name))"
OTHER = "AI_FILTER(PROMPT('Contain ''odd''? {0} {1}', t.body, w.name))"

# Operator trees: filters, joins with filters on either side, two joins on one anchor, a star, EXISTS, LIMIT, DML's parts.
QUERIES = (
    f"select t.id from t where {EVEN} and {FIVE} and not {TWENTY}",
    f"select t.id from t where ({EVEN} or {FIVE}) and {contains('note 1', 't.note')}",
    f"select t.id, u.k from t join u on {SHARES} where t.id < 40",
    f"select t.id, u.k from t join u on {SHARES} where {FIVE} and {EVEN} and {contains('unit', 'u.name')} and t.id < 100",
    f"select t.id, u.k, w.k from t join u on {SHARES} join u w on {OTHER} where t.id < 12",
    f"select count(*) from t join u on {SHARES} join u w on {OTHER} where {FIVE} and {contains('unit', 'u.name')} and {contains('odd', 'w.name')} and t.id < 60",
    f"select t.id, u.k from t left join u on t.k = u.k and {SHARES} and {contains('unit', 'u.name')} where {FIVE} and t.id < 60",
    f"select u.k from u where exists (select 1 from t where t.k = u.k and {SHARES})",
    f"select t.id from t where {EVEN} and {TWENTY} order by t.id limit 4 offset 1",
    f"select AI_CLASSIFY(t.body, ['even', 'odd']) as c, count(*) from t where {FIVE} and {EVEN} group by c",
    f"select t.id from t where AI_CLASSIFY(t.body, ['even', 'odd']) = 'odd' and {FIVE} and AI_SCORE('Is it good?', t.body) > 0.3",
)
DISABLED = ((), *((name,) for name in NAMES), tuple(NAMES))


@pytest.fixture(scope="module")
def expected(oracle: duckdb.DuckDBPyConnection) -> dict[str, Counter[str]]:
    return {sql: Counter(map(str, oracle.sql(sql).to_arrow_table().to_pylist())) for sql in QUERIES}


@pytest.mark.parametrize("disabled", DISABLED, ids=lambda names: " ".join(names) or "none")
def test_rows_are_the_same(connected: Connected, expected: dict[str, Counter[str]], disabled: tuple[str, ...]) -> None:
    con = connected(disable_rules=disabled, sample_rows=4)
    for sql in QUERIES:
        assert Counter(map(str, con.sql(sql).to_pylist())) == expected[sql], sql


def test_a_second_run_asks_nothing(connected: Connected, tmp_path: Path) -> None:
    """What the first run has taught of selectivities does not make the second one ask in another order."""
    nowhere = SHARES.replace("even", "nowhere")  # after the filter this is remembered as a pair condition that is never TRUE
    for number, sql in enumerate((*QUERIES, f"select t.id from t join u on t.k = u.k and {nowhere} where {EVEN}")):
        con = connected(answers=str(tmp_path / str(number)), sample_rows=4)
        con.sql(sql)
        con.sql(sql)
        assert con.report.asked == 0, sql


def test_a_name_that_no_rule_has(connected: Connected) -> None:
    with pytest.raises(SettingsError, match=r"'order_conjunct', which is no rule.*order_conjuncts"):
        connected(disable_rules="order_conjunct")
    with pytest.raises(SettingsError, match="a name or a list of names, not 3"):
        quail_engine.connect(engine="mock", disable_rules=3)


def test_settings_of_one_statement(database: duckdb.DuckDBPyConnection) -> None:
    """As a dbt model sets them: `quail_disable_rules`, `quail_sample_rows`."""
    session = quail_engine.Session(quail_engine.Settings.of({"engine": "mock"}))
    session.register(database)
    sql = f"select t.id from t where {EVEN} and {contains('twenty', 't.body', selectivity=0.05)}"
    assert session.execute(database, sql, overrides={"disable_rules": ["order_conjuncts"]}).asked == 400 + 200
    assert session.execute(database, sql, overrides={"sample_rows": 0}).recalled == 200 + 20
    with pytest.raises(SettingsError, match="no rule of the planner"):
        session.execute(database, sql, overrides={"disable_rules": "nothing"})
    session.close()
