"""What makes two prompts different, what a table is remembered by, and what is said of a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from quail_engine import RunReport, Session, Settings
from quail_engine.fingerprints import Fingerprint, PromptChange

ASKED = "select AI_FILTER(PROMPT('Is it {0}?', body)) as a, AI_CLASSIFY(body, ['x', 'y']) as b from t"
SETTINGS = Settings.of({"engine": "mock"})


@pytest.mark.parametrize(
    ("written", "asks_more"),
    [
        (ASKED.upper().replace("'IS IT {0}?'", "'Is it {0}?'").replace("'X', 'Y'", "'x',\n 'y'"), False),
        (
            "with c as (select left(body, 9) as x from t)"
            " select ai_classify(x, ['x', 'y']), ai_filter(prompt('Is it {0}?', x)) from c",
            False,
        ),
        ("select AI_FILTER(PROMPT('Is it {0}?', body)) as a from t", False),  # one call fewer
        ("select AI_FILTER(PROMPT('Is it {0} ?', body)) as a from t", True),  # white space of a template is asked
        ("select AI_SCORE(PROMPT('Is it {0}?', body)) as a from t", True),  # read otherwise
        (ASKED.replace("'y'", "'z'"), True),
        (ASKED.replace("'x', 'y'", "'y', 'x'"), True),
        (ASKED.replace("'y'", "{'label': 'y', 'description': 'why'}").replace("'x'", "{'label': 'x'}"), True),
        (ASKED.replace("body)) as a", "body), threshold => 0.6) as a"), True),
        (ASKED.replace("body)) as a", "body), threshold => 0.5) as a"), False),
        (ASKED.replace("body)) as a", "body), model => 'other') as a"), True),
        (ASKED.replace("body)) as a", "body), instructions => 'Be kind.') as a"), True),
        (ASKED.replace("body)) as a", "body), on_overlong => 'truncate') as a"), False),
    ],
)
def test_what_is_another_prompt(written: str, asks_more: bool) -> None:
    assert Fingerprint.of(written, SETTINGS).asks_more_than(Fingerprint.of(ASKED, SETTINGS)) is asks_more


def test_the_settings_are_part_of_it() -> None:
    before = Fingerprint.of(ASKED, SETTINGS)
    for changed in ({"model": "other"}, {"threshold": 0.7}):
        assert Fingerprint.of(ASKED, Settings.of({"engine": "mock", **changed})).asks_more_than(before)


def test_a_fingerprint_is_read_back_as_it_was_kept() -> None:
    report = RunReport(asked=10, tokens_fresh=250, seconds_engine=5.0)
    kept = Fingerprint.of(ASKED, SETTINGS).measured(report, None)
    assert Fingerprint.from_record(kept.as_record()) == kept
    assert (kept.tokens_a_request, kept.seconds_a_request) == (25.0, 0.5)
    assert Fingerprint.of(ASKED, SETTINGS).measured(RunReport(recalled=3), kept) == kept  # asked nothing: nothing measured


GOOD = "select AI_FILTER('Good?', body) from t"


@pytest.mark.parametrize(
    ("new", "told"),
    [
        (
            "select AI_FILTER('Bad?', body), AI_CLASSIFY(body, ['x', 'y']) from t",
            "this run asks AI_CLASSIFY '{0} into [x, y]' of mock; AI_FILTER 'Bad? {0}' of mock, threshold 0.5; the 1,000 rows"
            " that are there were answered by AI_FILTER 'Good? {0}' of mock, threshold 0.5, and keep their answers."
            " Building the table anew asks up to 2,000 questions (≈ 50k tokens, ≈ 17 min at the rate of its last run)",
        ),
        (
            "select AI_FILTER('Good?', body), AI_FILTER('Bad?', body) from t",
            "this run asks AI_FILTER 'Bad? {0}' of mock, threshold 0.5; the 1,000 rows that are there were answered without"
            " it, and keep their answers. Building the table anew asks up to 1,000 questions (≈ 25k tokens, ≈ 500 s at the"
            " rate of its last run)",
        ),
        (
            "select AI_FILTER('Good?', body, {'threshold': 0.6}) from t",
            "this run asks AI_FILTER 'Good? {0}' of mock, threshold 0.6; the 1,000 rows that are there were answered by"
            " AI_FILTER 'Good? {0}' of mock, threshold 0.5, and keep their answers. Building the table anew asks nothing:"
            " these questions are answered already",
        ),
    ],
)
def test_what_is_said_of_a_change(new: str, told: str) -> None:
    before = Fingerprint.of(GOOD, SETTINGS).measured(RunReport(asked=10, tokens_fresh=250, seconds_engine=5.0), None)
    assert PromptChange(before, Fingerprint.of(new, SETTINGS)).told(1_000) == told


def test_a_session_compares_with_what_was_kept(tmp_path: Path) -> None:
    other, plain = ASKED.replace("Is it", "Was it"), "select 1"

    def session(mode: str = "read_write", path: Path | None = tmp_path) -> Session:
        answers = {"path": str(path), "mode": mode} if path else None
        return Session(Settings.of({"engine": "mock", "answers": answers}))

    first = session()
    assert first.prompt_change("s.t", ASKED) is None  # nothing is known of the table
    first.keep_prompts("s.t", ASKED, None)
    first.keep_prompts("s.t", plain, None)  # asks nothing, and takes nothing away
    first.keep_prompts("s.t", other, RunReport())  # had no row to ask
    assert first.prompt_change("s.u", other) is None
    for later in (session(), session("read_only")):
        assert later.prompt_change("s.t", ASKED) is None
        assert later.prompt_change("s.t", plain) is None
        assert later.prompt_change("s.t", "select AI_FILTER(") is None  # the statement will be refused with its place
        assert later.prompt_change("s.t", other) is not None
    session("read_only").keep_prompts("s.t", other, None)
    assert session().prompt_change("s.t", other) is not None
    assert session("off").prompt_change("s.t", other) is None
    grouped = Session(Settings.of({"engine": "mock", "answers": {"path": str(tmp_path / "grouped"), "group_readable": True}}))
    grouped.keep_prompts("s.t", ASKED, None)
    (record,) = (tmp_path / "grouped" / "mock" / "tables").iterdir()
    assert record.stat().st_mode & 0o777 == 0o640
    (record,) = (tmp_path / "mock" / "tables").iterdir()
    assert record.stat().st_mode & 0o777 == 0o600
    record.write_bytes(b"{torn")
    assert session().prompt_change("s.t", other) is None
