"""A batch: part of a forest of shared prefixes, cut to a token budget. What an engine is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from quail_engine.prompts.request import Ids
from quail_engine.roofline import Work


class Node(NamedTuple):  # a named tuple, like Read: several are made for every request
    """A run of tokens after its parent's; everything below a node shares its KV."""

    number: int  # unique among all that the engine is given; parents come before their children
    parent: int  # number of the node before it, in this batch or an earlier one still held; -1 = a root
    ids: Ids  # 1 to `CHUNK_TOKENS` tokens; a longer segment is a chain of nodes cut every CHUNK_TOKENS
    sibling: int = -1  # number of an earlier node below the same parent that begins alike; -1 = none
    shared: int = 0  # so many first tokens are the sibling's too: their KV is taken from there, not computed again

    @property
    def fresh(self) -> int:
        """Tokens that are prefilled; at least one."""
        return len(self.ids) - self.shared


class Read(NamedTuple):
    node: int  # number of a node of this batch: logits are read at its last token
    rows: Ids  # head rows, i.e. token ids whose logits are wanted; or HIDDEN and what it takes
    request: int  # index of the request in its schedule
    part: int  # index of the read in the request's readout


@dataclass(frozen=True)
class Batch:
    """Nodes in depth-first order, what is read after them, and which KV may be dropped when it has run."""

    nodes: tuple[Node, ...]
    reads: tuple[Read, ...]
    keep: frozenset[
        int
    ]  # numbers of nodes whose KV a later batch of the schedule reads or takes from; all other KV is dropped after this batch

    hidden: bool = False  # whether it or a later batch of the schedule reads HIDDEN

    @cached_property
    def tokens(self) -> int:
        """Fresh tokens of this batch."""
        return sum([len(ids) - shared for _, _, ids, _, shared in self.nodes])


def work_of(nodes: Iterable[Node], held: Mapping[int, int] | None = None) -> Work:
    """What it takes to prefill nodes, parents before their children; `held`: the positions after nodes that have run."""
    ends = {-1: 0, **(held or {})}
    lengths: dict[int, int] = {}
    inner: set[int] = set()
    tokens = own_pairs = prefix_pairs = read = 0
    for number, parent, ids, _, shared in nodes:
        before, length = ends[parent], len(ids)
        fresh = length - shared
        ends[number] = before + length
        lengths[number] = fresh
        inner.add(parent)
        tokens += fresh
        own_pairs += fresh * (2 * shared + fresh + 1) // 2
        prefix_pairs += fresh * before
        read += before
    inner &= lengths.keys()
    return Work(tokens, own_pairs, prefix_pairs, sum(lengths[number] for number in inner), read, len(inner))
