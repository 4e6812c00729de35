"""The roofline: counts that add up, and seconds that follow from a machine's rates."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

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
    assert roofline.seconds(Work(pairs=1e6), 2_048) == pytest.approx(69_120 * 1e6 / 50e9)
    assert roofline.seconds(Work(pairs=1, kv_read=1e6), 2_048) == pytest.approx(23_040 * 1e6 / 20e9)


def test_passes_and_forks_cost_time_of_their_own() -> None:
    roofline = Roofline(SMOLLM, Machine(inf, inf, inf, pass_seconds=1e-3, fork_seconds=1e-4))
    assert roofline.seconds(Work(tokens=4_096, forks=7), 2_048) == pytest.approx(30 * (2e-3 + 7e-4))
    assert roofline.seconds(Work(), 2_048) == 0


def test_an_estimate_says_where_it_comes_from() -> None:
    assert (Roofline(SMOLLM, MACHINE).source, Roofline(SMOLLM, ASSUMED).source) == ("measured", "assumed")
    slower = Roofline(SMOLLM, MACHINE, correction=2.0)
    assert slower.tokens_per_second == pytest.approx(Roofline(SMOLLM, MACHINE).tokens_per_second / 2)
