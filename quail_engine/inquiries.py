"""The AI calls of one statement: their look-ups, and the answers to what these are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quail_engine.answering import Answering, Terms
from quail_engine.cascade import Follows
from quail_engine.lookups import Inquiry, Positions, StatementLookUps, least_margin
from quail_engine.model import Model
from quail_engine.owner import Owner
from quail_engine.plan import Link
from quail_engine.progress import Listener
from quail_engine.settings import Settings
from quail_engine.sql import Query
from quail_engine.tallies import Tally


@dataclass(frozen=True)
class Services:
    """What a statement needs from its session."""

    settings: Settings
    model: Callable[[str], Model]  # loads a model by name on first use
    owner: Owner  # of the engines, which statements share
    listener: Listener
    terms: Terms


class Inquiries:
    """Of one statement: `look_ups` note what is missing while DuckDB runs, `answer` has it answered between two runs."""

    def __init__(self, services: Services, query: Query, apart: Sequence[int], answering: Answering) -> None:
        """`apart` are calls that note nothing in rounds."""
        self.services = services
        self.look_ups = StatementLookUps(query.calls, services.settings, apart)
        self._answering = answering
        self.ahead = False  # whether answers were recalled before the statement ran

    @property
    def tags(self) -> Sequence[str]:
        """The look-ups' names, one a call."""
        return self.look_ups.tags

    @property
    def tally(self) -> Tally:
        return self._answering.tallies.total

    def tally_of(self, inquiry: Inquiry) -> Tally:
        return self._answering.tallies.of(inquiry)

    def answer(self, missing: Sequence[Inquiry], links: Sequence[Link] = ()) -> None:
        """Has answered what is missing, but for what `links` make needless.

        Raises BudgetError before anything is asked, EngineError when too many requests failed.
        """
        cascade = {self.look_ups.inquiry(call): self._follows(link) for link in links for call in link.calls}
        for name in dict.fromkeys(inquiry.model for inquiry in missing):
            inquiries = [inquiry for inquiry in missing if inquiry.model == name]
            self._answering.answer(self.services.model(name), inquiries, cascade)

    def _follows(self, link: Link) -> Follows:
        least = least_margin(self.look_ups.threshold(link.leader))
        return Follows(self.look_ups.inquiry(link.leader), least, link.negated, link.needs, link.share)

    def true(self, call: int, inputs: pa.Table, links: Sequence[Link] = ()) -> NDArray[np.bool_]:
        """For which inputs of a condition, one column an argument, it is TRUE. What is not known is asked; so is that of calls
        about the same inputs which wait for it by `links`."""
        inquiries = [self.look_ups.inquiry(i) for i in (call, *(i for link in links for i in link.calls))]
        batches = inputs.to_batches()

        def met() -> list[list[Positions]]:
            return [[inquiry.meet(batch.columns, batch.num_rows) for batch in batches] for inquiry in inquiries]

        positions = met()
        while waiting := [inquiry for inquiry in inquiries if inquiry.waits]:
            self.answer(waiting, links)
            positions = met()
        least = least_margin(self.look_ups.threshold(call))
        found = [np.empty(0, bool), *(inquiries[0].numbers(some, 1)[:, 0] >= least for some in positions[0])]
        return np.concatenate(found)

    def remembered(self, call: int) -> tuple[int, int]:
        """Answers to a condition's question that earlier statements got, and those of them that are TRUE."""
        inquiry, least = self.look_ups.inquiry(call), least_margin(self.look_ups.threshold(call))
        model = self.services.model(inquiry.model)
        return model.store.shares(model.question_key(inquiry.question), float(least))

    def recall(self, calls: Sequence[int]) -> bool:
        """Settles what the store knows of what these calls are missing. If it is anything, the round is to come again: all else
        that it noted is dropped, as what is known now may make it needless."""
        waiting = [inquiry for inquiry in dict.fromkeys(map(self.look_ups.inquiry, calls)) if inquiry.waits]
        found = [self._answering.recall(self.services.model(inquiry.model), inquiry) for inquiry in waiting]
        if any(found):
            self.look_ups.forget()
        return any(found)

    def recall_ahead(self, calls: Sequence[int], run: Callable[[], None]) -> None:
        """Settles what the store knows of what these calls miss in a run that lists all of their inputs; nothing is asked."""
        self._note(calls, run)
        self.recall(calls)
        self.look_ups.forget()
        self.ahead = True

    def gather(self, calls: Sequence[int], run: Callable[[], None]) -> None:
        """Repeats a run, in which these calls note what is missing, until nothing is."""
        missing = None
        while missing is None or missing:
            self._note(calls, run)
            missing = self.look_ups.missing()
            self.answer(missing)

    def _note(self, calls: Sequence[int], run: Callable[[], None]) -> None:
        """A run in which these calls note what is missing, and no others."""
        self.look_ups.start_only(calls)
        try:
            run()
        finally:
            self.look_ups.stop()

    def sample(self, calls: Sequence[int], run: Callable[[], None]) -> None:
        """`gather`, counted as a sample."""
        with self._sampling(calls):
            self.gather(calls, run)

    def sample_inputs(self, call: int, inputs: pa.Table) -> NDArray[np.bool_]:
        """`true`, counted as a sample."""
        with self._sampling([call]):
            return self.true(call, inputs)

    @contextmanager
    def _sampling(self, calls: Sequence[int]) -> Iterator[None]:
        tallies = [self.tally_of(inquiry) for inquiry in dict.fromkeys(map(self.look_ups.inquiry, calls))]
        before = [tally.asked for tally in tallies]
        yield
        for tally, asked in zip(tallies, before, strict=True):
            tally.sampled += tally.asked - asked

    def close(self) -> None:
        self.look_ups.close()
