"""What decides after a model: the rule that labelled rows support, and that not a bit of it depends on the rows beside."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from quail_engine.calls import Reads
from quail_engine.decisions import Rule, decision_of, fit_rule, fit_tags
from quail_engine.decisions.rule import RuleKind
from quail_engine.decisions.softmax import fit, log_softmax, unfitted

FEATURES = 40


def rows(count: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
    """Labels 0 and 1, a margin that knows them well and is centred, and features that know nothing."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    margins = (2 * labels - 1) * 2.0 + random.normal(0, 2.0, count)  # log-odds of a normal with these moments
    return margins[:, None].astype(np.float32), random.normal(0, 1, (count, FEATURES)).astype(np.float32), labels


def accuracy(rule: Rule, numbers: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    decided = rule.decide(numbers)
    found = decided[:, 0] >= 0 if decided.shape[1] == 1 else decided.argmax(axis=1)
    return float((found == labels).mean())


def test_numbers_that_are_right_stay_as_they_are() -> None:
    margins, noise, labels = rows(300)
    rule = fit_rule(np.hstack([margins, noise]), labels, 1)
    assert rule.kind is RuleKind.ZERO_SHOT
    assert rule.accuracy == rule.zero_shot_accuracy == ((margins[:, 0] >= 0) == labels).mean()
    assert rule.decide(margins).tobytes() == margins.tobytes()
    assert str(rule) == (
        f"zero-shot, CV accuracy {rule.accuracy:.2f} ± {rule.error:.2f}, guessing {rule.guessing:.2f}: "
        "nothing fitted to 300 labelled rows is better"
    )


def test_a_threshold_that_is_off_is_calibrated_and_noise_makes_no_head() -> None:
    margins, noise, labels = rows(300)
    shifted = margins / 3 - 4  # everything leans to FALSE
    rule = fit_rule(np.hstack([shifted, noise]), labels, 1)
    assert rule.kind is RuleKind.PLATT
    assert rule.reads is Reads.NUMBERS
    assert rule.zero_shot_accuracy < 0.6
    new, _, new_labels = rows(2_000, seed=1)
    assert accuracy(rule, new / 3 - 4, new_labels) > 0.8
    # What it says is as likely as it says.
    probabilities = 1 / (1 + np.exp(-rule.decide(new / 3 - 4)[:, 0]))
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        there = (probabilities >= low) & (probabilities < low + 0.2)
        assert abs(probabilities[there].mean() - new_labels[there].mean()) < 0.08


def test_features_that_know_make_a_head() -> None:
    margins, features, labels = rows(200)
    features[:, 3] += 3 * (labels - 0.5)
    rule = fit_rule(np.hstack([margins * 0, features]), labels, 1)
    assert rule.kind is RuleKind.HEAD
    new, new_features, new_labels = rows(2_000, seed=1)
    new_features[:, 3] += 3 * (new_labels - 0.5)
    found = accuracy(rule, np.hstack([new * 0, new_features]), new_labels)
    assert found > 0.85
    assert abs(found - rule.accuracy) < 3 * rule.error, "cross-validation says what new rows show"


def test_classes_have_a_head_and_log_probabilities_that_sum_to_one() -> None:
    random = np.random.default_rng(2)
    labels = random.integers(0, 4, 240)
    zero_shot = log_softmax(random.normal(0, 1, (240, 5))).astype(np.float32)  # the fifth label has no row
    features = random.normal(0, 1, (240, 12)).astype(np.float32)
    features[np.arange(240), labels] += 3
    rule = fit_rule(np.hstack([zero_shot, features])[:160], labels[:160], 5)
    assert rule.kind is RuleKind.HEAD
    assert rule.reads is Reads.FEATURES, "labels' numbers that say nothing are not asked for"
    decided = rule.decide(features[160:])
    assert np.abs(np.exp(decided.astype(np.float64)).sum(axis=1) - 1).max() < 1e-6
    assert (decided.argmax(axis=1) == labels[160:]).mean() > 0.8
    assert decided[:, 4].max() < np.log(0.2), "a label without a row is not impossible, and never likely"
    assert np.isfinite(decided).all()


def test_numbers_that_are_loud_and_often_wrong_do_not_drown_what_features_know() -> None:
    random = np.random.default_rng(3)
    labels = random.integers(0, 6, 400)
    loud = random.normal(0, 1, (400, 6))
    loud[np.arange(400), labels] += 1
    features = random.normal(0, 1, (400, 900))  # more than rows: these alone tell the labelled ones apart without a mistake
    features[:, :300] += random.normal(0, 0.35, (6, 300))[labels]
    numbers = np.hstack([log_softmax(12 * loud), features]).astype(np.float32)
    rule = fit_rule(numbers[:90], labels[:90], 6)
    assert rule.kind is RuleKind.HEAD
    assert rule.zero_shot_accuracy < 0.5
    assert accuracy(rule, numbers[90:], labels[90:]) > 0.85  # 0.75 if the head scales the numbers as it likes


def test_a_row_is_decided_to_the_same_bit_alone_and_among_others() -> None:
    margins, features, labels = rows(70)
    features[:, 3] += 3 * (labels - 0.5)
    numbers = np.hstack([margins, features])
    rule = fit_rule(numbers, labels, 1)
    together = rule.decide(numbers)
    for row in range(len(numbers)):
        assert rule.decide(numbers[row : row + 1]).tobytes() == together[row].tobytes()
    assert rule.decide(numbers[::-1][::2]).tobytes() == together[::-1][::2].tobytes()
    assert np.isnan(rule.decide(np.full_like(numbers[:1], np.nan))).all()


def test_a_rule_is_itself_again_from_its_bytes() -> None:
    margins, features, labels = rows(64)
    features[:, 3] += 3 * (labels - 0.5)
    rule = fit_rule(np.hstack([margins, features]), labels, 1)
    again = Rule.from_bytes(rule.to_bytes())
    assert again.to_bytes() == rule.to_bytes()
    assert again.decide(np.hstack([margins, features])).tobytes() == rule.decide(np.hstack([margins, features])).tobytes()


def test_several_labels_are_decided_as_each_of_them_alone() -> None:
    margins, features, labels = rows(200)
    others, shifted = rows(200, seed=1), rows(200, seed=2)
    features[:, 3] += 3 * (labels - 0.5)
    numbers = np.hstack([margins * 0, others[0], shifted[0] / 3 - 4, features])  # a head, nothing, and a calibration win
    applies = np.stack([labels, others[2], shifted[2]], axis=1)
    several = fit_tags(numbers, applies)
    alone = [fit_rule(np.hstack([numbers[:, [i]], features]), applies[:, i], 1) for i in range(3)]
    assert [rule.kind for rule in alone] == [RuleKind.HEAD, RuleKind.ZERO_SHOT, RuleKind.PLATT]
    assert several.reads is Reads.NUMBERS | Reads.FEATURES
    decided = several.decide(numbers)
    for i, rule in enumerate(alone):
        own = np.hstack([numbers[:, [i]], features]) if Reads.FEATURES in rule.reads else numbers[:, [i]]
        assert decided[:, i].tobytes() == rule.decide(own)[:, 0].tobytes()
    assert decision_of(several.to_bytes()).decide(numbers).tobytes() == decided.tobytes()
    assert str(several).startswith(
        "a rule a label fitted to 200 labelled rows (1 × head, 1 × zero-shot, 1 × Platt calibration), CV"
    )
    assert np.isnan(several.decide(np.full_like(numbers[:1], np.nan))).all()


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"format": 2}', b'{"format": 1, "bias": [0]}', b'["{}"]', b"[" * 100_000]
)
def test_what_is_no_rule_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decision_of(content)


def test_the_fit_is_the_minimum() -> None:
    random = np.random.default_rng(3)
    scores, features, labels = random.normal(0, 2, (50, 3)), random.normal(0, 1, (50, 6)), random.integers(0, 3, 50)

    def objective(scale: float, bias: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
        logs = log_softmax(scale * scores + bias + features @ weights)
        weak = 0.01 * ((scale - 1) ** 2 + (bias**2).sum())
        return float(-logs[np.arange(50), labels].sum() + (weak + 0.5 * (weights**2).sum()) / 2)

    found = fit(scores, features, labels, 0.5, unfitted(3, 6))
    least = objective(found.scale, found.bias, found.weights)
    for _ in range(200):
        step = [random.normal(0, 1e-3, np.shape(part)) for part in (found.scale, found.bias, found.weights)]
        assert objective(found.scale + step[0], found.bias + step[1], found.weights + step[2]) > least


def test_rows_that_the_numbers_tell_apart_without_a_mistake_are_fitted() -> None:
    labels = np.arange(40) % 2
    margins = (labels * 10.0 - 5)[:, None].astype(np.float32)
    rule = fit_rule(margins, labels, 1)
    assert np.isfinite(rule.decide(margins)).all()
    assert rule.accuracy == 1.0
