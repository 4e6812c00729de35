"""How logits become an answer's numbers: a judgement, a choice among labels, or a judgement a label.

All arithmetic is float32. A NaN among an answer's logits makes every number of that answer NaN: a request fails as a whole. A
readout takes the logits of one request, or of many at once with an axis for the requests before that of the head rows; the
numbers of each request are the same to the bit either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from quail_engine.errors import ModelError
from quail_engine.prompts.request import FEATURE_STATES, HIDDEN, NO_REFERENCE, Ids, Logits, Readout, Reference


@dataclass(frozen=True)
class Spellings:
    """Head rows that spell TRUE and those that spell FALSE, as many of one as of the other."""

    true: Ids
    false: Ids

    @property
    def rows(self) -> Ids:
        return self.true + self.false

    def margin(self, logits: Logits) -> Logits:
        """Log-odds of TRUE: logsumexp over the spellings of TRUE less that over those of FALSE."""
        return _logsumexp(logits[..., : len(self.true)]) - _logsumexp(logits[..., len(self.true) :])


@dataclass(frozen=True)
class JudgeReadout:
    """One read at the cue; the answer is one margin."""

    spellings: Spellings
    reference: Reference = NO_REFERENCE

    @property
    def suffixes(self) -> tuple[Ids, ...]:
        return ((),)

    @property
    def rows(self) -> tuple[Ids, ...]:
        return (self.spellings.rows,)

    def answer(self, logits: Sequence[Logits]) -> Logits:
        return self.spellings.margin(logits[0])[..., None]


@dataclass(frozen=True)
class TagReadout:
    """One judgement a label: the request goes on with the label's own question; the answer is a margin a label."""

    spellings: Spellings
    suffixes: tuple[Ids, ...]  # one a label
    reference: Reference = NO_REFERENCE

    @property
    def rows(self) -> tuple[Ids, ...]:
        return (self.spellings.rows,) * len(self.suffixes)

    def answer(self, logits: Sequence[Logits]) -> Logits:
        margins = np.stack([self.spellings.margin(read) for read in logits], axis=-1)
        return np.where(np.isnan(margins).any(axis=-1, keepdims=True), np.float32(np.nan), margins)


@dataclass(frozen=True)
class TrieReadout:
    """A choice among labels; the answer is a log-probability a label, and the probabilities sum to 1.

    The labels' tokens form a trie. Where it branches, the logits of the branches, and of nothing else, share the
    probability; where it does not, the next token is certain and costs nothing. So a long label is not less likely for being
    long, and `refund` competes with `refund not showing up` at the token that ends it. The cue is read for the root, and one
    suffix for each deeper branching node. Build it with `TrieReadout.of`.

    With a reference, whose reads mirror those of the request, a label's probability is divided by the one that it has there:
    what the model would answer without the text, for the label's own sake, does not count.
    """

    suffixes: tuple[Ids, ...]  # path from the root to each node that is read
    rows: tuple[Ids, ...]  # each such node's branches
    paths: tuple[tuple[tuple[int, int], ...], ...] = field(repr=False)  # a label: (read, branch taken) at each node it passes
    reference: Reference = NO_REFERENCE

    @classmethod
    def of(cls, labels: Sequence[Ids], end: Ids) -> TrieReadout:
        """The readout of labels spelled by their tokens, each closed by `end` (at least one token).

        Raises ModelError if two labels have the same tokens. A single label is certain; its first token is read all the
        same, so that a request that failed shows it.
        """
        assert labels, "a choice needs labels"
        assert end, "labels need an end that closes them"
        spelled = [tuple(label) + tuple(end) for label in labels]
        if len(set(spelled)) < len(spelled):
            raise ModelError("Two labels are the same to the model: it spells them with the same tokens. Rename one of them.")
        branches: dict[Ids, dict[int, None]] = {}  # node, named by its path → its branches, in the order of the labels
        for ids in spelled:
            for depth, token in enumerate(ids):
                branches.setdefault(ids[:depth], {})[token] = None
        reads = [node for node in branches if len(branches[node]) > 1] or [()]
        number = {node: i for i, node in enumerate(reads)}
        taken = {node: {token: i for i, token in enumerate(branches[node])} for node in reads}
        paths = tuple(
            tuple((number[ids[:depth]], taken[ids[:depth]][ids[depth]]) for depth in range(len(ids)) if ids[:depth] in number)
            for ids in spelled
        )
        return cls(tuple(reads), tuple(tuple(branches[node]) for node in reads), paths)

    def compared(self, segments: tuple[Ids, ...]) -> TrieReadout:
        """This readout with the prompt of those segments as its reference."""
        assert not self.reference.reads, "a readout has one reference"
        return replace(self, suffixes=self.suffixes * 2, rows=self.rows * 2, reference=Reference(segments, len(self.suffixes)))

    def answer(self, logits: Sequence[Logits]) -> Logits:
        own = len(logits) - self.reference.reads
        numbers = self._log_probabilities(logits[:own])
        if self.reference.reads:
            numbers = numbers - self._log_probabilities(logits[own:])
            numbers = numbers - _logsumexp(numbers)[..., None]
        failed = np.any([np.isnan(read).any(axis=-1) for read in logits], axis=0)
        return np.asarray(np.where(failed[..., None], np.float32(np.nan), numbers), np.float32)

    def _log_probabilities(self, logits: Sequence[Logits]) -> Logits:
        shares = [read - _logsumexp(read)[..., None] for read in logits]
        return np.stack([sum(shares[read][..., branch] for read, branch in path) for path in self.paths], axis=-1)


@dataclass(frozen=True)
class FeatureReadout:
    """Another readout's numbers, if one is given, and then hidden features at the cue, in float16 steps as they are stored.

    Of several texts the mean is left out: what they are about does not tell how they stand to each other.
    """

    readout: Readout | None
    head: int  # tokens of the prompt's first segment, which has no part in the features
    tail: int  # tokens behind the row's last text
    texts: int  # of a row

    @property
    def suffixes(self) -> tuple[Ids, ...]:
        return ((), *(self.readout.suffixes if self.readout else ()))

    @property
    def rows(self) -> tuple[Ids, ...]:
        return ((HIDDEN, self.head, self.tail), *(self.readout.rows if self.readout else ()))

    @property
    def reference(self) -> Reference:
        return self.readout.reference if self.readout else NO_REFERENCE

    def answer(self, logits: Sequence[Logits]) -> Logits:
        features, *others = logits
        cue, mean, end = np.split(features.astype(np.float16), FEATURE_STATES, axis=-1)
        numbers = [self.readout.answer(others)] if self.readout else []
        states = [cue, mean, end] if self.texts < 2 else [cue, end]
        return np.concatenate([*numbers, *states], axis=-1, dtype=np.float32)


def _logsumexp(logits: Logits) -> Logits:
    """log Σ exp over the last axis in float32, without overflow; NaN if one of them is."""
    highest = logits.max(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        total = highest + np.log(np.exp(logits - highest).sum(axis=-1, dtype=np.float32, keepdims=True))
    return np.asarray(np.where(np.isfinite(highest), total, highest)[..., 0], np.float32)
