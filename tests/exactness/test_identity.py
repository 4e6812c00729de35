# ruff: noqa: E501 - SQL is easier to read on one line
"""What one question is: ties, documents that lie side by side, and questions that differ in one part only."""

from __future__ import annotations

import pytest

import quail_engine


def test_a_tie_is_true() -> None:
    # A margin of 0 is a probability of exactly one half: TRUE at 0.5, in a filter, a join and beside a score.
    with quail_engine.connect(engine="mock", mock_margin={"tie": 0.0}) as con:
        con.sql("create table t as select 1 as id, 'a tie' as a; create table u as select 2 as id, 'b' as b")
        single = con.sql(
            "select AI_FILTER('q', a) as x, AI_SCORE('q', a) as s, AI_FILTER('q', a, {'threshold': 0.51}) as y from t"
        )
        assert single.to_pylist() == [{"x": True, "s": 0.5, "y": False}]
        assert con.report.asked == 1
        assert con.sql("select t.id from t join u on AI_JOIN(PROMPT('{0} is {1}', t.a, u.b))").num_rows == 1
        assert con.report.asked == 1


def test_documents_keep_their_places() -> None:
    # ('ab', '') is not ('a', 'b'), and ('a', 'b') is not ('b', 'a').
    with quail_engine.connect(engine="mock") as con:
        con.sql(
            "select AI_SCORE(PROMPT('{0} before {1}', a, b)) from (values ('ab', ''), ('a', 'b'), ('b', 'a'), ('', 'ab')) v(a, b)"
        )
        assert con.report.asked == 4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("AI_CLASSIFY(a, ['x', 'y'])", "AI_CLASSIFY(a, ['y', 'x'])"),
        ("AI_CLASSIFY(a, ['x', 'y'])", "AI_CLASSIFY(a, ['x', 'y', 'z'])"),
        ("AI_CLASSIFY(a, ['x', 'y'])", "AI_CLASSIFY(a, [{'label': 'x', 'description': 'the cross'}, {'label': 'y'}])"),
        ("AI_CLASSIFY(a, ['x', 'y'])", "AI_CLASSIFY(a, ['x', 'y'], {'output_mode': 'multi'})"),
        ("AI_FILTER('Is it red?', a)", "AI_FILTER('Is it red', a)"),
        ("AI_FILTER('Is it red?', a)", "AI_FILTER('Is it red?', a, {'instructions': 'Crimson counts.'})"),
        ("AI_FILTER(PROMPT('{0} {1}', a, 'b'))", "AI_FILTER(PROMPT('{1} {0}', a, 'b'))"),
    ],
)
def test_another_question_is_asked_anew(one: str, other: str) -> None:
    with quail_engine.connect(engine="mock") as con:
        con.sql("create table t as select 'some text' as a")
        con.sql(f"select {one} from t")
        con.sql(f"select {other} from t")
        assert (con.report.asked, con.report.recalled) == (1, 0)
        con.sql(f"select {one}, {other} from t")
        assert (con.report.asked, con.report.recalled) == (0, 2)


def test_the_same_question_in_other_words_of_sql() -> None:
    # Shorthand and PROMPT, filter and score, any threshold, any case: one question.
    with quail_engine.connect(engine="mock") as con:
        con.sql("create table t as select 'some text' as a")
        con.sql(
            "select AI_FILTER('Is it red?', a), ai_score(prompt('Is it red? {0}', a)), AI_FILTER(PROMPT('Is it red? {0}', upper(lower(a)))) from t "
            "where AI_FILTER('Is it red?', a, {'threshold': 0.0}) order by AI_SCORE('Is it red?', a)"
        )
        assert con.report.asked == 2  # 'some text' and 'SOME TEXT'
