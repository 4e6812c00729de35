"""Labelled sets, figures of accuracy and calibration, and layouts measured side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner

from quail_engine.batching.batch import Batch
from quail_engine.calls import Task
from quail_engine.cli import main
from quail_engine.engine.base import Engine
from quail_engine.errors import EngineError, SettingsError
from quail_engine.prompts.chat import ChatPrompter
from quail_engine.prompts.profile import Profile
from quail_engine.prompts.profiles import PROFILES
from quail_engine.prompts.profiles.candidates import OWN, candidates
from quail_engine.prompts.request import Ids, Logits
from quail_engine.prompts.tokenizer import Tokenizer
from quail_engine.quality.figures import auc, calibration_error, reliability
from quail_engine.quality.labelled import BUILT_IN, read_sets
from quail_engine.quality.measure import Measured, measure


def test_auc_is_the_chance_that_a_true_row_scores_higher() -> None:
    truth = np.array([True, True, False, False])
    assert auc(np.array([2.0, 1, 0, -1]), truth) == 1.0
    assert auc(np.array([2.0, -1, 0, 1]), truth) == 0.5
    assert auc(np.array([1.0, 1, 1, 0]), truth) == 0.75, "a tie is half a win"
    assert auc(np.array([1.0, 2]), np.array([True, True])) is None


def test_calibration_error_is_the_mean_distance_between_said_and_true() -> None:
    bins = reliability([(0.95, True), (0.95, False), (1.0, True), (0.15, False)])
    assert [(b.low, b.high, b.n, b.right) for b in bins] == [(0.1, 0.2, 1, 0), (0.9, 1.0, 3, 2)]
    assert calibration_error(bins) == pytest.approx((3 * (2.9 / 3 - 2 / 3) + 0.15) / 4)
    assert calibration_error(()) is None


# Labelled sets


def written(folder: Path, name: str, **columns: Sequence[object]) -> Path:
    pa.parquet.write_table(pa.table(columns), folder / name)
    return folder


def test_the_built_in_sets_are_balanced_and_of_every_kind() -> None:
    sets = {found.name: found for found in read_sets(BUILT_IN)}
    assert {name: (len(s.rows), s.task, s.arguments) for name, s in sets.items()} == {
        "pairs": (16, Task.JUDGE, 2),
        "reviews": (16, Task.JUDGE, 1),
        "tickets": (16, Task.JUDGE, 1),
        "topics": (16, Task.CLASSIFY, 1),
    }
    for found in sets.values():
        golds = [row.gold for row in found.rows]
        assert len({golds.count(gold) for gold in golds}) == 1


def test_a_question_without_a_placeholder_is_about_the_text_that_follows() -> None:
    reviews = next(found for found in read_sets(BUILT_IN) if found.name == "reviews")
    assert reviews.rows[0].question.template.parts == ("The customer is satisfied. ", 0)
    pairs = next(found for found in read_sets(BUILT_IN) if found.name == "pairs")
    assert pairs.rows[0].question.template.parts == ("Does ", 0, " imply ", 1, "?")


def test_a_sample_is_balanced_and_the_same_every_time(tmp_path: Path) -> None:
    texts = [f"text {i}" for i in range(30)]
    (found,) = read_sets(written(tmp_path, "a.parquet", text=texts, label=["x"] * 24 + ["y"] * 6))
    sample = found.sample(10)
    assert [row.gold for row in sample.rows] == ["x", "y"] * 5
    assert sample == replace(found, rows=found.rows[::-1]).sample(10)
    assert len(found.sample(99).rows) == 30


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"text": ["a"]}, "no column 'label'"),
        ({"text": ["a"], "label": [True]}, "no `question`"),
        ({"text": ["a"], "label": ["x"]}, "all its rows have the label 'x'"),
        ({"text": [None], "label": ["x"]}, "no row with a text and a label"),
        ({"text": ["a"], "text_2": ["b"], "question": ["Alike?"], "label": [True]}, "does not say where its texts stand"),
    ],
)
def test_a_file_of_another_form_is_refused(columns: dict[str, list[object]], match: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=match):
        read_sets(written(tmp_path, "a.parquet", **columns))


def test_a_folder_without_sets_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(SettingsError, match="holds no labelled rows"):
            read_sets(folder)


# Layouts, measured on an engine whose answers are known


class Letters:
    """A token a character, one for each word of an answer and for the stop."""

    digest = "letters"
    words = ("TRUE", "FALSE")
    stop = 258
    vocabulary = 259

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        return [(256 + self.words.index(t),) if t in self.words else tuple(map(ord, t)) for t in texts]

    def encode_markers(self, text: str) -> Ids:
        return tuple(self.stop if c == "\0" else ord(c) for c in text.replace("<|im_end|>", "\0"))


class KnownEngine:
    """TRUE and FALSE have the logits 2 and 0 where the prompt says 'good', else 0 and 2; 's' has 3 by the sea; the rest 0."""

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.texts: dict[int, str] = {-1: ""}
        self.tokens = 0

    def score(self, batch: Batch) -> list[Logits]:
        for node in batch.nodes:
            self.texts[node.number] = self.texts[node.parent] + "".join(map(chr, node.ids))
        self.tokens += batch.tokens
        return [self._logits(self.texts[read.node], read.rows) for read in batch.reads]

    def _logits(self, text: str, rows: Ids) -> Logits:
        good = "good" in text
        value = {256: 2.0 if good else 0.0, 257: 0.0 if good else 2.0, ord("s"): 3.0 if "sea" in text else 0.0}
        return np.array([math.nan if self.broken else value.get(row, 0.0) for row in rows], np.float32)


def measured(folder: Path, engine: KnownEngine) -> list[Measured]:
    prompter = ChatPrompter(PROFILES["qwen2.5"], cast(Tokenizer, Letters()), 5_000)
    return list(measure(prompter, cast(Engine, engine), read_sets(folder), Letters.vocabulary, 2_048))


def test_every_layout_of_a_set_s_kind_is_measured(tmp_path: Path) -> None:
    written(tmp_path, "a.parquet", question=["Is it?"] * 3, text=["good", "bad", "goods"], label=[True, False, False])
    engine = KnownEngine()
    found = measured(tmp_path, engine)
    assert [f.layout for f in found] == list(candidates(PROFILES["qwen2.5"], Task.JUDGE, 1))
    assert found[0].layout == OWN
    first = found[0]
    assert (first.n, first.correct, first.auc) == (3, 2, 0.75)
    probability = 1 / (1 + math.exp(-2))
    assert first.calibration_error == pytest.approx((2 * (probability - 0.5) + (1 - probability)) / 3, abs=1e-6)
    words = math.exp(2) + 1
    assert first.mass == pytest.approx(words / (words + Letters.vocabulary - 2), rel=1e-5)
    assert sum(f.n * f.tokens for f in found) == pytest.approx(engine.tokens), "tokens a row are those that were prefilled"


def test_a_set_of_labels_is_measured_as_a_choice(tmp_path: Path) -> None:
    written(tmp_path, "a.parquet", text=["the sea", "a peak", "a hill"], label=["shore", "mountain", "mountain"])
    found = measured(tmp_path, KnownEngine())
    assert [(f.n, f.correct, f.auc) for f in found] == [(3, 3, None)] * len(candidates(PROFILES["qwen2.5"], Task.CLASSIFY, 1))
    sea = math.exp(3) / (math.exp(3) + 1)
    assert found[0].calibration_error == pytest.approx((1 - sea + 2 * 0.5) / 3, abs=1e-6)


def test_numbers_that_are_not_finite_are_an_error(tmp_path: Path) -> None:
    written(tmp_path, "a.parquet", question=["Is it?"], text=["good"], label=[True])
    with pytest.raises(EngineError, match="not finite"):
        measured(tmp_path, KnownEngine(broken=True))


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_candidates_differ_from_the_profile_and_from_each_other(profile: Profile) -> None:
    for task, arguments in ((Task.JUDGE, 1), (Task.JUDGE, 2), (Task.CLASSIFY, 1)):
        found = list(candidates(profile, task, arguments).values())
        assert len(found) >= 3
        assert len({other.layout for other in found}) == len(found)


def test_the_command_prints_a_table_a_set_and_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "facts.parquet", question=["Is it?"] * 2, text=["good", "bad"], label=[True, False])
    figures = measured(tmp_path, KnownEngine())
    folder = SimpleNamespace(name="m", path=tmp_path, source_sha256="0")
    monkeypatch.setattr("quail_engine.models.check", lambda *_: folder)
    monkeypatch.setattr("quail_engine.quality.check.check_layouts", lambda *_: iter(figures))
    result = CliRunner().invoke(main, ["models", "check", "m", "--page", str(tmp_path / "page.html")])
    assert result.exit_code == 0, result.output
    assert "facts" in result.output
    assert "1.00 of 2" in result.output
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert html.count("<svg") == len(figures)
    assert html.count("<circle") == sum(len(each.bins) for each in figures)
    files = CliRunner().invoke(main, ["models", "check", "m", "--files"]).output
    assert "as it was converted" in files
    assert "accuracy" not in files
