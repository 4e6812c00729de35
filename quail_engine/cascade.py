"""Cascades: a question is asked about a text only where the one before it is answered as the row needs it.

Both are noted at once, and the second waits in the schedule for the answer to the first, while the KV of the text is held: it
costs the tokens of its question, and a text that is refused costs nothing more. What is refused needs no answer, because the
one call that has the question stands beside the first one in an AND or OR, on every row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quail_engine.lookups import Inquiry, Positions
from quail_engine.pending import Pending
from quail_engine.sql import Passes


@dataclass(frozen=True)
class Follows:
    """What a question waits for."""

    leader: Inquiry  # about the same text
    least: np.float32  # margin from which on that is TRUE
    negated: bool  # the condition is NOT that
    needs: Passes  # what the condition must be for the question to matter
    share: float  # of the texts for which all that come before are as they must be, as expected

    def passes(self, positions: Positions) -> NDArray[np.bool_]:
        """For which of the leader's inputs the question is asked; one that failed is NULL, and behind a needless one all is."""
        margins = self.leader.numbers(positions, 1)[:, 0]
        yes, no = margins >= self.least, margins < self.least
        true, false = (no, yes) if self.negated else (yes, no)
        passed = {Passes.TRUE: true, Passes.NOT_FALSE: ~false, Passes.NOT_TRUE: ~true}[self.needs]
        return np.asarray(passed & ~self.leader.refused(positions))


Cascade = Mapping[Inquiry, Follows]
"""By the question that waits."""


def leaders_of(cascade: Cascade) -> dict[Inquiry, Inquiry]:
    """What each question waits for."""
    return {inquiry: follows.leader for inquiry, follows in cascade.items()}


def leaders_first(inquiries: Sequence[Inquiry], cascade: Cascade) -> list[Inquiry]:
    """The inquiries, each behind the one that it waits for."""

    def depth(inquiry: Inquiry) -> int:
        return 1 + depth(cascade[inquiry].leader) if inquiry in cascade else 0

    return sorted(inquiries, key=depth)


def without_needless(pending: Sequence[Pending], cascade: Cascade) -> tuple[Sequence[Pending], int]:
    """The requests that known answers to what they wait for leave; how many they make needless, which are settled."""
    needless: set[int] = set()
    waiting = _waiting(pending, cascade)
    for inquiry in leaders_first(list(waiting), cascade):
        follows, rows = cascade[inquiry], np.array(waiting[inquiry])
        positions = np.array([pending[row].leader for row in rows.tolist()])
        decided = follows.leader.known(positions)
        decided[decided] = ~follows.passes(positions[decided])
        refuse([pending[row] for row in rows[decided].tolist()])
        needless.update(rows[decided].tolist())
    return [p for index, p in enumerate(pending) if index not in needless] if needless else pending, len(needless)


def refuse(pending: Sequence[Pending]) -> None:
    """Settles requests that are needless."""
    for p in pending:
        p.asked.inquiry.refuse([p.position])


@dataclass(frozen=True)
class Links:
    """Which requests of a hand-in wait for which, by index."""

    after: Mapping[int, int]
    late: frozenset[int]  # they wait for one that is not among the others: somebody else asks it
    leads: Mapping[int, Follows]  # of those that others wait for

    @classmethod
    def of(cls, pending: Sequence[Pending], cascade: Cascade) -> Links:
        places = {(p.asked.inquiry, p.position): index for index, p in enumerate(pending)} if cascade else {}
        after: dict[int, int] = {}
        leads: dict[int, Follows] = {}
        late: set[int] = set()
        for inquiry, rows in _waiting(pending, cascade).items():
            follows = cascade[inquiry]
            known = follows.leader.known(np.array([pending[row].leader for row in rows]))
            for row in np.array(rows)[~known].tolist():
                place = places.get((follows.leader, pending[row].leader))
                if place is not None:
                    after[row], leads[place] = place, follows
                elif pending[row].leader >= 0:
                    late.add(row)
        return cls(after, frozenset(late), leads)

    def decided(self, pending: Sequence[Pending], indexes: Sequence[int]) -> list[tuple[int, bool]]:
        """Of requests that were answered, those that others wait for, and whether these are asked."""
        found = [index for index in indexes if index in self.leads]
        return [(i, bool(self.leads[i].passes(np.array([pending[i].position]))[0])) for i in found]


def expected(pending: Sequence[Pending], cascade: Cascade) -> list[Pending]:
    """As many of the requests as are expected to be asked."""
    left = {inquiry: round(cascade[inquiry].share * len(rows)) for inquiry, rows in _waiting(pending, cascade).items()}
    found = []
    for p in pending:
        if left.get(p.asked.inquiry, 1):
            found.append(p)
            if p.asked.inquiry in left:
                left[p.asked.inquiry] -= 1
    return found


def _waiting(pending: Sequence[Pending], cascade: Cascade) -> dict[Inquiry, list[int]]:
    """Requests of questions that wait for others, by question."""
    found: dict[Inquiry, list[int]] = {}
    for index, p in enumerate(pending) if cascade else ():
        if p.asked.inquiry in cascade:
            found.setdefault(p.asked.inquiry, []).append(index)
    return found
