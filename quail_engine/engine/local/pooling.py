"""Means of hidden states over a prompt's tokens: what a text is about, beside the state at the cue, which is about the answer.

A prompt's tokens lie in several nodes, of this batch and of earlier ones, and some were computed for a sibling. Their sum must
not depend on that. So states are rounded to whole numbers of small steps before they are added: then sums are exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from quail_engine.batching.batch import Batch, Node
from quail_engine.engine.local.weights import Config

_CPU = torch.device("cpu")
_STEPS = 1_024
"""To 1. A state has the mean square 1 over its dimensions, and so none beyond the square root of their number: of 10,000
dimensions 32 bits hold the sum of 20,000 tokens at the very least."""


def depths(layers: int) -> tuple[int, ...]:
    """After how many layers means are taken, in order: halfway, and before the last. Which knows more differs by task."""
    return tuple(sorted({round(0.5 * layers), layers - 1} & set(range(1, layers))))


class Sums:
    """The sums of one batch. Call `add` after each depth's layer, and only then the others."""

    def __init__(
        self, batch: Batch, ends: Mapping[int, int], config: Config, held: Mapping[int, Tensor], parents: Mapping[int, int],
        device: torch.device = _CPU,
    ) -> None:  # fmt: skip
        """`ends`: the positions after nodes; `held` has what `kept` gave of earlier nodes, `parents` their parents."""
        self.depths = depths(config.num_layers)
        self._nodes = {node.number: node for node in batch.nodes}
        self._tokens = batch.tokens
        self._ends = ends
        starts = itertools.accumulate((node.fresh for node in batch.nodes), initial=0)
        self._starts = dict(zip(self._nodes, starts, strict=False))  # of each node's fresh tokens
        self._epsilon = config.rms_norm_eps
        self._held = held
        self._parents = {**parents, **{node.number: node.parent for node in batch.nodes}}
        # [depths, tokens + 1, hidden]: over the batch's first so many tokens
        self._running = torch.zeros(len(self.depths), self._tokens + 1, config.hidden_size, dtype=torch.int32, device=device)
        self._wholes: dict[int, Tensor] = {}

    def add(self, depth: int, hidden: Tensor) -> None:
        """Takes the batch's states fp32 [rows, hidden] after `depth` layers, where means are taken there."""
        if depth in self.depths:
            states = hidden[: self._tokens]
            normed = states * states.square().mean(-1, keepdim=True).add_(self._epsilon).rsqrt_()
            steps = normed.mul_(_STEPS).round_().to(torch.int32)
            torch.cumsum(steps, 0, dtype=torch.int32, out=self._running[self.depths.index(depth), 1:])

    def mean(self, number: int, start: int) -> Tensor:
        """Means fp32 [depths · hidden] over the tokens from position `start` on of the prompt that ends with a node of this
        batch. A node begins at `start`."""
        total = torch.zeros_like(self._running[:, 0])
        ends, end = self._ends, self._ends[number]
        while number >= 0 and ends[number] > start:
            total += self._whole(number)
            number = self._parents[number]
        return (total.double() / (_STEPS * max(1, end - start))).float().flatten()

    def kept(self, keep: Collection[int]) -> dict[int, Tensor]:
        """Sums [depths, tokens, hidden] over a node's first 1, 2, … tokens, for batches to come: of the nodes of `keep`, but
        for those of statements that take no features."""
        found = {number: self._held[number] for number in keep if number in self._held}
        return found | {number: self._firsts(number) for number in keep if number in self._nodes and self._is_known(number)}

    def _is_known(self, number: int) -> bool:
        node = self._nodes[number]
        while node.shared and node.sibling in self._nodes:
            node = self._nodes[node.sibling]
        return not node.shared or node.sibling in self._held

    def _firsts(self, number: int) -> Tensor:
        node = self._nodes[number]
        start = self._starts[number]
        fresh = self._running[:, start + 1 : start + node.fresh + 1] - self._running[:, start : start + 1]
        if not node.shared:
            return fresh
        shared = torch.stack([self._first(node, count + 1) for count in range(node.shared)], 1)
        return torch.cat([shared, fresh + shared[:, -1:]], 1)

    def _whole(self, number: int) -> Tensor:
        """[depths, hidden]: over all tokens of a node."""
        if number not in self._nodes:
            return self._held[number][:, -1]
        if number not in self._wholes:
            node = self._nodes[number]
            self._wholes[number] = self._first(node, len(node.ids))
        return self._wholes[number]

    def _first(self, node: Node, count: int) -> Tensor:
        """[depths, hidden]: over a node's first tokens, at least one, of which those that it shares are the sibling's."""
        while count <= node.shared:
            if node.sibling not in self._nodes:
                return self._held[node.sibling][:, count - 1]
            node = self._nodes[node.sibling]
        start = self._starts[node.number]
        own = self._running[:, start + count - node.shared] - self._running[:, start]
        return own + self._first(node, node.shared) if node.shared else own
