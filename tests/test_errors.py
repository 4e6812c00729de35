# ruff: noqa: E501 - SQL is easier to read on one line
"""Bad input: one clear paragraph that names the place, before anything is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import quail_engine
from quail_engine import BudgetError, Connection, EngineError, ModelError, Settings, SettingsError, SqlError


@pytest.fixture
def con() -> Iterator[Connection]:
    with quail_engine.connect(engine="mock", mock_fail="boom", mock_margin={"tie": 0.0}) as connection:
        connection.sql("create table t as select i as id, 'text ' || i as body, ['a', 'b'] as labels from range(40) r(i)")
        yield connection


@pytest.mark.parametrize(
    ("sql", "underlined", "says"),
    [
        ("select AI_FILTER(PROMPT('q {1}', body)) from t", "{1}", "has no argument"),
        ("select AI_FILTER(PROMPT('it''s {name}', body)) from t", "{name}", "A placeholder is a number"),
        (
            "select AI_FILTER(PROMPT('Output like {\"ok\": true}. {0}', body)) from t",
            '{"ok": true}',
            "A placeholder is a number",
        ),
        ("select AI_FILTER(PROMPT('q { {0}', body)) from t", "{ {0}", "A placeholder is a number"),
        ("select AI_FILTER(PROMPT('q } {0}', body)) from t", "}", "no opening one"),
        ("select AI_FILTER(PROMPT('q {0}')) from t", "{0}", "no argument follows"),
        ("select AI_FILTER(PROMPT(body, body)) from t", "body", "must be a constant"),
        ("select AI_FILTER(body, body) from t", "body", "the first is the question"),
        ("select AI_CLASSIFY(body, ['a']) from t", "['a']", "two labels or more"),
        ("select AI_CLASSIFY(body, []) from t", "[]", "two labels or more"),
        ("select AI_CLASSIFY(body, ['a', 'b', 'a ']) from t", "['a', 'b', 'a ']", "stands twice"),
        ("select AI_CLASSIFY(body, ['a', null]) from t", "null", "A label is a text"),
        ("select AI_CLASSIFY(body, ['a', body]) from t", "body", "A label must be a constant"),
        ("select AI_CLASSIFY(body) from t", "AI_CLASSIFY(body)", "takes an input and a list of labels"),
        ("select AI_FILTER('q', body, {'treshold': 0.5}) from t", "{'treshold': 0.5}", "did you mean 'threshold'"),
        ("select AI_FILTER('q', body, {'threshold': 2}) from t", "{'threshold': 2}", "between 0 and 1"),
        ("select AI_FILTER('q', body, threshold => id) from t", "id", "must be a constant"),
        (
            "select a.body from t a join t b on AI_JOIN(PROMPT('q {0} {1}', a.body, A.id))",
            "AI_JOIN(PROMPT('q {0} {1}', a.body, A.id))",
            "every column in it is of a",
        ),
        ("select AI_JOIN(PROMPT('q {0}', body)) from t", "AI_JOIN(PROMPT('q {0}', body))", "the two sides of a join"),
        ("select AI_COMPLETE('write a poem', body) from t", "AI_COMPLETE", "judges and classifies"),
        ("update t set body = 'x' where AI_FILTER(PROMPT('q {0} {2}', body))", "{2}", "has no argument"),
        ("delete from t where AI_CLASSIFY(body, ['a']) = 'a'", "['a']", "two labels or more"),
        ("delete from t where id = 1 returning AI_FILTER('q', body)", "AI_FILTER", "before or after its query"),
        (
            "merge into t using t s on AI_FILTER('q', t.body) when matched then delete",
            "AI_FILTER",
            "cannot stand here in a MERGE",
        ),
        (
            "merge into t using (select 1 as id) s on t.id = s.id and AI_FILTER('q', t.body) when matched then delete",
            "AI_FILTER",
            "cannot stand before or after its query in a MERGE",
        ),
        ("create macro m(x) as AI_FILTER('q', x)", "AI_FILTER", "cannot stand here in a CREATE"),
        ("create table x (a varchar check (AI_FILTER('q', a)))", "AI_FILTER", "cannot stand here in a CREATE"),
        ("prepare p as select AI_FILTER('q', body) from t", "AI_FILTER", "cannot stand here in a PREPARE"),
        (
            "with recursive r as (select 1 as n union all select n + 1 from r where AI_FILTER('q', n::varchar)) select * from r",
            "AI_FILTER('q', n::varchar)",
            "without end",
        ),
        ("select id from t where random() < 0.5 and AI_FILTER('q', body)", "random()", "runs several times"),
        ("select AI_FILTER('q', body) from t using sample 5", "", "runs several times"),
        ("select AI_FILTER('q', body) from t where (((", "(", 'syntax error at or near "("'),
        ("select id,\n AI_FILTER('q', body)\nfrm t", "t", 'syntax error at or near "t"'),
        ("select id from t where AI_FILTER('q' body)", "body", "syntax error"),
        ("select id AI_FILTER('q', body) as x from t", "(", "syntax error"),
        ("select id, case when AI_FILTER('q', body) then 1 else 0 as x from t", "as", "syntax error"),
        ("select id from t where AI_FILTER('q', body)) and true", ")", "syntax error"),
        ("select id from t where AI_FILTER('it's urgent', body)", "'", "a quote is written twice"),
        ("select id from t where AI_FILTER('q, body)", "'", "never closed"),
        ("select id /* AI_FILTER('q', body) from t", "/*", "never closed"),
        ('select AI_FILTER("Is it urgent?", body) from t', '"Is it urgent?"', "Double quotes hold the name of a column"),
        ('select AI_FILTER(PROMPT("urgent? {0}", body)) from t', '"urgent? {0}"', "Double quotes"),
        ('select AI_CLASSIFY(body, ["a", "b"]) from t', '"a"', "Double quotes"),
        ("select AI_FILTER('q', body, threshold = 0.5) from t", "threshold = 0.5", "Write instead: threshold => 0.5"),
        (
            "select AI_FILTER(body) from t where PROMPT('q {0}', body)",
            "PROMPT('q {0}', body)",
            "Write instead: AI_FILTER(PROMPT(",
        ),
        ("select AI_CLASSIFY(body, ['a', 'b']):labels[0] from t", ":", "Snowflake's path"),
        ("select AI_CLASSIFY(body, ['a', 'b']).labels from t", "AI_CLASSIFY(body, ['a', 'b'])", "a plain value here"),
        ("select AI.IF(('q', body)) from t", "IF", "BigQuery's spelling"),
        ("select id from t where AI_CLASSIFY(body, ['a', 'b'])", "AI_CLASSIFY(body, ['a', 'b'])", "is no condition"),
        (
            "select case when (AI_CLASSIFY(body, ['a', 'b'])) then 1 end from t",
            "AI_CLASSIFY(body, ['a', 'b'])",
            "is no condition",
        ),
        ("select id from t where not AI_CLASSIFY(body, ['a', 'b'])", "AI_CLASSIFY(body, ['a', 'b'])", "= 'a', or AI_FILTER"),
        ("select AI_CLASSIFY(body, ['a', 'b'])::int from t", "AI_CLASSIFY(body, ['a', 'b'])", "('a', 'b') is a number"),
        ("select AI_SCORE('q', body)::date from t", "AI_SCORE('q', body)", "probability and no date"),
        ("select cast(AI_FILTER('q', body) as timestamp) from t", "AI_FILTER('q', body)", "TRUE or FALSE and no date"),
        ("select id from t where AI_CLASSIFY(body, ['a', 'b']) > 3", "AI_CLASSIFY(body, ['a', 'b'])", "is a number"),
        ("insert into t from t returning AI_FILTER('q', body)", "AI_FILTER", "before or after its query"),
        (
            "select AI_FILTER('q', body, {'examples': [{'input': 'a text', 'answer': 1}]}) from t",
            "{'input': 'a text', 'answer': 1}",
            "label='is_spam = 1'",
        ),
        (
            "select AI_CLASSIFY(body, labels, {'examples': [{'input': 'a text', 'answer': 'a'}]}) from t",
            "[{'input': 'a text', 'answer': 'a'}]",
            "Write instead: the labels as a list",
        ),
    ],
)
def test_sql_errors_underline_the_place(con: Connection, sql: str, underlined: str, says: str) -> None:
    with pytest.raises(SqlError) as caught:
        con.sql(sql)
    text = str(caught.value)
    assert says in text
    line, marks = text.split("\n")[1:3]
    start = marks.index("^")
    assert line[start : start + marks.count("^")].startswith(underlined)
    assert con.report.asked == 0


@pytest.fixture(scope="module")
def strict() -> Iterator[Connection]:
    """A connection on which one question is already an error of another kind."""
    with quail_engine.connect(engine="mock", max_requests=0) as connection:
        connection.sql("create table t as select i as id, 'text ' || i as body, true as flag from range(40) r(i)")
        connection.sql("create table u as select * from t")
        yield connection


# SQL with an AI call → DuckDB's class, the line and in it what is underlined (between ‹ and ›), and what is said.
DUCKDBS = [
    ("select ‹idd› from t where AI_FILTER('q', body)", duckdb.BinderException, 'Referenced column "idd" not found'),
    ("select id from t where AI_FILTER('q', ‹bodyy›)", duckdb.BinderException, 'Candidate bindings: "body"'),
    ("select id, AI_FILTER('q', ‹bodyy›) from t", duckdb.BinderException, "bodyy"),
    ("select id,\n\tAI_FILTER('q', body) as a\nfrom t\n\twhere ‹nme› = 'x'", duckdb.BinderException, "nme"),
    ("select id from t where AI_FILTER('body?', body) and ‹idd› = 3", duckdb.BinderException, "idd"),
    ("select id from t where AI_FILTER('q', body) order by ‹idd› limit 3", duckdb.BinderException, "idd"),
    ("select id from t where AI_FILTER('q', body) and ‹idd› > 3 limit 3", duckdb.BinderException, "idd"),
    ("select id from t qualify row_number() over (order by AI_SCORE('q', ‹bdy›)) = 1", duckdb.BinderException, "bdy"),
    ("with c as (select id, ‹bdy› from t where AI_FILTER('q', body)) select * from c", duckdb.BinderException, "bdy"),
    ("with c as (select AI_FILTER('q', body) as a from t) select ‹b› from c where a", duckdb.BinderException, "b"),
    ("select t.id from t join u on AI_FILTER(PROMPT('{0} {1}', t.body, ‹u.bdy›))", duckdb.BinderException, "bdy"),
    ("select t.id, ‹body› from t join u on AI_FILTER(PROMPT('{0} {1}', t.body, u.body))", duckdb.BinderException, "Ambiguous"),
    ("select AI_FILTER('q', AI_CLASSIFY(‹bdy›, ['a', 'b'])) from t", duckdb.BinderException, "bdy"),
    ("select AI_CLASSIFY(body, ‹labels›) from t", duckdb.BinderException, "labels"),
    ("select ‹id›, count(*) from t where AI_FILTER('q', body)", duckdb.BinderException, "must appear in the GROUP BY"),
    ("select count(*), AI_FILTER('q', ‹body›) from t", duckdb.BinderException, "must appear in the GROUP BY"),
    ("select id from ‹missing› where AI_FILTER('q', body)", duckdb.CatalogException, "Table with name missing"),
    ("select ‹foo(AI_FILTER('q', body))› from t", duckdb.CatalogException, "name foo does not exist"),
    ("select ‹IFF(AI_FILTER('q', body), 1, 2)› from t", duckdb.CatalogException, 'Did you mean "if"'),
    ("select ‹AI_FLITER('q', body)› from t where AI_FILTER('q', body)", duckdb.CatalogException, "Did you mean AI_FILTER"),
    ("select ‹avg(AI_FILTER('q', body))› from t", duckdb.BinderException, "… and 8 more"),
    ("select ‹AI_CLASSIFY_SCORES(body, ['a', 'b'])› > 0.5 from t", duckdb.BinderException, "Cannot compare"),
    ("select ‹group›, AI_FILTER('q', body) from t".replace("‹group›,", "group‹,›"), duckdb.ParserException, "syntax error"),
    ("select id from t where AI_SCORE('q', body) > ‹'high'›", duckdb.ConversionException, "'high' to DOUBLE"),
    ("select id from t where AI_FILTER('q', body) = ‹'urgent'›", duckdb.ConversionException, "'urgent' to BOOL"),
    ("select id from t where AI_FILTER('q', body) and body‹::int› > 3", duckdb.ConversionException, "'text 0'"),
    ("select id from t where AI_FILTER('q', body) and body‹::int› > 3 limit 3", duckdb.ConversionException, "'text 0'"),
    ("update t set body = AI_CLASSIFY(‹bdy›, ['a', 'b'])", duckdb.BinderException, "bdy"),
    ("update ‹tt set› body = 'x' where AI_FILTER('q', body)", duckdb.CatalogException, "name tt"),
    ("update t set body = AI_CLASSIFY(body, ['a', 'b']) where body‹::int› > 3", duckdb.ConversionException, "'text 0'"),
    ("delete from t where AI_FILTER('q', body) and ‹idd› = 3", duckdb.BinderException, "idd"),
    ("create table x as (\n  select ‹idd›, AI_FILTER('q', body) as a from t\n)", duckdb.BinderException, "idd"),
    ("create view x as select AI_FILTER('q', ‹bdy›) from t", duckdb.BinderException, "bdy"),
    ("copy (select AI_FILTER('q', body), ‹idd› from t) to 'x.parquet'", duckdb.BinderException, "idd"),
    ("describe select AI_FILTER('q', ‹bdy›) from t", duckdb.BinderException, "bdy"),
    ("explain select AI_FILTER('q', ‹bdy›) from t", duckdb.BinderException, "bdy"),
    ("select AI_FILTER('q', ‹bdy›) from t limit 0", duckdb.BinderException, "bdy"),
    ("select 1 as bdy;\nselect AI_FILTER('q', ‹bdy›) from t", duckdb.BinderException, "bdy"),
    ("select '日本語 🦊' as x, AI_FILTER('q', ‹bdy›) from t", duckdb.BinderException, "bdy"),
    (f"select {'id, ' * 60}AI_FILTER('q', body), ‹bdy›, {'id, ' * 60}id from t", duckdb.BinderException, "bdy"),
    ("insert into t (id, bdy) select id, AI_FILTER('q', body) from t", duckdb.BinderException, 'column with name "bdy"'),
    ("insert into t select AI_FILTER('q', body), id from t", duckdb.BinderException, "has 3 columns but 2 values"),
    (
        "select AI_FILTER('q', body) from t union select id, body from t",
        duckdb.BinderException,
        "same number of result columns",
    ),
]


@pytest.mark.parametrize(("marked", "kind", "says"), DUCKDBS)
def test_duckdbs_errors_are_about_the_users_own_text(strict: Connection, marked: str, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind) as caught:
        strict.sql(marked.replace("‹", "").replace("›", ""))
    text = str(caught.value)
    assert says in text
    assert "__quail" not in text
    assert "LINE" not in text
    if "‹" in marked:
        wanted = next(line for line in marked.split("\n") if "‹" in line)
        line, marks = text.split("\n")[-2:]
        start, end = marks.index("^"), len(marks)
        prefix = len("line 1: ")
        assert f"{line[prefix:start]}‹{line[start:end]}›{line[end:]}" == wanted


def test_an_error_is_about_the_right_one_of_equal_places(strict: Connection) -> None:
    with pytest.raises(duckdb.ConversionException) as caught:
        strict.sql(
            "select body,\n  AI_FILTER('q', body)\nfrom t\nwhere body <> 'x'\n  and body::int > 3 or AI_FILTER('r', body)"
        )
    assert "line 5:   and body::int > 3" in str(caught.value)
    with pytest.raises(duckdb.BinderException) as caught:  # the same question twice, once about a column that there is not
        strict.sql("select AI_FILTER('q', body)\nfrom t\nwhere AI_FILTER('q', body)\n  and AI_FILTER('q', t.bdy)")
    assert "line 4:   and AI_FILTER('q', t.bdy)" in str(caught.value)


def test_an_open_transaction_is_the_users_to_end(strict: Connection) -> None:
    strict.sql("begin")
    with pytest.raises(duckdb.BinderException, match='"bdy" not found'):
        strict.sql("select AI_FILTER('q', bdy) from t")
    strict.sql("rollback")
    with pytest.raises(BudgetError):
        strict.sql("select AI_FILTER('q', body) from t")


def test_a_text_that_is_no_label_is_warned_about(con: Connection) -> None:
    con.sql("select id from t where AI_CLASSIFY(body, ['a', 'b']) in ('a', 'B')")
    assert con.report.warnings == ("AI_CLASSIFY is compared with 'B', which is none of its labels: 'a', 'b'.",)
    con.sql("select id from t where AI_CLASSIFY(body, ['1', '2'])::int = 1 and AI_CLASSIFY(body, ['true', 'no'])")
    assert con.report.warnings == ()
    con.sql(
        "select case body when AI_CLASSIFY(body, ['a', 'b']) then 1 end, case AI_CLASSIFY(body, ['a', 'b']) when 'a' then 1 end from t"
    )
    assert con.report.warnings == ()


def test_the_line_and_column_of_a_long_statement(con: Connection) -> None:
    with pytest.raises(SqlError) as caught:
        con.sql("select 1;\n\nselect id,\n\tAI_FILTER(PROMPT('bad {1}', body))\nfrom t")
    assert "line 4: \tAI_FILTER(PROMPT('bad {1}', body))" in str(caught.value)
    assert caught.value.sql[caught.value.position : caught.value.end] == "{1}"


@pytest.mark.parametrize("column", ["nosuch", "body"])
def test_a_line_of_many_examples_is_shown_in_part(con: Connection, column: str) -> None:
    rows = ", ".join(f"{{'input': 'text {i}', 'answer': {i % 2 == 0}}}" for i in range(1_000))
    bad = "{'input': 'x', 'answer': 'maybe'}"
    examples = f"[{rows}]" if column == "nosuch" else f"[{rows}, {bad}, {rows}]"
    with pytest.raises((duckdb.BinderException, SqlError)) as raised:
        con.sql(f"select AI_FILTER('q', body, {{'examples': {examples}}}) from t where {column} = ''")
    line, markers = str(raised.value).splitlines()[-2:]
    assert len(str(raised.value)) < 2_000
    assert line[markers.index("^") : markers.rindex("^") + 1] == ("nosuch" if column == "nosuch" else bad)


def test_plain_braces_in_documents_and_shorthand(con: Connection) -> None:
    con.sql("select AI_FILTER('Is {this} fine?', '{{w14 w15}} A = {1; 2; 3}')")
    assert con.report.asked == 1
    con.sql("select AI_FILTER(PROMPT('Output like {{\"ok\": true}}. Text: {0}', body)) from t")
    assert con.report.asked == 40


def test_unknown_settings_list_the_known() -> None:
    with pytest.raises(SettingsError, match=r"did you mean 'threshold'.*Known settings: engine, model"):
        Settings.of({"treshold": 0.5})
    with pytest.raises(SettingsError, match="engine must be one of local, mock"):
        Settings.of({"engine": "openai"})
    with pytest.raises(SettingsError, match=r"answers\.mode must be one of"):
        Settings.of({"answers": {"mode": "sometimes"}})
    with pytest.raises(SettingsError, match="max_requests must be a number 0 or more"):
        Settings.of({"max_requests": -1})
    with pytest.raises(SettingsError, match="model must be a text, not 3"):
        Settings.of({"model": 3})
    with pytest.raises(SettingsError, match=r"cpu_threads must be a whole number 1 or more, not 1\.5"):
        Settings.of({"cpu_threads": 1.5})
    with pytest.raises(SettingsError, match="kv_bytes must be a whole number 1 or more, not 0"):
        Settings.of({"kv_bytes": 0})
    with pytest.raises(SettingsError, match="mock_margin must map a phrase to a number"):
        Settings.of({"mock_margin": {"a": "b"}})


@pytest.mark.parametrize(("limit", "value"), [("max_requests", 39), ("max_seconds", 0)])
def test_budgets_refuse_before_the_first_request(limit: str, value: int) -> None:
    with quail_engine.connect(engine="mock", **{limit: value}) as con:
        con.sql("create table t as select i as id, 'text ' || i as body from range(40) r(i)")
        with pytest.raises(
            BudgetError, match=rf"asking 40 \(\d+ tokens, ≈ .* s at an assumed rate\).*over the setting {limit}"
        ) as caught:
            con.sql("create table answers as select AI_FILTER('q', body) from t")
        assert "nothing of it was asked" in str(caught.value)
        assert con.sql("select count(*) n from duckdb_tables() where table_name = 'answers'").to_pylist() == [{"n": 0}]


def test_failed_rows_are_null(con: Connection) -> None:
    rows = con.sql("select AI_FILTER('Mentions ''x''?', v) a from (values ('x'), ('boom x')) t(v)").column("a").to_pylist()
    assert rows == [True, None]
    assert (con.report.asked, con.report.failed) == (2, 1)


def test_too_many_failed_rows_fail_the_statement(con: Connection) -> None:
    con.sql("create table bad as select case when i % 10 = 0 then 'boom ' else 'fine ' end || i as body from range(40) r(i)")
    with pytest.raises(EngineError, match=r"4 of 40 requests of 'q \{0\}' failed"):
        con.sql("create table out as select AI_FILTER('q', body) from bad")
    assert con.sql("select count(*) n from duckdb_tables() where table_name = 'out'").to_pylist() == [{"n": 0}]
    found = con.sql("select AI_FILTER('q', body, {'max_error_ratio': 0.2}) a from bad").column("a").to_pylist()
    assert found.count(None) == 4
    assert (con.report.asked, con.report.recalled) == (4, 36)


def test_a_tie_is_true(con: Connection) -> None:
    assert con.sql("select AI_FILTER('q', 'a tie') a, AI_SCORE('q', 'a tie') s").to_pylist() == [{"a": True, "s": 0.5}]


@pytest.mark.parametrize(("policy", "rows"), [("null", [True, None]), ("truncate", [True, True])])
def test_overlong_rows(con: Connection, policy: str, rows: list[Any]) -> None:
    sql = f"select AI_FILTER('Mentions ''x''?', v, {{'on_overlong': '{policy}'}}) a from (values ('x'), (repeat('x', 2000000))) t(v)"
    assert con.sql(sql).column("a").to_pylist() == rows
    assert con.report.overlong == 1
    assert con.report.failed == 0


def test_overlong_rows_can_stop_the_statement(con: Connection) -> None:
    with pytest.raises(EngineError, match=r"1 of the inputs are too long.*2,000,000 tokens"):
        con.sql("select AI_FILTER('q', repeat('x', 2000000), {'on_overlong': 'error'}) from t")
    assert con.report.asked == 0


def test_labels_in_a_column(con: Connection) -> None:
    con.sql(
        "create table l as select * from (values ('a cat', ['cat', 'dog']), ('a dog', ['dog', 'cow']), ('a', ['x']), ('b', null)) v(t, l)"
    )
    table = con.sql("select AI_CLASSIFY(t, l) c from l")
    assert table.column("c").to_pylist() == ["cat", "dog", None, None]
    assert (con.report.asked, con.report.failed) == (2, 1)


def test_views_become_tables_or_are_refused() -> None:
    with quail_engine.connect(engine="mock") as con:
        con.sql("create view v as select AI_FILTER('q', 'x') as a")
        assert con.sql("select table_type from information_schema.tables where table_name = 'v'").to_pylist() == [
            {"table_type": "BASE TABLE"}
        ]
    with (
        quail_engine.connect(engine="mock", ai_views="error") as con,
        pytest.raises(SqlError, match="A view cannot hold an AI call"),
    ):
        con.sql("create view v as select AI_FILTER('q', 'x') as a")


def test_a_call_that_no_plan_sees_says_so(con: Connection) -> None:
    shared = duckdb.connect()
    with quail_engine.connect(shared, engine="mock"):
        shared.execute("create table t as select 'x' as body")
        with pytest.raises(duckdb.Error, match="was called where no plan sees it"):
            shared.execute("select AI_FILTER(body) from t")


def test_unknown_and_missing_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with quail_engine.connect(model="smollm2-135", answers=None) as con, pytest.raises(ModelError, match="smollm2-135m"):
        con.sql("select AI_FILTER('q', 'x')")
    with (
        quail_engine.connect(model="smollm2-135m", answers={"path": None}) as con,
        pytest.raises(ModelError, match="quail models pull smollm2-135m"),
    ):
        con.sql("select AI_FILTER('q', 'x')")


def test_an_error_is_told_in_the_part_that_its_author_wrote() -> None:
    model = "select\n  AI_FILTER(PROMPT('is {1} bad', 'x'))"
    with quail_engine.connect(engine="mock") as con, pytest.raises(SqlError) as caught:
        con.sql(f"/* a comment */\n\n\ncreate table m as (\n{model}\n);")
    assert "line 6:" in str(caught.value)
    assert "line 2:" in str(caught.value.within([model]))
    assert str(caught.value.within(["select 1"])) == str(caught.value)
