"""A pair's question as a choice among the texts of its other side: rows of the choice written out, and a request a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import duckdb
import pytest
from planner_cases import contains

from quail_engine import Connection, QuailError

Connected = Callable[..., Connection]

WORDS = """
create or replace table words as
    select * from (values ('even', 0), ('five', 1), ('twenty', 2), ('even', 3), (NULL, 4), (' ', 5)) w(word, k);
create or replace table nothing as select * from words where false;
create or replace table many as select 'word ' || i as word from range(400) r(i);
"""
LABELS = "['even', 'five', 'twenty']"


def rows(table: object) -> Counter[str]:
    return Counter(map(str, table.to_pylist()))  # type: ignore[attr-defined]


def join(text: str = "t.body", word: str = "w.word", **options: object) -> str:
    """The rewritten question."""
    return f"AI_JOIN(PROMPT('Text {{0}} is about {{1}}', {text}, {word}), {{'rewrite': 'classify', **}})".replace(
        ", **", "".join(f", '{name}': {value}" for name, value in options.items())
    )


def choice(text: str = "t.body", word: str = "w.word", labels: str = LABELS) -> str:
    """What it comes to."""
    return f"AI_CLASSIFY(PROMPT('Fill in the blank: Text {{0}} is about ___', {text}), {labels}) = {word}"


@pytest.fixture(autouse=True)
def tables(database: duckdb.DuckDBPyConnection, oracle: duckdb.DuckDBPyConnection) -> None:
    database.execute(WORDS)
    oracle.execute(WORDS)


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        ("select t.id, w.word from t join words w on {}", 400),
        ("select t.id, w.word from t, words w where {}", 400),
        # Of 40 texts; and of those alone that have a partner by what else the ON says: k is 0 to 5 of 0 to 9.
        ("select t.id, w.word from t join words w on t.id < 40 and {}", 40),
        ("select t.id, w.word from t join words w on t.k = w.k and {}", 200),  # of the six words one is NULL
        ("select t.id, w.word from t left join words w on {} where t.id < 50", 50),
        ("select t.id, w.word from words w right join t on {} and t.id < 50", 50),
        ("select t.id, w.word, {} as yes from t join words w on t.k = 1", 40),
        ("select t.id, w.word from t join words w on {} where " + contains("five", "t.body"), 400 + 80),
        ("select t.id from t join words w on not {}", 400),
        ("select t.note, w.word from t join words w on {}".replace("{}", "{note}"), 50),
        ("select t.id, w.word from t join (select distinct word from words) w on {}", 400),
        ("with w as (select word from words where k < 3) select t.id, w.word from t join w on {}", 400),
        ("select t.id, w.word from t join nothing w on {}", 0),
    ],
)
def test_rows_and_requests(connected: Connected, oracle: duckdb.DuckDBPyConnection, sql: str, asked: int) -> None:
    con = connected(sample_rows=0)
    rewritten, written = sql.format(join(), note=join("t.note")), sql.format(choice(), note=choice("t.note"))
    assert rows(con.sql(rewritten)) == rows(oracle.sql(written).to_arrow_table())
    assert con.report.asked == asked
    con.sql(rewritten)
    assert con.report.asked == 0


def test_the_labels_are_the_relation_s_texts(connected: Connected) -> None:
    con = connected(sample_rows=0)
    con.sql(f"select t.id, w.word from t join words w on {join()}")
    con.sql(f"select t.id, w.word from t join words w on w.k < 2 and {join()}")
    assert con.report.asked == 0, "whatever else is said of its rows"
    con.sql(f"with w as (select * from words where k < 2) select t.id, w.word from t join w on {join()}")
    assert con.report.asked == 400, "a shorter list is another question"


def test_the_anchor_s_text_is_asked_about(connected: Connected) -> None:
    con = connected(sample_rows=0)
    sql = f"select t.id, w.word from t join words w on t.id < 20 and {join(anchor=1)}"
    with pytest.raises(QuailError, match=r"t\.body has more than 255 different texts"):
        con.sql(sql)
    con.sql(sql.replace("join words w on t.id < 20 and", "join words w on").replace("from t", "from (from t limit 20) t"))
    assert con.report.asked == 4, "one of the texts is blank"


def test_the_plan_says_so(connected: Connected) -> None:
    con = connected()
    text = con.explain(f"select t.id, w.word from t join words w on {join()}")
    assert "AI_CLASSIFY 'Fill in the blank: Text {0} is about ___ into [even, five, twenty]'" in text
    assert "rewritten from yes or no for each pair" in text
    assert "2,000 rows, 400 inputs" in text, "pairs, and what is asked in their place"


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        (f"select t.id from t join many w on {join()}", r"w\.word has more than 255 different texts"),
        (f"select t.id from t join (select 'a' as word) w on {join()}", "A choice needs two labels or more; this list has 1"),
        (f"select t.id from t where exists (select 1 from words w where {join()})", "asked until one is TRUE"),
        (f"select t.id from t join words w on {join('body')}", "must name the columns of one side"),
        (f"select t.id from t join words w on {join('t.body || w.word')}", "must name the columns of one side"),
        ("select t.id from t where AI_FILTER('x', body, {'rewrite': 'classify'})", "about the two texts of a pair"),
        ("select AI_CLASSIFY(body, ['a', 'b'], {'rewrite': 'classify'}) from t", "and AI_CLASSIFY chooses"),
        (f"select t.id from t join words w on {join(threshold=0.7)}", "The option threshold is of a question of yes or no"),
        (f"select t.id from t join words w on {join(symmetric='true')}", "The option symmetric"),
        (
            f"select t.id from t join words w on {join()}".replace("'classify'", "'unary'"),
            "must be one of 'classify', not 'unary'",
        ),
    ],
)
def test_what_cannot_be_rewritten(connected: Connected, sql: str, error: str) -> None:
    con = connected()
    with pytest.raises(QuailError, match=error) as raised:
        con.sql(sql)
    assert "^^^" in str(raised.value)
