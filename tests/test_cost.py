"""What lengths say about a layout's cost is what batching counts of its requests."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Sequence

import pytest

from quail_engine.batching.forest import count_work
from quail_engine.plan.cost import Length, PromptParts, Slot, Suffix, asking
from quail_engine.prompts.readout import JudgeReadout, Spellings, TrieReadout
from quail_engine.prompts.request import Ids, Readout, Request
from quail_engine.roofline import Work

JUDGE = JudgeReadout(Spellings((1,), (2,)))
TRIE = TrieReadout.of([(3,), (3, 4), (3, 4, 5, 6), (3, 4, 5, 7), (8,)], (9,))
TRIE_RUNS = (Suffix(0, 1, True), Suffix(1, 1, True), Suffix(2, 1, False))  # behind 3 and 3 4 something branches; 5 is certain

LAYOUTS = {
    "document first": (5, Slot(0), 7),
    "question first": (12, Slot(0), 2),
    "a few-shot head": (600, Slot(0), 3),
    "nothing in front": (Slot(0), 4),
    "nothing behind": (4, Slot(0)),
}


def texts(count: int, longest: int, first: int, draw: random.Random) -> list[Ids]:
    """Texts that begin differently."""
    return [(first + i, *range(10, 10 + draw.randrange(longest))) for i in range(count)]


def length_of(texts: Sequence[Ids]) -> Length:
    lengths = [len(text) for text in texts]
    return Length(statistics.fmean(lengths), statistics.pvariance(lengths))


def requests(parts: Sequence[int | Slot], rows: Sequence[tuple[Ids, ...]], readout: Readout, mark: int = -1) -> list[Request]:
    constants = [(mark - number,) * part if isinstance(part, int) else () for number, part in enumerate(parts)]
    return [
        Request(
            tuple(row[p.argument] if isinstance(p, Slot) else constant for p, constant in zip(parts, constants, strict=True)),
            readout,
        )
        for row in rows
    ]


def assert_same(estimated: Work, counted: Work) -> None:
    assert estimated.counts == pytest.approx(counted.counts)


@pytest.mark.parametrize("readout", [JUDGE, TRIE], ids=["judge", "labels"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_filters_and_classifications(layout: str, readout: Readout) -> None:
    parts, draw = LAYOUTS[layout], random.Random(layout)
    rows = texts(40, 200, 1_000, draw)
    prompt = PromptParts(parts, TRIE_RUNS if readout is TRIE else ())
    estimated = asking(prompt, [length_of(rows)], [len(rows)])
    assert_same(estimated, count_work(requests(parts, [(row,) for row in rows], readout)))


@pytest.mark.parametrize("anchor", [0, 1])
def test_pairs_share_their_anchor(anchor: int) -> None:
    draw = random.Random(anchor)
    sides = texts(12, 150, 1_000, draw), texts(9, 60, 2_000, draw)
    rows = list(itertools.product(*sides))
    parts: tuple[int | Slot, ...] = (5, Slot(anchor), 3, Slot(1 - anchor), 11)
    lengths = [length_of(sides[anchor]), length_of(sides[1 - anchor])]
    estimated = asking(PromptParts(parts), lengths, [len(sides[anchor]), len(rows)])
    assert_same(estimated, count_work(requests(parts, rows, JUDGE)))


def test_a_text_that_stands_twice_is_prefilled_twice() -> None:
    rows = [(text,) for text in texts(10, 30, 1_000, random.Random(2))]
    parts = (2, Slot(0), 3, Slot(0), 4)
    same = texts(10, 1, 1_000, random.Random(2))  # of one length, so that no cross term of lengths is left out
    assert_same(asking(PromptParts(parts), [length_of(same)], [10]), count_work(requests(parts, [(t,) for t in same], JUDGE)))
    assert asking(PromptParts(parts), [length_of([t for (t,) in rows])], [10]).tokens == pytest.approx(
        count_work(requests(parts, rows, JUDGE)).tokens
    )


def test_long_texts_are_chunks() -> None:
    rows = [tuple(range(1_000 * i, 1_000 * i + 1_300)) for i in range(1, 4)]
    parts = (5, Slot(0), 7)
    estimated = asking(PromptParts(parts), [Length(1_300)], [3])
    assert_same(estimated, count_work(requests(parts, [(row,) for row in rows], JUDGE)))


def test_a_second_question_finds_the_documents_there() -> None:
    rows = [(text,) for text in texts(20, 100, 1_000, random.Random(3))]
    length = [length_of([text for (text,) in rows])]
    one, other = ((5, Slot(0), 7), (5, Slot(0), 9))
    both = requests(one, rows, JUDGE) + [
        Request((*first.segments[:2], (-50,) * 9), JUDGE) for first in requests(one, rows, JUDGE)
    ]
    first, second = asking(PromptParts(one), length, [20]), asking(PromptParts(other), length, [20], resident=True)
    assert_same(first + second, count_work(both))
