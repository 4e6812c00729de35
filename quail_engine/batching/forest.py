"""Requests become a forest of shared prefixes, and the forest a sequence of batches.

Equal leading segments are one node, whoever asks for them. Where the cuts between nodes lie follows from a request alone
(its segments, its readout's suffixes, `CHUNK_TOKENS`), never from what happened to be shared: attention over a cut prefix
rounds differently from attention over a whole one, and an answer must not depend on the requests beside it.

Nodes that only begin alike, such as two versions of one text, stay two nodes: each attends to itself as a whole. But a token's
keys and values depend on nothing behind it, so the second node takes those of the common beginning from the first.

A request may wait for the answer to another one that begins alike, as the second question about a text does. It joins the
forest when that answer says so; until then the KV of the first one's path is kept, and so it costs what is its own.

Nor need requests that begin alike be known at the same time: what they begin with may be `Held` from one schedule to the next.

What requests are compared with comes before them: until it is read none has an answer, and a process that is killed loses all.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from types import MappingProxyType

from quail_engine.batching.batch import Batch, Node, Read, work_of
from quail_engine.prompts.request import HIDDEN, Ids, Readout, Request
from quail_engine.roofline import CHUNK_TOKENS, Work

ROOT = -1
"""The parent of the first node of a prompt."""


@dataclass(frozen=True)
class TokenCount:
    """What a set of requests costs."""

    fresh: int  # tokens that are prefilled: each shared prefix once
    logical: int  # tokens that the requests would cost one by one


@dataclass(frozen=True)
class _Forest:
    """A node is an index into `ids` and `parents`; parents come before their children."""

    ids: list[Ids]
    parents: list[int]
    children: dict[int, list[int]]  # a reference's first, then by their tokens; the roots are the children of ROOT
    siblings: dict[int, tuple[int, int]]  # node → the sibling before it, and with how many equal tokens both begin
    reads: dict[int, list[tuple[Ids, int, int]]]  # node → (head rows, request, part)
    ends: dict[int, int]  # request → the node of its last segment
    first: set[int]  # nodes of the requests' first segments, so many as was asked for

    @property
    def fresh(self) -> int:
        """Tokens to prefill."""
        return sum(map(len, self.ids)) - sum(shared for _, shared in self.siblings.values())

    def fresh_of(self, node: int) -> int:
        return len(self.ids[node]) - (self.siblings[node][1] if node in self.siblings else 0)

    def path(self, node: int) -> list[int]:
        """The nodes from the root to `node`, with it."""
        found = []
        while node != ROOT:
            found.append(node)
            node = self.parents[node]
        return found[::-1]


@dataclass
class Held:
    """KV that stays from one schedule to the next: that of the segments which requests of both begin with.

    Whoever has the engine's batches composed keeps `numbers` in all of them, and lets go of this when nothing reads it again.
    """

    segments: int  # so many first ones of each request stay
    nodes: dict[tuple[int, Ids], int] = field(default_factory=dict)  # number of a node, by that of its parent, and its tokens

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(self.nodes.values())


class Schedule:
    """Requests on their way to the engine: what is left of their forest is cut off piece by piece.

    Nodes come depth-first, siblings in the order of their tokens. So a node begins most alike the sibling before it, and the KV
    that a piece leaves for the next ones is no more than the path to the next node, and that sibling; besides the paths of
    requests that others wait for, up to `room`. `Read.request` is an index into the requests.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        numbers: Iterator[int],
        after: Mapping[int, int] = MappingProxyType({}),
        room: float = inf,
        held: Held | None = None,
    ) -> None:
        """`numbers`: of nodes, ascending; schedules whose pieces share batches draw from one.

        `after`: requests that wait, each with the one that it waits for. `room`: tokens of live KV from which on nothing is cut
        off but what waits no longer. `held`: what earlier schedules left and this one does; it is added to.
        """
        self._requests = requests
        self._held = held or Held(0)
        self._forest = forest = _grow(requests, after, self._held.segments)
        self._given = [0] * len(forest.ids)  # numbers, by index in the forest
        there = self._give_held()
        self._order = (node for node in _depth_first(forest) if node not in there)
        self._next = next(self._order, None)
        self._numbers = numbers
        self._left = forest.fresh - sum(map(forest.fresh_of, there))  # of what waits for nothing
        readouts = {id(request.readout): request.readout for request in requests}
        self._hidden = any(HIDDEN in rows for readout in readouts.values() for rows in readout.rows)
        self._followers: dict[int, list[int]] = {}
        for number, leader in after.items():
            self._followers.setdefault(leader, []).append(number)
        self._leaders: dict[int, list[int]] = {}  # by the node where they end
        for leader in self._followers:
            if leader in forest.ends:
                self._leaders.setdefault(forest.ends[leader], []).append(leader)
        self._undecided: dict[int, int] = {}  # leaders that were cut off, with the node where they end
        self._ready: deque[int] = deque()  # nodes of requests that wait no longer
        self._room = room

    def _give_held(self) -> set[int]:
        """Numbers the nodes that were held; returns them."""
        forest, found = self._forest, set[int]()
        stack = [(ROOT, ROOT)]  # a node, and its number
        while stack:
            node, number = stack.pop()
            for child in forest.children.get(node, ()) if self._held.nodes else ():
                known = self._held.nodes.get((number, forest.ids[child]))
                if known is not None and child not in forest.reads:
                    self._given[child] = known
                    found.add(child)
                    stack.append((child, known))
        return found

    @property
    def tokens(self) -> int:
        """Those that can be cut off."""
        ready = sum(map(self._forest.fresh_of, self._ready))
        return ready if self._is_full() else ready + self._left

    def cut(self, token_budget: int, at_least_one: bool = True) -> Batch:
        """The next nodes, of at most `token_budget` tokens together; `at_least_one` comes even if it alone is larger."""
        forest, chosen, tokens = self._forest, list[int](), 0
        followers = bool(self._ready)
        full = self._is_full()
        while (index := self._ready[0] if self._ready else None if full else self._next) is not None:
            fresh = forest.fresh_of(index)
            if tokens + fresh > token_budget and (chosen or not at_least_one):
                break
            tokens += fresh
            chosen.append(index)
            if self._ready:
                self._ready.popleft()
            else:
                self._left -= fresh
                self._next = next(self._order, None)
        return self._batch(_side_by_side(forest, chosen) if followers else chosen)

    def decide(self, request: int, followed: bool) -> list[int]:
        """Says whether those that wait for a request that was answered are asked. Returns those that never will be."""
        end, waiting = self._undecided.pop(request, ROOT), self._followers.pop(request, [])
        if not followed:
            return waiting + [other for number in waiting for other in self.decide(number, False)]
        for number in waiting:
            self._follow(end, number)
        return []

    def _batch(self, chosen: Sequence[int]) -> Batch:
        forest, given = self._forest, self._given
        nodes: list[Node] = []
        reads: list[Read] = []
        for index in chosen:
            ids, parent = forest.ids[index], forest.parents[index]
            sibling, shared = forest.siblings.get(index, (ROOT, 0))
            number = given[index] = next(self._numbers)
            parent = ROOT if parent == ROOT else given[parent]
            if index in forest.first:
                self._held.nodes[parent, ids] = number
            nodes.append(Node(number, parent, ids, given[sibling], shared) if shared else Node(number, parent, ids))
            if index in forest.reads:
                reads += [Read(number, rows, request, part) for rows, request, part in forest.reads[index]]
            self._undecided |= dict.fromkeys(self._leaders.pop(index, ()), index)
        keep = self._held.numbers.union(given[node] for node in self._live())
        return Batch(tuple(nodes), tuple(reads), keep, self._hidden)

    def _live(self) -> set[int]:
        """Nodes whose KV something needs that is to come, or may be."""
        coming = [*self._ready, *(() if self._next is None else (self._next,))]
        new = set(self._ready)
        live = {node for index in coming for node in _needed(self._forest, index)} - new
        return live | {node for end in self._undecided.values() for node in self._forest.path(end)}

    def _is_full(self) -> bool:
        return bool(self._undecided) and sum(len(self._forest.ids[node]) for node in self._live()) >= self._room

    def _follow(self, end: int, number: int) -> None:
        """Adds a request behind the path of the one that it waited for."""
        forest, path = self._forest, self._forest.path(end)
        request, place = self._requests[number], ROOT
        assert not request.readout.reference.reads, "what waits is compared with no other prompt"
        runs = [run for segment in request.segments for run in _runs(segment)]
        shared = next((depth for depth, (run, node) in enumerate(zip(runs, path, strict=False)) if run != forest.ids[node]), 0)
        shared = min(shared, len(runs) - 1)  # it ends in a node of its own
        if shared:
            place = path[shared - 1]
        for depth, run in enumerate(runs[shared:], shared):
            place = self._added(place, run)
            if depth == shared < len(path) and (common := min(_common(forest.ids[path[depth]], run), len(run) - 1)):
                forest.siblings[place] = path[depth], common
        if number in self._followers:
            self._leaders[place] = [number]
        known: dict[tuple[int, Ids], int] = {}
        for part, (suffix, rows) in enumerate(zip(_suffix_paths(request.readout.suffixes), request.readout.rows, strict=True)):
            node = place
            for run in (run for piece in suffix for run in _runs(piece)):
                if (node, run) not in known:
                    known[node, run] = self._added(node, run)
                node = known[node, run]
            forest.reads.setdefault(node, []).append((rows, number, part))

    def _added(self, parent: int, run: Ids) -> int:
        node = len(self._forest.ids)
        self._forest.ids.append(run)
        self._forest.parents.append(parent)
        self._given.append(0)
        self._ready.append(node)
        return node


def schedule(requests: Sequence[Request], token_budget: int) -> Iterator[Batch]:
    """The batches that answer `requests` alone, each of at most `token_budget` fresh tokens unless one node is larger."""
    assert token_budget > 0, "a batch needs room for a token"
    whole = Schedule(requests, itertools.count())
    while whole.tokens:
        yield whole.cut(token_budget)


def joined(pieces: Sequence[Batch], keep: frozenset[int]) -> Batch:
    """Pieces of several schedules as one batch. `Read.request` still counts within its piece."""
    nodes = itertools.chain.from_iterable(piece.nodes for piece in pieces)
    reads = itertools.chain.from_iterable(piece.reads for piece in pieces)
    return Batch(tuple(nodes), tuple(reads), keep, any(piece.hidden for piece in pieces))


def count_tokens(requests: Sequence[Request]) -> TokenCount:
    """The tokens that `schedule` would prefill, for estimates."""
    return TokenCount(fresh=_grow(requests).fresh, logical=sum(request.tokens for request in requests))


def count_work(requests: Sequence[Request], held: int = 0) -> Work:
    """What `schedule` would have an engine do. `held`: so many first segments of each request, whose KV is there."""
    forest = _grow(requests, held=held)
    nodes = enumerate(zip(forest.ids, forest.parents, strict=True))
    ends: dict[int, int] = {}
    for node in sorted(forest.first):
        ends[node] = ends.get(forest.parents[node], 0) + len(forest.ids[node])
    fresh = ((n, parent, ids) for n, (ids, parent) in nodes if n not in forest.first)
    return work_of((Node(n, parent, ids, *forest.siblings.get(n, (ROOT, 0))) for n, parent, ids in fresh), ends)


def _grow(requests: Sequence[Request], without: Collection[int] = (), held: int = 0) -> _Forest:
    """Merges the requests' paths from the root, but for those of some requests, by their numbers.

    The nodes of so many first segments of each, `held`, are the forest's `first`, but never the last one, as that is read.
    """
    forest = _Forest([], [], {}, {}, {}, {}, set())
    known: dict[tuple[int, Ids], int] = {}
    # Requests in a row often begin with the very same segments and have one readout; these are not compared by content.
    before: tuple[Ids, ...] = ()
    path: list[int] = []
    readout: Readout | None = None
    reads: list[tuple[tuple[Ids, ...], Ids]] = []  # of the readout: the path after the request or the reference, and head rows
    own, reference = 0, ROOT  # of the readout: how many reads are after the request, and the node that the others are after
    early = set[int]()  # nodes of references
    for number, request in enumerate(requests):
        if number in without:
            continue
        segments = request.segments
        depth = _shared(before, segments)
        del path[depth:]
        for segment in segments[depth:]:
            path.append(_place(forest, known, path[-1] if path else ROOT, segment))
        before = segments
        if depth < held:
            forest.first.update(*map(forest.path, path[:-1][:held]))
        if without:
            forest.ends[number] = path[-1]
        if request.readout is not readout:
            readout = request.readout
            reads = list(zip(_suffix_paths(readout.suffixes), readout.rows, strict=True))
            own, reference = len(reads) - readout.reference.reads, ROOT
            for segment in readout.reference.segments:
                reference = _place(forest, known, reference, segment)
            early.update(forest.path(reference))
        for part, (runs, rows) in enumerate(reads):
            node = path[-1] if part < own else reference
            for run in runs:
                node = _place(forest, known, node, run)
            forest.reads.setdefault(node, []).append((rows, number, part))
    for children in forest.children.values():
        _compare(forest, children, early)
    return forest


def _compare(forest: _Forest, children: list[int], early: set[int]) -> None:
    """Sorts the children of a node, `early` ones before the others, and notes what each begins with that the one before it
    does, too."""
    ids = forest.ids
    children.sort(key=ids.__getitem__)
    if not early.isdisjoint(children):
        children.sort(key=lambda node: node not in early)
    for one, other in itertools.pairwise(children):
        if (one in early) == (other in early) and (shared := _common(ids[one], ids[other])):
            forest.siblings[other] = one, shared


def _common(one: Ids, other: Ids) -> int:
    """How many tokens at the beginning are equal.

    >>> _common((5, 6, 7), (5, 6, 8, 9)), _common((5,), (5, 6)), _common((5,), (6,))
    (2, 1, 0)
    """
    if one[0] != other[0]:
        return 0
    lengths = range(min(len(one), len(other)))
    return bisect_left(lengths, True, key=lambda length: one[: length + 1] != other[: length + 1])


def _shared(one: tuple[Ids, ...], other: tuple[Ids, ...]) -> int:
    """How many segments at the beginning are the same objects."""
    for depth, (a, b) in enumerate(zip(one, other, strict=False)):
        if a is not b:
            return depth
    return min(len(one), len(other))


def _place(forest: _Forest, known: dict[tuple[int, Ids], int], parent: int, run: Ids) -> int:
    """The last node of `run` below `parent`."""
    if len(run) > CHUNK_TOKENS:
        for chunk in _runs(run):
            parent = _place(forest, known, parent, chunk)
        return parent
    new = len(forest.ids)
    node = known.setdefault((parent, run), new)
    if node == new:
        forest.ids.append(run)
        forest.parents.append(parent)
        if parent in forest.children:
            forest.children[parent].append(node)
        else:
            forest.children[parent] = [node]
    return node


def _runs(segment: Ids) -> list[Ids]:
    """A segment as the nodes that it is cut into."""
    return [segment[start : start + CHUNK_TOKENS] for start in range(0, len(segment), CHUNK_TOKENS)]


@lru_cache(maxsize=256)
def _suffix_paths(suffixes: tuple[Ids, ...]) -> tuple[tuple[Ids, ...], ...]:
    """Each suffix as a chain of runs: a suffix that begins with another one continues it.

    The inner nodes of a label trie are themselves read, so this shares the whole trie; and it is a function of the
    readout, so it shares the same runs for every row of a question.
    """
    paths: dict[Ids, tuple[Ids, ...]] = {(): ()}
    for suffix in sorted(suffixes, key=len):
        start = next(n for n in range(len(suffix), -1, -1) if suffix[:n] in paths)
        if start < len(suffix):
            paths[suffix] = (*paths[suffix[:start]], suffix[start:])
    return tuple(paths[suffix] for suffix in suffixes)


def _depth_first(forest: _Forest) -> Iterator[int]:
    children = forest.children
    stack = children.get(ROOT, [])[::-1]
    while stack:
        node = stack.pop()
        yield node
        if node in children:
            stack += children[node][::-1]


def _needed(forest: _Forest, node: int) -> Iterator[int]:
    """Nodes before `node` whose KV it or what follows it needs: its path, and the sibling that it takes from."""
    if node in forest.siblings:
        yield forest.siblings[node][0]
    while (node := forest.parents[node]) != ROOT:
        yield node


def _side_by_side(forest: _Forest, nodes: Sequence[int]) -> list[int]:
    """Nodes of one batch reordered depth-first, each ancestor's side by side, also where it is of an earlier batch; children
    keep their order."""
    children: dict[int, dict[int, None]] = {}
    for node in nodes:
        while node != ROOT and node not in children.get(parent := forest.parents[node], {}):
            children.setdefault(parent, {})[node] = None
            node = parent
    chosen = set(nodes)
    found, stack = [], list(reversed(children[ROOT]))
    while stack:
        node = stack.pop()
        if node in chosen:
            found.append(node)
        stack += reversed(children.get(node, {}))
    return found
