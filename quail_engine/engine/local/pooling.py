"""Hidden states before the cue, beside the state there, which is about the answer: what texts are about, and how they end.

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


def depths(layers: int) -> tuple[int, int]:
    """After how many layers, one at least and not the last, tokens are averaged, and the last text's end is read.

    Another choice of them is a new version of `answers.keys.FEATURES`.

    What a text is about is in its words, which early layers know best. How a text stands to the one before it is known, where
    it ends, by those in the middle, and lost again in later ones.
    """
    assert layers > 1, "a model of one layer has no states but the last"
    return max(1, round(0.25 * layers)), max(1, min(round(0.58 * layers), layers - 1))


class Sums:
    """The sums of one batch. Call `add` after each depth's layer, and only then the others."""

    def __init__(
        self, batch: Batch, ends: Mapping[int, int], config: Config, held: Mapping[int, Tensor], parents: Mapping[int, int],
        device: torch.device = _CPU,
    ) -> None:  # fmt: skip
        """`ends`: the positions after nodes; `held` has what `kept` gave of earlier nodes, `parents` their parents."""
        self._depths = depths(config.num_layers)
        self._nodes = {node.number: node for node in batch.nodes}
        self._tokens = batch.tokens
        self._ends = ends
        starts = itertools.accumulate((node.fresh for node in batch.nodes), initial=0)
        self._starts = dict(zip(self._nodes, starts, strict=False))  # of each node's fresh tokens
        self._epsilon = config.rms_norm_eps
        self._held = held
        self._parents = {**parents, **{node.number: node.parent for node in batch.nodes}}
        # [depths, tokens + 1, hidden]: over the batch's first so many tokens
        self._running = torch.zeros(len(self._depths), self._tokens + 1, config.hidden_size, dtype=torch.int32, device=device)
        self._wholes: dict[int, Tensor] = {}

    def add(self, depth: int, hidden: Tensor) -> None:
        """Takes the batch's states fp32 [rows, hidden] after `depth` layers, where means are taken there."""
        if depth in self._depths:
            states = hidden[: self._tokens]
            normed = states * states.square().mean(-1, keepdim=True).add_(self._epsilon).rsqrt_()
            steps = normed.mul_(_STEPS).round_().to(torch.int32)
            for number, wanted in enumerate(self._depths):
                if wanted == depth:
                    torch.cumsum(steps, 0, dtype=torch.int32, out=self._running[number, 1:])

    def features(self, number: int, head: int, tail: int) -> Tensor:
        """The mean, and the state at the last text's end, fp32 [2 · hidden], of the prompt that ends with a node of this batch.

        Its first `head` tokens have no part in them, nor is there an end before their own; the last text ends where the last
        `tail` tokens begin. Nodes begin at either place.
        """
        total, end = torch.zeros_like(self._running[0, 0]), torch.zeros_like(self._running[0, 0])
        length = self._ends[number]
        while number >= 0 and self._ends[number] > head:
            total += self._whole(number)[0]
            if self._ends[number] == length - tail:
                end += self._last(number)[1]
            number = self._parents[number]
        mean = total.double() / (_STEPS * max(1, length - head))
        return torch.cat([mean, end.double() / _STEPS]).float()

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

    def _last(self, number: int) -> Tensor:
        """[depths, hidden]: the state of a node's last token."""
        if number not in self._nodes:
            held = self._held[number]
            return held[:, -1] - held[:, -2] if held.shape[1] > 1 else held[:, -1]
        node = self._nodes[number]
        before = len(node.ids) - 1
        return self._whole(number) - self._first(node, before) if before else self._whole(number)

    def _first(self, node: Node, count: int) -> Tensor:
        """[depths, hidden]: over a node's first tokens, at least one, of which those that it shares are the sibling's."""
        while count <= node.shared:
            if node.sibling not in self._nodes:
                return self._held[node.sibling][:, count - 1]
            node = self._nodes[node.sibling]
        start = self._starts[node.number]
        own = self._running[:, start + count - node.shared] - self._running[:, start]
        return own + self._first(node, node.shared) if node.shared else own
