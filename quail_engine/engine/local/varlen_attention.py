"""Attention of a packed batch by a library's function over sequences: each node's own tokens, then what stands above them.

A library knows no forest. So it is called twice: once with a sequence a node, causal; and once with a sequence for nodes side
by side below one parent, whose keys are those of their whole path. Both softmaxes become one by their log-sums. Every node that
something stands above is cut so, whoever shares that: where the cuts lie follows from the prompt alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from quail_engine.engine.local.arena import TRASH
from quail_engine.engine.local.segments import NodeTable, Slots, ranges, runs
from quail_engine.engine.local.varlen import Varlen


@dataclass(frozen=True)
class Sequences:
    """Sequences of one call."""

    name: str  # its arrays: `NAME queries` and `NAME keys` [sequences + 1], where they begin; `NAME slots`: of the keys
    queries: int  # the most of a sequence
    keys: int

    def run(
        self, function: Varlen, arrays: Mapping[str, Tensor], queries: Tensor, keys: Tensor, values: Tensor, causal: bool
    ) -> tuple[Tensor, Tensor]:
        key, value = (part.index_select(0, arrays[f"{self.name} slots"]) for part in (keys, values))
        starts, key_starts = (arrays[f"{self.name} {part}"] for part in ("queries", "keys"))
        return function(queries, key, value, starts, key_starts, self.queries, self.keys, causal)


@dataclass(frozen=True)
class VarlenPlan:
    own: Sequences
    prefixes: Sequences | None  # None: nothing stands above any node
    arrays: Mapping[str, Slots]  # those of the sequences, and `below`: rows that something stands above


def plan_varlen(table: NodeTable, rows: int) -> VarlenPlan:
    """`rows`: of the batch, padded: what pads it is a sequence of its own."""
    nodes, tokens = len(table.shared), int(table.rows[-1])
    padding = rows - tokens
    bounds, lengths = table.rows, table.lengths[:nodes]
    slots = table.slots[: lengths.sum()]
    if padding:
        bounds, lengths = np.append(bounds, rows), np.append(lengths, padding)
        slots = np.append(slots, np.full(padding, TRASH, np.int32))
    own, arrays = _sequences("own", np.diff(bounds), lengths, slots)
    firsts, lasts = runs(table.parents[:nodes])
    below = table.parents[firsts] >= 0
    firsts, lasts = firsts[below], lasts[below]
    if not len(firsts):
        return VarlenPlan(own, None, arrays)
    owners, entries = table.above(table.parents[firsts])
    counts = table.rows[lasts + 1] - table.rows[firsts]
    keys = np.bincount(owners, weights=table.lengths[entries]).astype(np.int64)
    slots = table.slots[ranges(table.starts[entries], table.lengths[entries])]
    prefixes, more = _sequences("prefix", counts, keys, slots)
    return VarlenPlan(own, prefixes, {**arrays, **more, "below": ranges(table.rows[firsts], counts).astype(np.int32)})


def _sequences(name: str, queries: np.ndarray, keys: np.ndarray, slots: Slots) -> tuple[Sequences, dict[str, Slots]]:
    starts = {part: np.cumsum([0, *counts]).astype(np.int32) for part, counts in (("queries", queries), ("keys", keys))}
    arrays = {f"{name} {part}": values for part, values in starts.items()}
    return Sequences(name, int(queries.max()), int(keys.max())), {**arrays, f"{name} slots": slots}


def varlen_attention(
    function: Varlen, plan: VarlenPlan, arrays: Mapping[str, Tensor], queries: Tensor, keys: Tensor, values: Tensor
) -> Tensor:
    """As `kernels.segment_attention`; `arrays` are the plan's, on the device. What pads the batch is some finite number."""
    output, log_sums = plan.own.run(function, arrays, queries, keys, values, True)
    if plan.prefixes is None:
        return output
    below = arrays["below"]
    given = queries.index_select(0, below)
    above, more = plan.prefixes.run(function, arrays, given, keys, values, False)
    own = output.index_select(0, below).float()
    share = (more - log_sums.index_select(0, below)).sigmoid_()[..., None]
    return output.index_copy_(0, below.long(), own.lerp(above.float(), share).to(output.dtype))
