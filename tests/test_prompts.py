"""Prompts: readouts, tokenizers, profiles and rendering."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quail_engine.errors import ModelError
from quail_engine.prompts.readout import JudgeReadout, Spellings, TagReadout, TrieReadout
from quail_engine.prompts.request import Ids, Logits

SPELLINGS = Spellings(true=(1, 2), false=(3, 4))
END = (99,)


def logits(*values: float) -> Logits:
    return np.array(values, np.float32)


def test_judge_margin_is_the_log_odds_of_the_spellings() -> None:
    readout = JudgeReadout(SPELLINGS)
    assert readout.suffixes == ((),)
    assert readout.rows == ((1, 2, 3, 4),)
    expected = math.log(math.exp(2) + math.exp(1)) - math.log(math.exp(0) + math.exp(-1))
    (margin,) = readout.answer([logits(2, 1, 0, -1)])
    assert margin == pytest.approx(expected, abs=1e-6)
    assert margin.dtype == np.float32


def test_judge_margin_survives_large_logits_and_swaps_sign() -> None:
    readout = JudgeReadout(SPELLINGS)
    (margin,) = readout.answer([logits(30_000, 0, 29_990, 0)])
    (swapped,) = readout.answer([logits(29_990, 0, 30_000, 0)])
    assert margin == pytest.approx(10)
    assert swapped == -margin


def test_judge_tie_is_exactly_zero() -> None:
    (margin,) = JudgeReadout(SPELLINGS).answer([logits(0.1, 0.7, 0.1, 0.7)])
    assert margin == 0.0


def test_nan_logits_make_every_number_nan() -> None:
    assert np.isnan(JudgeReadout(SPELLINGS).answer([logits(0, math.nan, 0, 0)])).all()
    tags = TagReadout(SPELLINGS, ((7,), (8,)))
    assert np.isnan(tags.answer([logits(0, 0, 0, 0), logits(0, 0, math.nan, 0)])).all()
    trie = TrieReadout.of([(1,), (2, 3), (2, 4)], END)
    assert np.isnan(trie.answer([logits(0, 0), logits(math.nan, 0)])).all()


def test_tag_reads_each_label_by_its_own_suffix() -> None:
    readout = TagReadout(SPELLINGS, ((7,), (8, 9)))
    assert readout.rows == (SPELLINGS.rows, SPELLINGS.rows)
    first, second = readout.answer([logits(1, 0, 0, 0), logits(0, 0, 1, 0)])
    assert first > 0 > second
    assert first == -second


def test_trie_reads_the_cue_and_each_deeper_branching_node() -> None:
    readout = TrieReadout.of([(5, 6), (5, 7), (8,)], END)
    assert readout.suffixes == ((), (5,))
    assert readout.rows == ((5, 8), (6, 7))
    answer = np.exp(readout.answer([logits(0, math.log(3)), logits(math.log(4), 0)]))
    assert answer == pytest.approx([0.25 * 0.8, 0.25 * 0.2, 0.75])


def test_trie_prefix_label_competes_with_its_continuation_at_the_end_token() -> None:
    readout = TrieReadout.of([(5,), (5, 6, 7, 7, 7)], END)
    assert readout.suffixes == ((5,),), "the shared first token is certain and costs no read"
    assert readout.rows == ((99, 6),)
    assert np.exp(readout.answer([logits(0, 0)])) == pytest.approx([0.5, 0.5]), "length alone makes nothing less likely"


def test_trie_of_one_label_is_certain_and_still_read() -> None:
    readout = TrieReadout.of([(5, 6)], END)
    assert (readout.suffixes, readout.rows) == (((),), ((5,),))
    assert list(readout.answer([logits(-3)])) == [0.0]
    assert np.isnan(readout.answer([logits(math.nan)])).all()


def test_trie_takes_the_empty_label() -> None:
    readout = TrieReadout.of([(), (5,)], END)
    assert readout.rows == ((99, 5),)


def test_trie_refuses_labels_with_the_same_tokens() -> None:
    with pytest.raises(ModelError, match="same tokens"):
        TrieReadout.of([(5,), (5,)], END)


LABELS = st.lists(st.lists(st.integers(0, 3), max_size=5).map(tuple), min_size=1, max_size=12, unique=True)


@given(labels=LABELS, seed=st.integers(0, 2**32 - 1))
def test_trie_probabilities_sum_to_one_and_follow_the_labels(labels: list[Ids], seed: int) -> None:
    readout = TrieReadout.of(labels, END)
    random = np.random.default_rng(seed)
    value = {
        node: dict(zip(rows, random.normal(0, 4, len(rows)), strict=True))
        for node, rows in zip(readout.suffixes, readout.rows, strict=True)
    }
    answer = readout.answer([logits(*value[node].values()) for node in readout.suffixes])
    assert np.exp(answer.astype(np.float64)).sum() == pytest.approx(1, abs=1e-5)

    shuffled = list(random.permutation(len(labels)))
    other = TrieReadout.of([labels[i] for i in shuffled], END)
    again = other.answer(
        [logits(*(value[node][row] for row in rows)) for node, rows in zip(other.suffixes, other.rows, strict=True)]
    )
    assert again == pytest.approx(answer[shuffled], abs=1e-5), "the order of the labels does not matter"
