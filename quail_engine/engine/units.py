"""What goes between an engine of several devices and its workers.

A schedule's batches come depth-first, so one goes on where the one before it stopped. A worker that has that KV needs the batch
alone; any other one first prefills the nodes above it again. Where the cuts between nodes lie stays as it was, and so do the
answers, to the bit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from quail_engine.batching.batch import Batch, Node, work_of
from quail_engine.prompts.request import Logits
from quail_engine.roofline import Roofline, Work, run


@dataclass(frozen=True)
class Unit:
    number: int
    batch: Batch
    above: Mapping[int, Node]  # nodes of earlier batches that the batch's hang below; parents before their children
    answer: Future[list[Logits]]

    @cached_property
    def own(self) -> frozenset[int]:
        return frozenset(node.number for node in self.batch.nodes)

    @cached_property
    def wanted(self) -> frozenset[int]:
        """Nodes of earlier batches whose KV the batch reads, or could take from."""
        return frozenset(self.above) | {node.sibling for node in self.batch.nodes if node.shared} - self.own

    @cached_property
    def taken(self) -> tuple[Node, ...]:
        """Nodes of the batch that take from one of an earlier batch."""
        return tuple(node for node in self.batch.nodes if node.shared and node.sibling in self.wanted)

    @cached_property
    def ends(self) -> dict[int, int]:
        """The position after each node that the batch has or hangs below."""
        ends = {-1: 0}
        for node in (*self.above.values(), *self.batch.nodes):
            ends[node.number] = ends[node.parent] + len(node.ids)
        return ends

    @cached_property
    def work(self) -> Work:
        """Of the batch where all that stands above it is held."""
        return work_of(self.batch.nodes, self.ends)

    def lacking(self, held: Collection[int]) -> Work:
        """What a worker that holds these nodes prefills beside the batch's own."""
        above = [(node, len(node.ids)) for number, node in self.above.items() if number not in held]
        begun = [(node, node.shared) for node in self.taken if node.sibling not in held]
        parts = (run(self.ends[node.parent], tokens, read_on=True) for node, tokens in above + begun)
        return sum(parts, Work())

    def sent(self, held: frozenset[int], wanted: Collection[int], token_budget: int) -> tuple[list[Batch], frozenset[int]]:
        """The batches for a worker that holds the nodes `held`, the last of which has the reads, and what it holds after them:
        of the nodes that it has had, those that are `wanted`."""
        lacking = [_whole(node) for number, node in self.above.items() if number not in held]
        elsewhere = self.wanted - held
        nodes = [_whole(node) if node.shared and node.sibling in elsewhere else node for node in self.batch.nodes]
        batches: list[Batch] = []
        if sum(node.fresh for node in lacking) + self.batch.tokens > token_budget:
            for part in _parts(lacking, token_budget):
                held |= {node.number for node in part}
                batches.append(Batch(tuple(part), (), held, self.batch.hidden))
            lacking = []
        nodes = lacking + nodes
        keep = (held | {node.number for node in nodes}) & frozenset(wanted)
        return [*batches, Batch(tuple(nodes), self.batch.reads, keep, self.batch.hidden)], keep


def above(batch: Batch, known: Mapping[int, Node]) -> dict[int, Node]:
    """The ancestors of the batch's nodes among `known`, the nodes of earlier batches."""
    own = {node.number for node in batch.nodes}
    found: dict[int, Node] = {}
    for node in batch.nodes:
        path = []
        parent = node.parent
        while parent >= 0 and parent not in own and parent not in found:
            path.append(known[parent])
            parent = known[parent].parent
        found |= {ancestor.number: ancestor for ancestor in reversed(path)}
    return found


def can_run(batches: Sequence[Batch], held: Collection[int]) -> bool:
    """Whether a worker that holds these nodes has the KV that the batches read and keep."""
    have = set(held)
    for batch in batches:
        have |= {node.number for node in batch.nodes}
        read = {node.parent for node in batch.nodes if node.parent >= 0} | {n.sibling for n in batch.nodes if n.shared}
        if not have >= read | batch.keep:
            return False
        have = set(batch.keep)
    return True


@dataclass(frozen=True)
class Values:
    """The logits of a batch's reads on their way between processes: end to end, and how many each has."""

    numbers: np.ndarray  # fp32
    counts: np.ndarray

    @staticmethod
    def of(logits: Sequence[Logits]) -> Values:
        counts = np.array([len(vector) for vector in logits], np.int64)
        return Values(np.concatenate(logits) if logits else np.empty(0, np.float32), counts)

    @property
    def logits(self) -> list[Logits]:
        return np.split(self.numbers, np.cumsum(self.counts)[:-1]) if len(self.counts) else []


@dataclass(frozen=True)
class Hello:
    """What a worker's engine is."""

    weights: str
    precision: str
    dtype: str
    device: str
    roofline: Roofline
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Reply:
    number: int  # of the unit
    found: Values | Exception | None  # None: the worker no longer holds what the unit hangs below
    past: tuple[float, ...]  # of the roofline


def _whole(node: Node) -> Node:
    """The node with all of its tokens prefilled, though a sibling's KV has some of them."""
    return Node(node.number, node.parent, node.ids)


def _parts(nodes: Sequence[Node], token_budget: int) -> Iterator[list[Node]]:
    part: list[Node] = []
    tokens = 0
    for node in nodes:
        if part and tokens + node.fresh > token_budget:
            yield part
            part, tokens = [], 0
        part.append(node)
        tokens += node.fresh
    if part:
        yield part
