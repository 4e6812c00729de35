"""The host plan of a batch for a device: everything that its kernels are told, as int32 arrays, made once. NumPy only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from quail_engine.batching.batch import Batch, Read
from quail_engine.engine.local.arena import TRASH
from quail_engine.engine.local.rows import ROW_STEP, round_up
from quail_engine.engine.local.segments import NodeTable, Slots, node_table
from quail_engine.prompts.request import HIDDEN, Ids


@dataclass(frozen=True)
class Group:
    """Reads that want the same head rows."""

    rows: Ids
    members: tuple[int, ...]  # indices of the batch's reads


@dataclass(frozen=True)
class DevicePlan:
    tokens: int
    rows: int  # tokens, padded
    table: NodeTable
    groups: tuple[Group, ...]
    arrays: Mapping[str, Slots]
    """`ids`, `positions`, `fresh` (slots) [rows]; `read` [read tokens, padded]: rows that are read; and of each group i
    `states i`: its members, as indices into `read`, padded, and `head i`: the head rows, none for HIDDEN."""


@dataclass(frozen=True)
class Placed:
    """Nodes whose KV lies in the arena: those of the batch, and held ones."""

    slots: Mapping[int, Slots] = field(default_factory=dict)  # of each node's tokens
    parents: Mapping[int, int] = field(default_factory=dict)  # the node above each; -1 = none
    ends: Mapping[int, int] = field(default_factory=lambda: {-1: 0})  # the position after each

    def with_batch(self, batch: Batch, fresh: Slots) -> Placed:
        """Beside what is held the nodes of a batch, whose own KV will lie in the slots `fresh`."""
        slots, parents, ends = dict(self.slots), dict(self.parents), dict(self.ends)
        start = 0
        for number, parent, ids, sibling, shared in batch.nodes:
            end = start + len(ids) - shared
            own = fresh[start:end]
            start = end
            slots[number] = np.concatenate([slots[sibling][:shared], own]) if shared else own
            parents[number] = parent
            ends[number] = ends[parent] + len(ids)
        return Placed(slots, parents, ends)

    def only(self, keep: Collection[int]) -> Placed:
        ends = {number: self.ends[number] for number in keep}
        return Placed({n: self.slots[n] for n in keep}, {n: self.parents[n] for n in keep}, {-1: 0, **ends})


def plan_batch(batch: Batch, placed: Placed, step: int) -> DevicePlan:
    """Rows are padded to a multiple of `step`, which writes to the trash slot."""
    tokens = batch.tokens
    rows = round_up(max(tokens, 1), step)
    table = node_table(batch.nodes, placed.parents, placed.slots)
    after = table.rows[1:]
    ends = np.array([placed.ends[node.number] for node in batch.nodes])
    positions = np.arange(tokens) + np.repeat(ends - after, np.diff(table.rows))
    fresh = chain.from_iterable(ids[shared:] if shared else ids for _, _, ids, _, shared in batch.nodes)
    last = dict(zip([node.number for node in batch.nodes], (after - 1).tolist(), strict=True))
    read, places = np.unique(np.array([last[read.node] for read in batch.reads], np.int64), return_inverse=True)
    groups = _grouped(batch.reads)
    arrays = {
        "ids": _padded(np.fromiter(fresh, np.int32, tokens), rows, 0),
        "positions": _padded(positions, rows, 0),
        "fresh": _padded(table.fresh_slots, rows, TRASH),
        "read": _padded(read, round_up(len(read), ROW_STEP), 0),
    }
    for number, group in enumerate(groups):
        members = places[list(group.members)]
        arrays[f"states {number}"] = _padded(members, round_up(len(members), ROW_STEP), 0)
        if group.rows[0] != HIDDEN:
            arrays[f"head {number}"] = np.array(group.rows, np.int32)
    return DevicePlan(tokens, rows, table, groups, arrays)


def _padded(values: np.ndarray, count: int, padding: int) -> Slots:
    padded = np.full(count, padding, np.int32)
    padded[: len(values)] = values
    return padded


def _grouped(reads: Sequence[Read]) -> tuple[Group, ...]:
    groups: dict[Ids, list[int]] = {}
    for number, read in enumerate(reads):
        groups.setdefault(read.rows, []).append(number)
    return tuple(Group(rows, tuple(members)) for rows, members in groups.items())
