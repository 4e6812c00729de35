"""The unit of work: a prompt as token segments, and what is read after it. Token ids only; nothing here knows text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Ids = tuple[int, ...]
"""Token ids. Tuples, so that segments hash and compare by content."""

Logits = NDArray[np.float32]

HIDDEN = -1
"""The first of a read's head rows where it takes hidden features instead of logits: `FEATURE_STATES` vectors of one length, end
to end. The second and the third say how many tokens the prompt's head has, which is the same for all rows, and how many stand
behind the row's last text."""

FEATURE_STATES = 3
"""What is read at the cue, the mean over the prompt behind its head, and the last text's end. Another choice of them is a new
version of `answers.keys.FEATURES`."""


class Reference(NamedTuple):
    """Another prompt that a question's answers are compared with, the same one for every request of the question."""

    segments: tuple[Ids, ...]
    reads: int  # so many of a readout's reads, the last ones, extend these segments instead of the request's


NO_REFERENCE = Reference((), 0)


class Readout(Protocol):
    """What is read after a request's last segment, and how the logits become the answer's numbers.

    Read `i` extends the request by the tokens `suffixes[i]` (often none) and takes, at the last token, the logits of the
    head rows `rows[i]`, or hidden features where the first is `HIDDEN`. The same readout serves every request of a question.
    """

    @property
    def reference(self) -> Reference: ...

    @property
    def suffixes(self) -> tuple[Ids, ...]: ...

    @property
    def rows(self) -> tuple[Ids, ...]: ...

    def answer(self, logits: Sequence[Logits]) -> Logits:
        """The answer's numbers, float32, from one logits vector a read: one margin for JUDGE, a number a label else.

        With a matrix a read, one row a request, it gives one row of numbers a request.
        """
        ...


class Request(NamedTuple):  # a named tuple: one is made for every row
    """One question about one row, ready for a model."""

    segments: tuple[Ids, ...]  # root first, none empty; every boundary is an exact cut, whatever is shared
    readout: Readout

    @property
    def tokens(self) -> int:
        """Tokens that this request would cost alone."""
        readout = self.readout
        return sum(map(len, (*self.segments, *readout.suffixes, *readout.reference.segments)))
