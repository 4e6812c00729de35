# ruff: noqa: E501 - SQL is easier to read on one line
"""The mock's documented rules, through SQL, and the same rules as the oracle's plain functions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import quail_engine
from quail_engine import Connection


@pytest.fixture
def con() -> Iterator[Connection]:
    with quail_engine.connect(engine="mock") as connection:
        yield connection


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("AI_FILTER(PROMPT('Does it mention ''refund''? {0}', 'A REFUND please'))", True),
        ("AI_FILTER(PROMPT('Does it mention \"refund\"? {0}', 'nothing'))", False),
        ("AI_FILTER(PROMPT('Is ''a b'' in {0} and {1}?', 'x a b', 'a B y'))", True),
        ("AI_FILTER(PROMPT('Is ''a b'' in {0} and {1}?', 'x a b', 'a'))", False),
        ("AI_FILTER(PROMPT('The customer''s parcel: is ''late'' in {0}?', 'it is late'))", True),
        ("AI_FILTER(PROMPT('{0} shares a word with {1}', 'brown fox', 'the FOX is brown'))", True),
        ("AI_FILTER(PROMPT('{0} shares a word with {1}', 'red fox', 'the fox'))", False),
        ("AI_CLASSIFY('It is about Billing, and delivery', ['delivery', 'billing'])", "delivery"),
        ("AI_CLASSIFY('debilling', ['billing', 'debilling'])", "debilling"),
        ("AI_CLASSIFY('too slow', ['too slow', 'too expensive', 'too small'])", "too slow"),
        ("AI_CLASSIFY('refund not showing up', ['refund not showing up', 'refund'])", "refund not showing up"),
        ("AI_CLASSIFY('a c', ['a', 'b', 'c'], {'output_mode': 'multi'})", ["a", "c"]),
        ("AI_CLASSIFY('', ['a', 'b'], {'output_mode': 'multi'})", []),
        ("AI_SCORE(PROMPT('Is ''x'' in {0}?', 'x'))", pytest.approx(0.95257412682243)),
        ("AI_FILTER(PROMPT('Is ''x'' in {0}?', 'x'), {'threshold': 0.96})", False),
    ],
)
def test_rules(con: Connection, expression: str, value: object) -> None:
    assert con.sql(f"select {expression} as answer").column("answer").to_pylist() == [value]
    assert con.report.asked == 1


def test_scores_sum_to_one_and_the_answer_is_the_best(con: Connection) -> None:
    sql = "select AI_CLASSIFY_SCORES(t, l) s, AI_CLASSIFY(t, l) c from (values ('an organic acid'), ('?')) v(t), (select ['organic', 'inorganic', 'organometallic'] l)"
    table = con.sql(sql)
    for scores, answer in zip(table.column("s").to_pylist(), table.column("c").to_pylist(), strict=True):
        assert abs(sum(p for _, p in scores) - 1) < 1e-12
        assert max(scores, key=lambda pair: pair[1])[0] == answer
    assert con.report.asked == 2, "answer and scores are one request"


def test_other_questions_spread_evenly(con: Connection) -> None:
    con.sql("create table t as select 'text ' || i as body from range(2000) r(i)")
    table = con.sql(
        "select count(*) filter (where a) as true, min(s) as low, max(s) as high from (select AI_FILTER('q', body) a, AI_SCORE('q', body) s from t)"
    )
    (row,) = table.to_pylist()
    assert 900 < row["true"] < 1100
    assert 0.017 < row["low"] < 0.03
    assert 0.97 < row["high"] < 0.983


PROGRAM = """
import quail_engine
con = quail_engine.connect(engine="mock")
print(con.sql("select AI_SCORE('q', 'ünï') s, AI_CLASSIFY('?', ['a', 'b', 'c', 'd', 'e']) c").to_pylist())
"""


def test_the_same_in_every_process() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": seed, "PATH": ""}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]


def test_the_oracle_agrees(con: Connection) -> None:
    expressions = """
        select AI_FILTER(PROMPT('Is ''x'' in {0}?', t)) a, AI_SCORE(PROMPT('hashed {0} {{}} {0}', t)) b, AI_FILTER('short', t) c,
               AI_CLASSIFY(t, ['x', 'y']) d, AI_CLASSIFY_SCORES(t, [{'label': 'x', 'description': 'an x'}, {'label': 'y', 'description': ''}]) e,
               AI_FILTER(t, {'threshold': 0.9}) f, AI_FILTER(PROMPT('swapped {1} {0}', t, 'z')) g
        from (values ('x'), ('y'), ('z'), (null), ('')) v(t)
    """
    ours, theirs = con.sql(expressions), quail_engine.oracle().sql(expressions).to_arrow_table()
    scores = [table.column("e").to_pylist() for table in (ours, theirs)]
    assert ours.drop(["e"]).to_pylist() == theirs.drop(["e"]).to_pylist()
    for mine, reference in zip(*scores, strict=True):
        assert (mine is None) == (reference is None)
        assert mine is None or dict(mine) == pytest.approx(dict(reference), abs=1e-6)


def test_mock_answers_lie_apart(tmp_path: Path) -> None:
    for expected in ((1, 0), (0, 1)):
        with quail_engine.connect(engine="mock", answers=str(tmp_path)) as con:
            con.sql("select AI_FILTER('q', 'x')")
            assert (con.report.asked, con.report.recalled) == expected
    assert {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")} == {"mock"}
