# ruff: noqa: E501 - SQL is easier to read on one line
"""Labelled rows in SQL: what is asked and what is not, what is kept, and that nothing but the rows themselves matters."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import quail_engine
from quail_engine import Connection, QuailError
from quail_engine.progress import Terminal, Warned
from quail_engine.sql.examples import FITTED_FROM

QUESTION = "Is the review positive?"
ROWS = 50
_WORDS = {True: "great lovely superb charming brilliant", False: "awful boring horrid dreadful clumsy"}


def review(seed: int, positive: bool) -> str:
    """A text whose words tell its label: what the mock's features know, and its answers do not."""
    chosen = random.Random(seed)
    filler, telling = ["movie", "film", "plot", "actor", "scene", "music"], _WORDS[positive].split()
    return " ".join([*chosen.choices(filler, k=3), *chosen.sample(telling, 2), f"number{seed}"])


def labelled(count: int, first: int = 1_000) -> list[tuple[str, bool]]:
    return [(review(first + i, i % 2 == 0), i % 2 == 0) for i in range(count)]


def literal(rows: Sequence[tuple[str, object]]) -> str:
    shown = {"True": "true", "False": "false"}
    return (
        "["
        + ", ".join(f"{{'input': '{text}', 'answer': {shown.get(repr(answer), repr(answer))}}}" for text, answer in rows)
        + "]"
    )


def positive(rows: Sequence[tuple[str, object]], function: str = "AI_FILTER", options: str = "") -> str:
    return f"{function}('{QUESTION}', body, {{'examples': {literal(rows)}{options}}})"


@pytest.fixture
def open_reviews(tmp_path: Path) -> Iterator[Callable[..., Connection]]:
    """Connections with the table `reviews`: ROWS texts, of which every other one is positive."""
    opened: list[Connection] = []

    def connect(**options: object) -> Connection:
        con = quail_engine.connect(engine="mock", **{"answers": str(tmp_path / ".quail" / "answers"), **options})
        opened.append(con)
        values = ", ".join(f"('{review(i, i % 2 == 0)}', {i % 2 == 0})" for i in range(ROWS))
        con.sql(f"create table reviews as from (values {values}) v(body, truth)")
        return con

    yield connect
    for con in opened:
        con.close()


@pytest.fixture
def con(open_reviews: Callable[..., Connection]) -> Connection:
    return open_reviews()


def right(con: Connection, call: str) -> float:
    return float(con.sql(f"select avg(({call} = truth)::int) as share from reviews").column("share")[0].as_py())


def scores(con: Connection, rows: Sequence[tuple[str, object]]) -> pa.Table:
    return con.sql(f"select body, {positive(rows, 'AI_SCORE')} as s from reviews order by body")


def test_a_head_learns_what_the_model_does_not_say(con: Connection) -> None:
    assert right(con, f"AI_FILTER('{QUESTION}', body)") < 0.7
    assert con.report.asked == ROWS
    assert con.report.decided == ()
    assert right(con, positive(labelled(64))) > 0.9
    # The numbers of these rows are known, but not their features; those of the labelled rows are not known either.
    assert con.report.asked == 64 + ROWS
    (decided,) = con.report.decided
    assert decided.startswith(f"'{QUESTION} {{0}}': head fitted to 64 labelled rows, CV accuracy ")
    assert f"decided by: {decided.split(': ', 1)[1]}" in con.report.plan


def test_nothing_is_asked_twice(con: Connection) -> None:
    first = scores(con, labelled(64))
    assert con.report.asked == 64 + ROWS
    assert scores(con, labelled(64)) == first
    assert (con.report.asked, con.report.recalled) == (0, ROWS)
    # The zero-shot answers came along.
    con.sql(f"select AI_SCORE('{QUESTION}', body) from reviews")
    assert (con.report.asked, con.report.recalled) == (0, ROWS)


@pytest.mark.parametrize("memory", [1 << 20, 1_000])
def test_a_budget_refuses_before_labelled_rows_are_asked(open_reviews: Callable[..., Connection], memory: int) -> None:
    con = open_reviews(max_requests=64 + ROWS - 1, missing_bytes=memory)
    with pytest.raises(quail_engine.BudgetError, match=rf"asking {64 + ROWS} .*nothing of it was asked"):
        scores(con, labelled(64))
    con.sql(f"select AI_SCORE('{QUESTION}', input) from (select unnest({literal(labelled(64))}, recursive := true))")
    assert con.report.asked == 64, "no labelled row had been asked"
    # Two rows are known, so what is left fits. Of a known answer the features are missing, which is asked again.
    con.sql(f"select AI_SCORE('{QUESTION}', body) from reviews limit 2")
    assert scores(con, labelled(40)).num_rows == ROWS


def test_one_labelled_row_more_asks_that_row_alone(con: Connection) -> None:
    scores(con, labelled(64))
    scores(con, labelled(65))
    assert (con.report.asked, con.report.recalled) == (1, 64 + ROWS)
    scores(con, labelled(40))
    assert (con.report.asked, con.report.recalled) == (0, 40 + ROWS)


def test_a_corrected_label_asks_nothing(con: Connection) -> None:
    rows = labelled(64)
    scores(con, rows)
    scores(con, [(rows[0][0], not rows[0][1]), *rows[1:]])
    assert (con.report.asked, con.report.recalled) == (0, 64 + ROWS)


def test_the_order_of_rows_changes_not_a_bit(open_reviews: Callable[..., Connection]) -> None:
    rows, results = labelled(64), []
    for seed in range(3):
        con = open_reviews(answers=None, token_budget=random.Random(seed).choice([700, 5_000]))
        shuffled = random.Random(seed).sample(rows, len(rows)) + rows[: seed * 5]  # a row that is given twice counts once
        con.sql(f"create or replace table reviews as from reviews order by hash(body || {seed})")
        results.append(scores(con, shuffled))
    assert results[0] == results[1] == results[2]


def test_the_filter_is_the_score_at_the_threshold(con: Connection) -> None:
    rows = labelled(64)
    for threshold in (0.2, 0.5, 0.9):
        options = f", 'threshold': {threshold}"
        sql = f"select count(*) filter (where {positive(rows, options=options)} <> ({positive(rows, 'AI_SCORE')} >= {threshold})) as different from reviews"
        assert con.sql(sql).column("different").to_pylist() == [0]


def test_another_process_fits_nothing_and_asks_nothing(open_reviews: Callable[..., Connection], tmp_path: Path) -> None:
    con = open_reviews()
    first, told = scores(con, labelled(64)), con.report.decided
    con.close()
    again = open_reviews()
    assert scores(again, labelled(64)) == first
    assert (again.report.asked, again.report.recalled, again.report.decided) == (0, ROWS, told)
    scores(again, labelled(65))
    assert again.report.asked == 1, "features are on disk"
    again.close()
    shutil.rmtree(tmp_path / ".quail" / "features")
    without = open_reviews()
    assert scores(without, labelled(64)) == first, "decided answers need no features"
    assert without.report.asked == 0
    scores(without, labelled(66))
    assert without.report.asked == 66 + ROWS, "to decide otherwise, features are asked for again"


def test_answers_that_are_read_only_or_off_decide_the_same(open_reviews: Callable[..., Connection], tmp_path: Path) -> None:
    results = [
        scores(open_reviews(answers={"path": str(tmp_path / mode), "mode": mode}), labelled(64))
        for mode in ("read_only", "off")
    ]
    results.append(scores(open_reviews(feature_bytes=0), labelled(64)))
    assert results[0] == results[1] == results[2]
    assert not (tmp_path / "features").exists()
    assert not (tmp_path / ".quail" / "features").exists()


def test_calls_with_other_rows_stand_beside_each_other(con: Connection) -> None:
    rows = labelled(64)
    turned = [(text, not answer) for text, answer in rows]
    sql = f"select {positive(rows)} as a, {positive(turned)} as b, AI_SCORE('{QUESTION}', body) as c, truth from reviews"
    table = con.sql(sql)
    assert con.report.asked == 64 + ROWS, "they share their zero-shot requests"
    a, b = table.column("a").to_pylist(), table.column("b").to_pylist()
    assert sum(x != y for x, y in zip(a, b, strict=True)) > 0.9 * ROWS
    assert len(con.report.decided) == 2


def test_threads_that_need_one_decision_ask_its_rows_once(open_reviews: Callable[..., Connection]) -> None:
    con = open_reviews()
    call, reports, results = f"select body, {positive(labelled(64), 'AI_SCORE')} as s from reviews order by body", [], []
    session = con._session

    def run() -> None:
        cursor = con._connection.cursor()
        reports.append(session.execute(cursor, call))
        results.append(cursor.fetchall())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(report.asked for report in reports) == 64 + ROWS
    assert all(result == results[0] for result in results)


def test_labels_have_a_head(con: Connection) -> None:
    rows = [(text, "good" if answer else "bad") for text, answer in labelled(64)]
    call = f"(body, ['good', 'bad', 'neither'], {{'examples': {literal(rows)}}})"
    sql = f"select AI_CLASSIFY{call} as label, AI_CLASSIFY_SCORES{call} as scores, truth from reviews"
    table = con.sql(sql)
    assert con.report.asked == 64 + ROWS
    found = list(zip(*(table.column(name).to_pylist() for name in ("label", "scores", "truth")), strict=True))
    assert sum(label == ("good" if truth else "bad") for label, _, truth in found) > 0.9 * ROWS
    for label, weights, _ in found:
        assert abs(sum(weight for _, weight in weights) - 1) < 1e-9
        assert max(weights, key=lambda pair: pair[1])[0] == label


MANY = ["good", "bad", *(f"{team} matter {i}" for team in ("tax", "rent", "loan", "card", "pay") for i in range(9))]


def chosen(rows: Sequence[tuple[str, bool]], labels: Sequence[str] = MANY) -> str:
    named: list[tuple[str, object]] = [(text, labels[0] if answer else labels[1]) for text, answer in rows]
    return f"AI_CLASSIFY(body, {list(labels)!r}, {{'examples': {literal(named)}}})"


def test_rows_are_asked_for_no_label_where_the_decision_needs_none(con: Connection) -> None:
    call = f"({chosen(labelled(64))} = 'good')"
    (planned,) = con.explain(f"select {call} from reviews", format="json")
    con.sql(f"select {call} from reviews where body = '{review(0, True)}'")
    assert con.report.asked == 64 + 1
    tokens = con.report.tokens_fresh
    assert right(con, call) > 0.9
    assert (con.report.asked, con.report.recalled) == (ROWS - 1, 1)
    assert con.report.decided[0].endswith("; rows are asked for no label")
    alone = con.report.tokens_fresh
    # The prompt's head, which all rows share, is paid for in both statements.
    assert 0 < tokens + alone - planned["estimate"]["tokens_fresh"]["value"] < alone, "EXPLAIN supposed no label of rows"
    right(con, call)
    assert (con.report.asked, con.report.recalled) == (0, ROWS)
    right(con, f"({chosen([(review(1, False), False), *labelled(64)])} = 'good')")
    assert con.report.asked == 1, "features of rows are not asked for again; the labels of a labelled row are"
    con.sql(f"select AI_CLASSIFY(body, {MANY!r}) from reviews")
    assert (con.report.asked, con.report.recalled) == (ROWS - 1, 1), "features are no label scores"
    assert con.report.tokens_fresh - alone > 50 * ROWS, "which cost tokens a row"


def test_label_scores_that_a_later_decision_needs_are_asked_for(con: Connection) -> None:
    labels = ["film", "movie", "plot", "actor", "scene", "music"]
    by_sentiment = [(text, answer) for text, answer in labelled(64)]
    right(con, f"({chosen(by_sentiment, labels)} = 'film')")
    assert con.report.decided[0].endswith("; rows are asked for no label")
    # The model's own answer: the first label that occurs.
    as_the_model = [(text, next(label for label in labels if label in text.split())) for text, _ in by_sentiment]
    call = f"AI_CLASSIFY(body, {labels!r}, {{'examples': {literal(as_the_model)}}})"
    con.sql(f"select {call} from reviews")
    assert "zero-shot" in con.report.decided[0]
    assert (con.report.asked, con.report.recalled) == (ROWS, 64)


def test_numbers_with_features_serve_a_decision_that_reads_features_alone(con: Connection) -> None:
    con.sql(f"create table known as select unnest({[text for text, _ in labelled(64)]!r}) as body")
    con.sql(f"select {chosen(labelled(64))} from known")
    assert (con.report.asked, con.report.recalled) == (64, 64), "labelled rows were asked for both"


def test_features_and_label_scores_of_one_row_are_asked_beside_each_other(open_reviews: Callable[..., Connection]) -> None:
    con = open_reviews(answers=None)
    calls = [chosen(labelled(64)), f"AI_CLASSIFY(body, {MANY!r})"]
    reports, results = {}, {}

    def run(call: str) -> None:
        cursor = con._connection.cursor()
        reports[call] = con._session.execute(cursor, f"select body, {call} from reviews order by body")
        results[call] = cursor.fetchall()

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reports[call].asked for call in calls] == [64 + ROWS, ROWS]
    alone = open_reviews(answers=None)
    for call in calls:
        assert alone.sql(f"select body, {call} as a from reviews order by body").column("a").to_pylist() == [
            answer for _, answer in results[call]
        ]


def test_a_row_whose_features_could_not_be_read_is_listed_until_they_are(open_reviews: Callable[..., Connection]) -> None:
    con = open_reviews(mock_fail="number7")
    call = f"select count({chosen(labelled(64))}) as n from reviews"
    assert con.sql(call).column("n").to_pylist() == [ROWS - 1]
    assert [len(failure.keys) for failure in con._session._store.failures()] == [1]
    con.close()
    again = open_reviews()
    assert again.sql(call).column("n").to_pylist() == [ROWS]
    assert again.report.asked == 1
    assert again._session._store.failures() == []


def test_pairs_have_a_head(con: Connection) -> None:
    def pair(i: int) -> tuple[str, str]:
        return f"first{i} alpha", f"second{i} {'alpha' if i % 2 else 'omega'}"

    rows = ", ".join(f"{{'input': ['{pair(i)[0]}', '{pair(i)[1]}'], 'answer': {str(i % 2 == 1).lower()}}}" for i in range(60))
    con.sql(
        "create table sides as "
        + " union all ".join(
            f"select '{a}' as a, '{b}' as b, {i % 2 == 1} as truth" for i in range(100, 120) for a, b in [pair(i)]
        )
    )
    sql = f"select count(*) filter (where AI_FILTER(PROMPT('Are {{0}} and {{1}} alike?', a, b), {{'examples': [{rows}]}}) = truth) as n from sides"
    assert con.sql(sql).column("n").to_pylist() == [20]
    assert con.report.asked == 60 + 20


def test_too_few_rows_are_shown_instead(con: Connection) -> None:
    few = labelled(FITTED_FROM - 1)
    con.sql(f"select {positive(few)} from reviews")
    assert con.report.asked == ROWS
    assert con.report.decided == ()
    con.sql(f"select {positive([*few, few[0]])} from reviews")
    assert con.report.decided == (), "a row that is given twice is one row"
    con.sql(f"select {positive(labelled(FITTED_FROM))} from reviews")
    assert con.report.asked == FITTED_FROM + ROWS
    assert len(con.report.decided) == 1


TAGS = ["good", "bad", "about a film", "never said"]


def tags(text: str, positive: bool) -> list[str]:
    return ["good" if positive else "bad", *(["about a film"] if "film" in text.split() else [])]


def tagged(rows: Sequence[tuple[str, object]], labels: Sequence[str] = TAGS) -> str:
    return f"AI_CLASSIFY(body, {list(labels)!r}, {{'examples': {literal(rows)}, 'output_mode': 'multi'}})"


def test_several_labels_at_once_have_a_rule_each(con: Connection) -> None:
    rows = [(text, tags(text, answer)) for text, answer in labelled(96)]
    sql = f"select body, truth, {tagged(rows)} as found from reviews order by body"
    first = con.sql(sql)
    assert con.report.asked == 96 + ROWS, "one request a row, whatever the number of labels"
    found = list(zip(*(first.column(name).to_pylist() for name in ("body", "truth", "found")), strict=True))
    assert sum(("good" in labels) == truth and ("bad" in labels) != truth for _, truth, labels in found) > 0.9 * ROWS
    assert sum(("about a film" in labels) == ("film" in body.split()) for body, _, labels in found) > 0.8 * ROWS
    assert not any("never said" in labels for *_, labels in found)
    (decided,) = con.report.decided
    assert "a rule a label fitted to 96 labelled rows (" in decided
    assert " × head" in decided
    assert con.sql(sql) == first
    assert (con.report.asked, con.report.recalled) == (0, ROWS)
    con.sql(f"select AI_CLASSIFY(body, {TAGS!r}, {{'output_mode': 'multi'}}) from reviews")
    assert (con.report.asked, con.report.recalled) == (0, ROWS), "zero-shot answers came along"


def test_rules_of_several_labels_are_kept_and_take_any_order_of_rows(open_reviews: Callable[..., Connection]) -> None:
    rows = [(text, tags(text, answer)) for text, answer in labelled(64)]
    one_a_label: list[tuple[str, object]] = [(text, label) for text, labels in rows for label in labels]
    con = open_reviews()
    first, told = con.sql(f"select {tagged(rows)} as a from reviews order by body"), con.report.decided
    con.close()
    again = open_reviews()
    for same in (rows[::-1], one_a_label, [(text, labels[::-1]) for text, labels in rows]):
        assert again.sql(f"select {tagged(same)} as a from reviews order by body") == first
        assert (again.report.asked, again.report.decided) == (0, told)
    nothing = [(text, []) if labels == ["bad"] else (text, labels) for text, labels in rows]
    assert again.sql(f"select {tagged(nothing)} as a from reviews order by body") != first, "a row to which no label applies"
    assert again.report.asked == 0


def test_few_rows_of_several_labels_are_shown(con: Connection) -> None:
    rows = [(text, tags(text, answer)) for text, answer in labelled(FITTED_FROM - 1)]
    con.sql(f"select {tagged(rows)} from reviews")
    assert (con.report.asked, con.report.decided) == (ROWS, ())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [("a text", ["good", "great"]), ("b", ["good"]), ("c", "great"), ("d", "maybe")],
            r"a list of those that apply of good, bad, about a film, never said.*; of the others 2 are wrong, too\.",
        ),
        ([(text, ["good"]) for text, _ in labelled(40)], r"All 40 examples have the answer \['good'\]"),
    ],
)
def test_mistakes_in_rows_of_several_labels(con: Connection, rows: list[tuple[str, object]], message: str) -> None:
    with pytest.raises(QuailError, match=message):
        con.sql(f"select {tagged(rows)} from reviews")
    assert con.report.asked == 0


def test_what_to_write_for_examples_of_another_form(con: Connection) -> None:
    lists: list[tuple[str, object]] = [("a text", ["good"])]
    with pytest.raises(QuailError, match=r"Write instead: 'output_mode': 'multi'"):
        con.sql(f"select AI_CLASSIFY(body, ['good', 'bad'], {{'examples': {literal(lists)}}}) from reviews")
    with pytest.raises(QuailError, match=r"in dbt \{\{ ai_examples\(ref"):
        con.sql(f"select AI_FILTER('{QUESTION}', body, {{'examples': (select list(body) from reviews)}}) from reviews")


def test_nothing_is_asked_of_labelled_rows_that_no_row_needs(con: Connection) -> None:
    con.sql(f"select {positive(labelled(64))} from reviews where body = 'none'")
    assert con.report.asked == 0
    plan = con.explain(f"select {positive(labelled(64))} from reviews")
    assert "decided by: what will be fitted to 64 labelled rows, which are asked first" in plan
    assert f"{64 + ROWS} requests" in plan
    assert con.sql(f"explain select {positive(labelled(64))} from reviews").num_rows
    assert con.report.asked == 0


@pytest.mark.parametrize("asking", [positive, chosen])  # for numbers and features, and for features alone
def test_a_refresh_asks_the_labelled_rows_again(asking: Callable[..., str], con: Connection) -> None:
    call = f"select {asking(labelled(64))} from reviews"
    con.sql(call)
    con._session.start_run()
    con.sql(call, refresh=True)
    assert con.report.asked == 64 + ROWS
    con.sql(call, refresh=True)
    assert con.report.asked == 0


def test_labelled_rows_that_fail_are_left_out(open_reviews: Callable[..., Connection]) -> None:
    con = open_reviews(mock_fail="number1001")
    assert right(con, positive(labelled(64))) > 0.9
    assert con.report.failed == 1
    assert "fitted to 63 labelled rows" in con.report.decided[0]
    broken = open_reviews(mock_fail="number1", answers=None)
    with pytest.raises(QuailError, match=r"Of the 64 labelled rows of 'Is the review positive\? \{0\}' 0 could be read"):
        right(broken, positive(labelled(64)))


def test_rows_that_fail_are_null(open_reviews: Callable[..., Connection]) -> None:
    con = open_reviews(mock_fail="number7", max_error_ratio=0.5)
    table = con.sql(f"select body from reviews where {positive(labelled(64))} is null")
    assert table.column("body").to_pylist() == [review(7, False)]


@pytest.mark.parametrize(
    ("rows", "message", "underlined"),
    [
        ([(text, True) for text, _ in labelled(40)], "All 40 examples have the answer 'true'", None),
        ([*labelled(40), ("odd", "maybe")], "one of true, false", "{'input': 'odd', 'answer': 'maybe'}"),
    ],
)
def test_mistakes_are_told_before_anything_is_asked(
    con: Connection, rows: list[tuple[str, object]], message: str, underlined: str | None
) -> None:
    with pytest.raises(QuailError, match=message) as error:
        con.sql(f"select {positive(rows)} from reviews")
    assert con.report.asked == 0
    line, marker = str(error.value).split("\n")[1:3]
    shown = line[marker.index("^") : marker.rindex("^") + 1].rstrip("…")  # of a long line, a part
    assert len(shown) > 20
    assert (underlined or literal(rows)).startswith(shown)


def test_a_table_filled_by_other_labelled_rows_was_asked_something_else(con: Connection) -> None:
    text = f"create table t as select {positive(labelled(64))} as a from reviews"
    con._session.keep_prompts("t", text, None)
    assert con._session.prompt_change("t", text) is None
    assert con._session.prompt_change("t", f"create table t as select {positive(labelled(65))} as a from reviews") is not None


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Warnings that a terminal would show."""
    heard: list[str] = []
    monkeypatch.setattr(
        Terminal, "__call__", lambda self, event: heard.append(str(event)) if isinstance(event, Warned) else None
    )
    return heard


def test_rows_that_teach_nothing_are_counted(open_reviews: Callable[..., Connection], told: list[str]) -> None:
    con = open_reviews(mock_fail="number1001")
    con.sql(f"select {positive(labelled(64))} from reviews")
    assert told == [
        f"1 of the 64 labelled rows of '{QUESTION} {{0}}' taught nothing: failed, or too long for the model. "
        "`quail answers errors` lists them; give shorter ones."
    ]
    long = " ".join(["great"] * 180_000)  # more bytes than the mock's context
    con.sql(f"select {positive([*labelled(64)[2:], (long, True)])} from reviews")
    assert told[1].startswith("1 of the 63 labelled rows")
    assert len(told) == 2


def test_answers_with_few_rows_are_named(con: Connection, told: list[str]) -> None:
    con.sql(f"select {positive([*labelled(64)[::2], *labelled(6)[1::2]])} from reviews")
    assert "Of the 35 labelled rows" in told[0]
    assert "fewer than 5 have the answer 'false' (3): too few to learn from" in told[0]
    rows: list[tuple[str, object]] = [(text, f"{'good' if answer else 'bad'}") for text, answer in labelled(64)]
    labels = ["good", "bad", *(f"other{i}" for i in range(7))]
    con.sql(f"select AI_CLASSIFY(body, {labels!r}, {{'examples': {literal(rows)}}}) from reviews")
    assert "have the answer 'other0' (0), 'other1' (0), 'other2' (0), 'other3' (0), 'other4' (0), 2 more" in told[-1]


def test_a_decision_that_guesses_says_so(con: Connection, told: list[str]) -> None:
    rows = [(f"text {i} of no words", random.Random(i).random() < 0.7) for i in range(64)]
    con.sql(f"select {positive(rows)} from reviews")
    assert told[0].startswith(
        f"'{QUESTION} {{0}}' is decided no better than by guessing: by cross-validation over 64 labelled rows"
    )
    told.clear()
    some: list[tuple[str, object]] = [(text, tags(text, i % 2 == 0)) for i, (text, _) in enumerate(rows)]
    con.sql(f"select {tagged(some, TAGS[:2])} from reviews")
    assert "Whether 'good' and 1 more of '{0} into [good, bad]' applies" in told[0]


def test_many_examples_of_one_text_are_not_many(con: Connection, told: list[str]) -> None:
    con.sql(f"select {positive(labelled(10) * 4)} from reviews")
    assert told == [
        f"Of the 40 examples of '{QUESTION} {{0}}' 10 are different. Below 30 they are shown to the model before each question, "
        "and no decision is fitted to them: give more."
    ]
    told.clear()
    con.sql(f"select {positive(labelled(64))} from reviews")
    assert told == []
