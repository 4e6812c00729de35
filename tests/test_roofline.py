"""The roofline: counts that add up, and seconds that follow from a machine's rates."""

from __future__ import annotations

import os
from dataclasses import replace
from math import inf

import pytest

from quail_engine.engine.rates import corrected, is_undisturbed
from quail_engine.roofline import ASSUMED, CHUNK_TOKENS, Machine, ModelShape, Roofline, Work, run

SMOLLM = ModelShape(layers=30, hidden=576, heads=9, kv_heads=3, head_dim=64, mlp=1536)
MACHINE = Machine(matrix_flops=350e9, attention_flops=50e9, bandwidth=20e9, measured=True)


def test_a_run_costs_the_same_in_two_pieces() -> None:
    for tokens in (1, 511, 512, 513, 2_000):
        for before in (0, 30):
            whole, head = run(before, tokens, False), run(before, 512, True)
            if tokens > CHUNK_TOKENS:
                assert whole == head + run(before + 512, tokens - 512, False)
            assert whole.pairs == sum(range(before + 1, before + tokens + 1))


def test_counts_scale_and_add_up() -> None:
    assert run(10, 4, True) * 3 == sum([run(10, 4, True)] * 2, run(10, 4, True))
    assert run(10, 0, True) == Work()


def test_a_models_parameters() -> None:
    assert SMOLLM.projections + SMOLLM.mlps == 106_168_320
    assert 4 * SMOLLM.heads * SMOLLM.head_dim * SMOLLM.layers == 69_120
    assert SMOLLM.kv_bytes == 2 * 2 * 30 * 3 * 64


def test_many_tokens_are_bound_by_computing_and_few_by_reading_the_weights() -> None:
    roofline = Roofline(SMOLLM, MACHINE)
    many = Work(tokens=100_000)
    assert roofline.seconds(many, 2_048) == pytest.approx(2 * 106_168_320 * 100_000 / 350e9)
    few = Work(tokens=1)
    assert roofline.seconds(few, 2_048) == pytest.approx(2 * 106_168_320 / 20e9)
    assert roofline.seconds(few * 2, 1) == pytest.approx(2 * roofline.seconds(few, 1))


def test_attention_is_bound_by_computing_or_by_reading_kv() -> None:
    roofline = Roofline(SMOLLM, replace(MACHINE, matrix_flops=inf, bandwidth=20e9))
    assert roofline.seconds(Work(own_pairs=1e6), 2_048) == pytest.approx(69_120 * 1e6 / 50e9)
    assert roofline.seconds(Work(own_pairs=1, kv_read=1e6), 2_048) == pytest.approx(23_040 * 1e6 / 20e9)


def test_passes_and_forks_cost_time_of_their_own() -> None:
    roofline = Roofline(SMOLLM, Machine(inf, inf, inf, pass_seconds=1e-3, fork_seconds=1e-4))
    assert roofline.seconds(Work(tokens=4_096, forks=7), 2_048) == pytest.approx(30 * (2e-3 + 7e-4))
    assert roofline.seconds(Work(), 2_048) == 0


def test_attention_to_a_prefix_has_a_rate_of_its_own() -> None:
    roofline = Roofline(SMOLLM, replace(MACHINE, matrix_flops=inf, bandwidth=inf, prefix_gain=4.0))
    few_shot = run(600, 30, read_on=False) * 60
    assert (few_shot.own_pairs, few_shot.prefix_pairs) == (60 * 465, 60 * 18_000)
    assert roofline.seconds(few_shot, 2_048) == pytest.approx(69_120 * (60 * 465 + 60 * 18_000 / 4) / 50e9)
    # The chunks of a long text attend to those before them.
    long = run(0, 1_000, read_on=False)
    assert long.prefix_pairs == 488 * CHUNK_TOKENS
    assert long.pairs == sum(range(1, 1_001))


def after(roofline: Roofline, *times: float, tokens: int = 1_000) -> Roofline:
    """A roofline after batches that took so many times as long as it says."""
    work = Work(tokens=tokens)
    for factor in times:
        roofline = corrected(roofline, work, factor * roofline.seconds(work, tokens) / roofline.correction)
    return roofline


def test_the_faster_batches_are_believed() -> None:
    measured = Roofline(SMOLLM, MACHINE)
    assert after(measured, *[1.5] * 32).correction == pytest.approx(1.5)
    assert after(measured, *[0.8] * 3).correction == pytest.approx(0.8)
    # An hour beside other programs does not count once a few batches were alone again, whichever came first.
    assert after(measured, *[6.0] * 24, *[1.1] * 9).correction == pytest.approx(1.1)
    assert after(measured, *[1.1] * 9, *[6.0] * 23).correction == pytest.approx(1.1)
    # Few batches do not outweigh the measurement, nor do small ones count.
    assert after(measured, *[6.0] * 5).correction == 1
    assert after(measured, *[6.0] * 40, tokens=20) == measured
    assert after(measured, *[100.0] * 40).correction == 8


@pytest.mark.parametrize(
    ("cpu_seconds", "threads", "alone"), [(1.9, 2, True), (1.4, 2, False), (1.0, 1, True), (0.6, 1, False)]
)
def test_a_batch_that_waited_for_a_core_does_not_count(
    cpu_seconds: float, threads: int, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert is_undisturbed(1.0, cpu_seconds, threads) is alone
    # More threads than cores have no more than these.
    assert is_undisturbed(1.0, cpu_seconds, 16) is (cpu_seconds > 1.7)


def test_an_estimate_says_where_it_comes_from() -> None:
    assert (Roofline(SMOLLM, MACHINE).source, Roofline(SMOLLM, ASSUMED).source) == ("measured", "assumed")
    slower = Roofline(SMOLLM, MACHINE, past=(2.0,) * 8)
    assert slower.tokens_per_second == pytest.approx(Roofline(SMOLLM, MACHINE).tokens_per_second / 2)
