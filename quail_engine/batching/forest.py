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
from quail_engine.prompts.request import Ids, Request

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
        if nodes and tokens + len(ids) > token_budget:
            yield Batch(tuple(nodes), tuple(reads), keep=frozenset(numbers[i] for i in _ancestors(forest, index)))
            nodes, reads, tokens = [], [], 0
        numbers[index] = number
        nodes.append(Node(number, ROOT if parent == ROOT else numbers[parent], ids))
        for rows, request, part in forest.reads.get(index, ()):
            reads.append(Read(number, rows, request, part))
        tokens += len(ids)
    if nodes:
        yield Batch(tuple(nodes), tuple(reads), keep=frozenset())


def count_tokens(requests: Sequence[Request]) -> TokenCount:
    """The tokens that `schedule` would prefill, for estimates."""
    return TokenCount(fresh=sum(map(len, _grow(requests).ids)), logical=sum(request.tokens for request in requests))


def _grow(requests: Sequence[Request]) -> _Forest:
    """Merges the requests' paths from the root."""
    forest = _Forest([], [], {}, {})
    known: dict[tuple[int, Ids], int] = {}

    def place(parent: int, run: Ids) -> int:
        """The last node of `run` below `parent`."""
        if len(run) > CHUNK_TOKENS:
            for start in range(0, len(run), CHUNK_TOKENS):
                parent = place(parent, run[start : start + CHUNK_TOKENS])
            return parent
        node = known.setdefault((parent, run), len(forest.ids))
        if node == len(forest.ids):
            forest.ids.append(run)
            forest.parents.append(parent)
            forest.children.setdefault(parent, []).append(node)
        return node

    # Requests in a row often begin with the very same segments, which then need not be compared by content.
    before: tuple[Ids, ...] = ()
    path: list[int] = []
    for number, request in enumerate(requests):
        same = True
        for depth, segment in enumerate(request.segments):
            same = same and depth < len(path) and segment is before[depth]
            if not same:
                del path[depth:]
                path.append(place(path[-1] if path else ROOT, segment))
        del path[len(request.segments) :]
        before = request.segments
        readout = request.readout
        for part, (runs, rows) in enumerate(zip(_suffix_paths(readout.suffixes), readout.rows, strict=True)):
            node = path[-1]
            for run in runs:
                node = place(node, run)
            forest.reads.setdefault(node, []).append((rows, number, part))
    return forest


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
    stack = forest.children.get(ROOT, [])[::-1]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(forest.children.get(node, ())))


def _ancestors(forest: _Forest, node: int) -> Iterator[int]:
    while (node := forest.parents[node]) != ROOT:
        yield node
