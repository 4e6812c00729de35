"""The host plan of a batch for a device: everything that its kernels are told, as int32 arrays, made once. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from quail_engine.batching.batch import Batch, Read
from quail_engine.engine.local.arena import TRASH
from quail_engine.engine.local.rows import ROW_STEP, round_up
from quail_engine.engine.local.segments import SegmentPlan, Slots, plan_segments
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
    segments: SegmentPlan
    groups: tuple[Group, ...]
    arrays: Mapping[str, Slots]
    """`ids`, `positions`, `fresh` (slots) [rows]; `read` [read tokens, padded]: rows that are read; and of each group i
    `states i`: its members, as indices into `read`, padded, and `head i`: the head rows, none for HIDDEN."""


@dataclass(frozen=True)
class Placed:
    """Nodes whose KV lies in the arena: those of the batch, and held ones."""

    slots: Mapping[int, Slots]  # of each node's tokens
    paths: Mapping[int, Sequence[int]]  # ancestors from the root on
    ends: Mapping[int, int]  # the position after the node


def plan_batch(batch: Batch, placed: Placed, tile: int, step: int) -> DevicePlan:
    """`tile`: tokens of an attention tile; rows are padded to a multiple of `step`, which writes to the trash slot."""
    tokens = batch.tokens
    rows = round_up(max(tokens, 1), step)
    lengths = np.array([node.fresh for node in batch.nodes])
    ends = np.array([placed.ends[node.number] for node in batch.nodes])
    after = np.cumsum(lengths)
    positions = np.arange(tokens) + np.repeat(ends - after, lengths)
    ids = np.fromiter((token for node in batch.nodes for token in node.ids[node.shared :]), dtype=np.int32, count=tokens)
    segments = plan_segments(batch.nodes, placed.paths, placed.slots, tile)
    last = {node.number: int(end) - 1 for node, end in zip(batch.nodes, after, strict=True)}
    read, places = np.unique([last[read.node] for read in batch.reads], return_inverse=True)
    groups = _grouped(batch.reads)
    arrays = {
        "ids": _padded(ids, rows, 0),
        "positions": _padded(positions, rows, 0),
        "fresh": _padded(segments.fresh_slots, rows, TRASH),
        "read": _padded(read, round_up(len(read), ROW_STEP), 0),
    }
    for number, group in enumerate(groups):
        members = places[list(group.members)]
        arrays[f"states {number}"] = _padded(members, round_up(len(members), ROW_STEP), 0)
        if group.rows[0] != HIDDEN:
            arrays[f"head {number}"] = np.array(group.rows, np.int32)
    # Tiles without segments for the rows that pad the batch.
    bounds = _padded(segments.tile_starts, -(-rows // tile) + 1, int(segments.tile_starts[-1]))
    return DevicePlan(tokens, rows, replace(segments, tile_starts=bounds), groups, arrays)


def _padded(values: np.ndarray, count: int, padding: int) -> Slots:
    return np.pad(values, (0, count - len(values)), constant_values=padding).astype(np.int32)


def _grouped(reads: Sequence[Read]) -> tuple[Group, ...]:
    groups: dict[Ids, list[int]] = {}
    for number, read in enumerate(reads):
        groups.setdefault(read.rows, []).append(number)
    return tuple(Group(rows, tuple(members)) for rows, members in groups.items())
