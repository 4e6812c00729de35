"""Requests become a forest of shared prefixes, and the forest a sequence of batches.

Equal leading segments are one node, whoever asks for them. Where the cuts between nodes lie follows from a request alone
(its segments, its readout's suffixes, `CHUNK_TOKENS`), never from what happened to be shared: attention over a cut prefix
rounds differently from attention over a whole one, and an answer must not depend on the requests beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from quail_engine.batching.batch import Batch, Node, Read
from quail_engine.prompts.request import Ids, Readout, Request

CHUNK_TOKENS = 512
"""A longer segment is a chain of nodes, cut every so many tokens from its own start, whatever the token budget is."""

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
    children: dict[int, list[int]]  # in order of first appearance; the roots are the children of ROOT
    reads: dict[int, list[tuple[Ids, int, int]]]  # node → (head rows, request, part)


def schedule(requests: Sequence[Request], token_budget: int) -> Iterator[Batch]:
    """The batches that answer `requests`, each of at most `token_budget` fresh tokens unless one node alone is larger.

    Nodes come depth-first in the order of first appearance, so the KV that a batch leaves for the next ones is no more than
    the path to the next node. `Read.request` is an index into `requests`.
    """
    assert token_budget > 0, "a batch needs room for a token"
    forest = _grow(requests)
    numbers = [0] * len(forest.ids)  # in the schedule, by index in the forest
    nodes: list[Node] = []
    reads: list[Read] = []
    tokens = 0
    for number, index in enumerate(_depth_first(forest)):
        ids, parent = forest.ids[index], forest.parents[index]
        tokens += len(ids)
        if tokens > token_budget and nodes:
            yield Batch(tuple(nodes), tuple(reads), keep=frozenset(numbers[i] for i in _ancestors(forest, index)))
            nodes, reads, tokens = [], [], len(ids)
        numbers[index] = number
        nodes.append(Node(number, ROOT if parent == ROOT else numbers[parent], ids))
        if index in forest.reads:
            reads += [Read(number, rows, request, part) for rows, request, part in forest.reads[index]]
    if nodes:
        yield Batch(tuple(nodes), tuple(reads), keep=frozenset())


def count_tokens(requests: Sequence[Request]) -> TokenCount:
    """The tokens that `schedule` would prefill, for estimates."""
    return TokenCount(fresh=sum(map(len, _grow(requests).ids)), logical=sum(request.tokens for request in requests))


def _grow(requests: Sequence[Request]) -> _Forest:
    """Merges the requests' paths from the root."""
    forest = _Forest([], [], {}, {})
    known: dict[tuple[int, Ids], int] = {}
    # Requests in a row often begin with the very same segments and have one readout; these are not compared by content.
    before: tuple[Ids, ...] = ()
    path: list[int] = []
    readout: Readout | None = None
    reads: list[tuple[tuple[Ids, ...], Ids]] = []  # of the readout: the path after the request, and head rows
    for number, request in enumerate(requests):
        segments = request.segments
        depth = _shared(before, segments)
        del path[depth:]
        for segment in segments[depth:]:
            path.append(_place(forest, known, path[-1] if path else ROOT, segment))
        before = segments
        if request.readout is not readout:
            readout = request.readout
            reads = list(zip(_suffix_paths(readout.suffixes), readout.rows, strict=True))
        for part, (runs, rows) in enumerate(reads):
            node = path[-1]
            for run in runs:
                node = _place(forest, known, node, run)
            forest.reads.setdefault(node, []).append((rows, number, part))
    return forest


def _shared(one: tuple[Ids, ...], other: tuple[Ids, ...]) -> int:
    """How many segments at the beginning are the same objects."""
    for depth, (a, b) in enumerate(zip(one, other, strict=False)):
        if a is not b:
            return depth
    return min(len(one), len(other))


def _place(forest: _Forest, known: dict[tuple[int, Ids], int], parent: int, run: Ids) -> int:
    """The last node of `run` below `parent`."""
    if len(run) > CHUNK_TOKENS:
        for start in range(0, len(run), CHUNK_TOKENS):
            parent = _place(forest, known, parent, run[start : start + CHUNK_TOKENS])
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


def _ancestors(forest: _Forest, node: int) -> Iterator[int]:
    while (node := forest.parents[node]) != ROOT:
        yield node
