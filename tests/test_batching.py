"""The schedule: every read once, shared prefixes once, cuts that depend on nothing but the request itself."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.min_tokens import min_tokens

from quail_engine.batching.batch import Batch, Node, work_of
from quail_engine.batching.forest import CHUNK_TOKENS, Held, Schedule, TokenCount, count_tokens, count_work, schedule
from quail_engine.prompts.request import NO_REFERENCE, Ids, Logits, Reference, Request


@dataclass(frozen=True)
class Reads:
    """A readout that only says what is read."""

    suffixes: tuple[Ids, ...] = ((),)
    rows: tuple[Ids, ...] = ((1, 2),)
    reference: Reference = NO_REFERENCE

    def answer(self, logits: Sequence[Logits]) -> Logits:
        raise AssertionError("the batching layer never answers")


JUDGE = Reads()
LABELS = Reads(suffixes=((), (3,), (3, 4), (3, 4, 5, 6), (7,)), rows=((3, 7), (4, 0), (5, 0), (0,), (0, 8)))
COMPARED = Reads(((), (3,), (), (3,)), ((3, 7), (4, 0)) * 2, Reference(((0, 1), (2,)), 2))
SUFFIX_RUNS: dict[Ids, tuple[Ids, ...]] = {
    (): (),
    (3,): ((3,),),
    (3, 4): ((3,), (4,)),
    (3, 4, 5, 6): ((3,), (4,), (5, 6)),
    (7,): ((7,),),
}


def ids(*counts: int, first: int = 10) -> tuple[Ids, ...]:
    """One segment of distinct tokens a count."""
    starts = [first + sum(counts[:i]) for i in range(len(counts))]
    return tuple(tuple(range(start, start + count)) for start, count in zip(starts, counts, strict=True))


def chain(nodes: dict[int, Node], number: int) -> tuple[Ids, ...]:
    """The runs of tokens from the root to a node."""
    return () if number == -1 else (*chain(nodes, nodes[number].parent), nodes[number].ids)


def expected_chain(request: Request, suffix_runs: tuple[Ids, ...]) -> tuple[Ids, ...]:
    runs = (*request.segments, *suffix_runs)
    return tuple(run[i : i + CHUNK_TOKENS] for run in runs for i in range(0, len(run), CHUNK_TOKENS))


def replay(requests: Sequence[Request], token_budget: int) -> tuple[list[Batch], dict[int, Node], dict[tuple[int, int], int]]:
    """Runs a schedule as an engine would, checking that everything it names is there; returns what was read where."""
    batches = list(schedule(requests, token_budget))
    nodes: dict[int, Node] = {}
    held: frozenset[int] = frozenset()
    read: dict[tuple[int, int], int] = {}
    for batch in batches:
        here: set[int] = set()
        for node in batch.nodes:
            assert node.number not in nodes
            assert node.parent == -1 or node.parent in held or node.parent in here
            assert 1 <= len(node.ids) <= CHUNK_TOKENS
            if node.shared:
                sibling = nodes[node.sibling]
                assert sibling.parent == node.parent
                assert node.sibling in held or node.sibling in here
                assert sibling.ids[: node.shared] == node.ids[: node.shared]
                assert node.fresh > 0
            nodes[node.number] = node
            here.add(node.number)
        assert batch.tokens <= token_budget or len(batch.nodes) == 1
        assert batch.keep <= held | here
        for entry in batch.reads:
            assert entry.node in here
            assert (entry.request, entry.part) not in read
            assert entry.rows == requests[entry.request].readout.rows[entry.part]
            read[entry.request, entry.part] = entry.node
        held = batch.keep
    assert not held
    return batches, nodes, read


def read_paths(request: Request) -> list[tuple[Ids, ...]]:
    """What is before each read: the request, or for the last ones the readout's reference."""
    readout = request.readout
    own = len(readout.suffixes) - readout.reference.reads
    starts = [request.segments] * own + [readout.reference.segments] * readout.reference.reads
    return [start + SUFFIX_RUNS[suffix] for start, suffix in zip(starts, readout.suffixes, strict=True)]


token_runs = st.lists(st.integers(0, 2), min_size=1, max_size=4).map(tuple)
requests_strategy = st.lists(
    st.builds(Request, st.lists(token_runs, min_size=1, max_size=4).map(tuple), st.sampled_from([JUDGE, LABELS, COMPARED])),
    max_size=30,
)


@given(requests_strategy, st.integers(1, 40))
def test_every_read_sees_its_request_and_every_prefix_is_prefilled_once(requests: list[Request], token_budget: int) -> None:
    batches, nodes, read = replay(requests, token_budget)
    for number, request in enumerate(requests):
        for part, path in enumerate(read_paths(request)):
            assert chain(nodes, read[number, part]) == path
    chains = [chain(nodes, number) for number in nodes]
    assert len(chains) == len(set(chains))
    paths = [path for request in requests for path in read_paths(request)]
    fresh, least = sum(batch.tokens for batch in batches), min_tokens(paths, CHUNK_TOKENS)
    # What comes first takes nothing from requests that begin alike, nor they from it.
    references = {request.readout.reference.segments for request in requests}
    assert least <= fresh <= least + sum(map(len, itertools.chain.from_iterable(references)))
    assert count_tokens(requests) == TokenCount(fresh=fresh, logical=sum(request.tokens for request in requests))


@given(requests_strategy, st.integers(1, 40))
def test_a_request_is_answered_as_soon_as_it_is_read_itself(requests: list[Request], token_budget: int) -> None:
    batches, _, _ = replay(requests, token_budget)
    last = [[-1, -1] for _ in requests]  # the batches with the last read of the request itself, and of its reference
    for number, batch in enumerate(batches):
        for read in batch.reads:
            readout = requests[read.request].readout
            compared = read.part >= len(readout.suffixes) - readout.reference.reads
            last[read.request][compared] = number
    assert all(own >= compared for own, compared in last)


@given(requests_strategy, st.integers(1, 40))
def test_only_kv_that_is_read_later_is_kept(requests: list[Request], token_budget: int) -> None:
    batches, nodes, _ = replay(requests, token_budget)
    for number, batch in enumerate(batches):
        following = [node for batch in batches[number + 1 :] for node in batch.nodes]
        later = {node.parent for node in following}
        needed = later | {node.sibling for node in following if node.shared}
        for node in later - {-1}:
            while (node := nodes[node].parent) != -1:
                needed.add(node)
        before = {node.number for earlier in batches[: number + 1] for node in earlier.nodes}
        assert batch.keep == needed & before


@given(requests_strategy, st.integers(1, 40))
def test_work_is_what_the_batches_do(requests: list[Request], token_budget: int) -> None:
    batches, nodes, _ = replay(requests, token_budget)
    work = count_work(requests)
    assert work.tokens == count_tokens(requests).fresh == sum(batch.tokens for batch in batches)
    # By the definition: every fresh token attends to all tokens before it, and to itself.
    before = {number: sum(map(len, chain(nodes, node.parent))) for number, node in nodes.items()}
    places = [range(before[n] + node.shared, before[n] + len(node.ids)) for n, node in nodes.items()]
    assert work.pairs == sum(place + 1 for place in itertools.chain.from_iterable(places))
    parents = {node.parent for node in nodes.values()} - {-1}
    assert work.kv_written == sum(nodes[number].fresh for number in parents)
    assert work.kv_read == sum(before.values())
    assert work.forks == len(parents)
    # Batch by batch the same, but that a node on which only a later batch goes on is no fork of its own.
    ends = {number: before[number] + len(node.ids) for number, node in nodes.items()}
    parts = [work_of(batch.nodes, ends) for batch in batches]
    assert sum(part.tokens for part in parts) == work.tokens
    assert sum(part.pairs for part in parts) == work.pairs


waiting_strategy = st.lists(
    st.tuples(st.builds(Request, st.lists(token_runs, min_size=1, max_size=4).map(tuple), st.just(JUDGE)), st.integers(0, 9)),
    min_size=1,
    max_size=20,
    unique_by=lambda entry: entry[0].segments,
)


@given(waiting_strategy, st.integers(1, 40), st.sampled_from([1, 10, 1_000]), st.integers(0, 3))
def test_a_request_waits_for_the_answer_to_another_on_its_kv(
    entries: list[tuple[Request, int]], token_budget: int, room: int, late: int
) -> None:
    """Of numbers that say which earlier request each waits for, 0 is none; every third answer refuses who waits. Answers are
    heard of up to `late` batches after their own."""
    requests = [request for request, _ in entries]
    after = {number: number - back for number, (_, back) in enumerate(entries) if 0 < back <= number}
    schedule = Schedule(requests, itertools.count(), after, room)
    nodes: dict[int, Node] = {}
    read: dict[int, int] = {}
    held: frozenset[int] = frozenset()
    unheard: list[list[int]] = []
    refused: set[int] = set()
    while schedule.tokens or unheard:
        batch = schedule.cut(token_budget)
        here: set[int] = set()
        last: tuple[int, ...] = ()
        for node in batch.nodes:
            assert node.number not in nodes
            assert {node.parent, *([node.sibling] if node.shared else [])} <= held | here | {-1}
            assert not node.shared or nodes[node.sibling].ids[: node.shared] == node.ids[: node.shared]
            assert nodes[node.sibling].parent == node.parent if node.shared else True
            nodes[node.number] = node
            here.add(node.number)
            last = (*last, node.number)
        assert_side_by_side(nodes, last)
        assert batch.tokens <= token_budget or len(batch.nodes) == 1
        assert batch.keep <= held | here
        held = batch.keep
        read |= {entry.request: entry.node for entry in batch.reads}
        unheard.append([entry.request for entry in batch.reads])
        while len(unheard) > late or (unheard and not schedule.tokens):
            for number in unheard.pop(0):
                refused.update(schedule.decide(number, followed=number % 3 > 0))
    assert not schedule.cut(1).keep
    for number, request in enumerate(requests):
        leader = after.get(number)
        assert (number in refused) == (leader is not None and (leader in refused or leader % 3 == 0))
        assert (number in read) == (number not in refused)
        if number in read:
            assert chain(nodes, read[number]) == expected_chain(request, ())
            assert leader is None or read[leader] < read[number]


def assert_side_by_side(nodes: dict[int, Node], batch: tuple[int, ...]) -> None:
    """All that is below a node stands together in a batch, as attention to that node takes it."""
    places: dict[int, list[int]] = {}
    for place, number in enumerate(batch):
        while (number := nodes[number].parent) != -1:
            places.setdefault(number, []).append(place)
    assert all(found == list(range(found[0], found[-1] + 1)) for found in places.values())


def test_a_second_question_costs_its_own_tokens() -> None:
    head, question, other = ids(5, 8, 4)
    texts = [ids(30, first=100 * number)[0] for number in range(1, 11)]
    requests = [Request((head, text, tail), JUDGE) for tail in (question, question[:2] + other) for text in texts]
    schedule = Schedule(requests, itertools.count(), {10 + i: i for i in range(10)})
    first = schedule.cut(1_000)
    assert first.tokens == 5 + 10 * (30 + 8)
    assert not schedule.tokens
    assert schedule.decide(0, followed=True) == []
    assert schedule.decide(1, followed=False) == [11]
    assert schedule.tokens == len(other)
    for number in range(2, 10):
        schedule.decide(number, followed=True)
    second = schedule.cut(1_000)
    assert second.tokens == 9 * len(other)
    assert [entry.request for entry in second.reads] == [10, *range(12, 20)]
    asked = [requests[number] for number in [*range(10), 10, *range(12, 20)]]
    assert first.tokens + second.tokens == min_tokens([request.segments for request in asked], CHUNK_TOKENS)
    assert not second.keep


def test_kv_that_waits_has_a_bound() -> None:
    head, question, other = ids(5, 8, 4)
    texts = [ids(30, first=100 * number)[0] for number in range(1, 11)]
    requests = [Request((head, text, tail), JUDGE) for tail in (question, other) for text in texts]
    schedule = Schedule(requests, itertools.count(), {10 + i: i for i in range(10)}, room=100)
    assert schedule.cut(40).tokens == 5 + 30
    assert [schedule.cut(40).tokens for _ in range(2)] == [8 + 30, 8 + 30]
    assert not schedule.tokens, "two texts wait for what their answers say"
    assert schedule.cut(40).nodes == ()
    assert schedule.decide(1, followed=False) == [11]
    assert schedule.cut(40).tokens == 38


def test_held_kv_is_read_by_the_next_schedule() -> None:
    head, question, other = ids(5, 8, 4)
    texts = [ids(700, first=1_000 * number)[0] for number in range(1, 5)]
    numbers, held = itertools.count(), Held(2)
    first = Schedule([Request((head, text, question), JUDGE) for text in texts[:3]], numbers, held=held)
    begun = [first.cut(2_000), first.cut(2_000)]
    assert sum(batch.tokens for batch in begun) == 5 + 3 * (700 + 8)
    assert begun[-1].keep == held.numbers
    assert sum(len(tokens) for _, tokens in held.nodes) == 5 + 3 * 700
    asked = [Request((head, text, other), JUDGE) for text in texts[2:]]
    second = Schedule(asked, numbers, held=Held(0, held.nodes))
    assert second.tokens == 4 + 700 + 4
    batch = second.cut(2_000)
    assert {node.parent for node in batch.nodes} - {node.number for node in batch.nodes} <= held.numbers
    assert len(batch.reads) == 2
    assert count_work(asked, held=2).tokens == 2 * 4
    assert count_work(asked, held=0).tokens == 5 + 2 * (700 + 4)


def test_requests_share_what_they_begin_with() -> None:
    head, document, question, other = ids(5, 20, 3, 4)
    requests = [
        Request((head, document, question), JUDGE),
        Request((head, document, other), JUDGE),
        Request((head, document + question), JUDGE),  # cut elsewhere: a node of its own, with the document's KV
        Request((document, question), JUDGE),
    ]
    assert count_tokens(requests) == TokenCount(fresh=5 + 20 + 3 + 4 + 3 + 20 + 3, logical=28 + 29 + 28 + 23)


def test_equal_requests_are_prefilled_once_and_read_twice() -> None:
    requests = [Request(ids(4, 6), JUDGE), Request(ids(4, 6), JUDGE)]
    (batch,) = schedule(requests, 100)
    assert batch.tokens == 10
    assert [(read.node, read.request) for read in batch.reads] == [(1, 0), (1, 1)]


def test_a_request_that_is_a_prefix_of_another_is_read_on_the_way() -> None:
    head, document, question = ids(4, 6, 2)
    (batch,) = schedule([Request((head, document, question), JUDGE), Request((head, document), JUDGE)], 100)
    assert {(read.node, read.request) for read in batch.reads} == {(2, 0), (1, 1)}


def test_nodes_come_depth_first_in_the_order_of_their_tokens() -> None:
    head, a, b, p, q = ids(2, 3, 3, 1, 1)
    (batch,) = schedule([Request((head, document, question), JUDGE) for question in (q, p) for document in (b, a)], 100)
    assert [node.ids for node in batch.nodes] == [head, a, p, q, b, p, q]


@pytest.mark.parametrize("token_budget", [1, 100, 513, 5_000])
def test_long_segments_are_cut_at_fixed_places_whatever_the_budget(token_budget: int) -> None:
    request = Request(ids(10, 2 * CHUNK_TOKENS + 7, 3), JUDGE)
    _, nodes, read = replay([request], token_budget)
    assert chain(nodes, read[0, 0]) == expected_chain(request, ())
    assert [len(run) for run in chain(nodes, read[0, 0])] == [10, CHUNK_TOKENS, CHUNK_TOKENS, 7, 3]


@pytest.mark.parametrize("token_budget", [1, 60, 600, 5_000])
def test_versions_of_a_long_document_share_every_token_of_their_beginning(token_budget: int) -> None:
    (long,) = ids(CHUNK_TOKENS + 50)
    other = (*long[: CHUNK_TOKENS + 30], 7, 8, 9)
    requests = [Request((document, (1,)), JUDGE) for document in (long, long[:-1], other)]
    batches, _, _ = replay(requests, token_budget)
    assert sum(batch.tokens for batch in batches) == count_tokens(requests).fresh == CHUNK_TOKENS + 50 + 3 + 3


def test_short_documents_share_their_first_words() -> None:
    head, question = ids(5, 4)
    requests = [Request((head, document, question), JUDGE) for document in ((1, 2, 3), (1, 2, 4, 5), (6,), (1, 2))]
    (batch,) = schedule(requests, 100)
    assert [(node.ids, node.shared) for node in batch.nodes if node.ids not in (head, question)] == [
        ((1, 2), 0),
        ((1, 2, 3), 2),
        ((1, 2, 4, 5), 2),
        ((6,), 0),
    ]
    assert batch.tokens == 5 + 2 + 1 + 2 + 1 + 4 * 4


def test_a_node_is_kept_for_the_sibling_after_it() -> None:
    head, question = ids(5, 4)
    batches, nodes, _ = replay([Request((head, (1, 2, last), question), JUDGE) for last in (3, 4, 5)], 12)
    assert [batch.tokens for batch in batches] == [12, 10]
    assert sorted(nodes[number].ids for number in batches[0].keep) == [(1, 2, 3), head]


def test_a_document_is_kept_while_its_questions_need_more_batches() -> None:
    head, document, *questions = ids(5, 30, 4, 4, 4, 4, 4)
    batches, nodes, _ = replay([Request((head, document, question), JUDGE) for question in questions], 40)
    assert [batch.tokens for batch in batches] == [39, 16]
    assert [nodes[number].ids for number in sorted(batches[0].keep)] == [head, document]
    assert batches[1].keep == frozenset()


def test_a_label_trie_shares_its_inner_nodes() -> None:
    request = Request(ids(4), LABELS)
    _, nodes, read = replay([request], 100)
    assert [chain(nodes, read[0, part])[1:] for part in range(5)] == [(), ((3,),), ((3,), (4,)), ((3,), (4,), (5, 6)), ((7,),)]
    assert count_tokens([request]) == TokenCount(fresh=4 + 5, logical=4 + 8)


def test_nothing_to_ask_is_no_batch() -> None:
    assert list(schedule([], 100)) == []
    assert count_tokens([]) == TokenCount(0, 0)
