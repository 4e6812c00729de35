"""The AI calls of one statement: their look-ups, and the answers to what these are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from quail_engine.answering import Answering, Terms
from quail_engine.arrow import numbers_of, of_flags
from quail_engine.asking_round import AskBehind, Behind
from quail_engine.cascade import Follows
from quail_engine.lookups import Inquiry, Positions, StatementLookUps, least_margin
from quail_engine.model import Model
from quail_engine.owner import Owner
from quail_engine.plan import Link
from quail_engine.progress import Listener
from quail_engine.settings import Settings
from quail_engine.sql import Query
from quail_engine.tallies import Tally

AskedBehind = Callable[[pa.Table, Callable[[int, pa.Table], NDArray[np.bool_]]], None]
"""Told inputs of a condition that are TRUE while the KV of their texts is held, and a function for which inputs of another
condition about the same texts it is TRUE: it asks on that KV."""


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

    def answer(self, missing: Sequence[Inquiry], links: Sequence[Link] = (), behind: Behind | None = None) -> None:
        """Has answered what is missing, but for what `links` make needless; `behind`: see `Answering.answer`.

        Raises BudgetError before anything is asked, EngineError when too many requests failed.
        """
        cascade = {self.look_ups.inquiry(call): self._follows(link) for link in links for call in link.calls}
        for name in dict.fromkeys(inquiry.model for inquiry in missing):
            inquiries = [inquiry for inquiry in missing if inquiry.model == name]
            self._answering.answer(self.services.model(name), inquiries, cascade, behind)

    def _follows(self, link: Link) -> Follows:
        least = least_margin(self.look_ups.threshold(link.leader))
        return Follows(self.look_ups.inquiry(link.leader), least, link.negated, link.needs, link.share)

    def true(
        self, call: int, inputs: pa.Table, links: Sequence[Link] = (), behind: AskedBehind | None = None
    ) -> NDArray[np.bool_]:
        """For which inputs of a condition, one column an argument, it is TRUE. What is not known is asked; so is that of calls
        about the same inputs which wait for it by `links`.

        `behind` is told the inputs for which it is TRUE, some texts' at a time, while the KV of these texts is held.
        """
        inquiry = self.look_ups.inquiry(call)
        inquiries = [inquiry, *(self.look_ups.inquiry(i) for link in links for i in link.calls)]
        positions = _met(inquiries, inputs)
        texts = _numbered(inputs.column(inquiry.question.anchor)) if behind else np.empty(0, np.int64)

        def told(answered: Positions, ask: AskBehind) -> None:
            assert behind, "nobody is to be told"
            here = _of_texts(texts, _among(positions, answered, inquiry.inputs), inquiry.known(positions))
            here[here] = self._is_true(call, positions[here])
            behind(inputs.filter(of_flags(here)), partial(self._true_behind, ask))

        while waiting := [inquiry for inquiry in inquiries if inquiry.waits]:
            self.answer(waiting, links, told if behind and waiting[0] is inquiry else None)
            positions = _met(inquiries, inputs)
        return self._is_true(call, positions)

    def _true_behind(self, ask: AskBehind, call: int, inputs: pa.Table) -> NDArray[np.bool_]:
        """As `true`, asked by `ask`."""
        inquiry = self.look_ups.inquiry(call)
        positions = _met([inquiry], inputs)
        while inquiry.waits:
            ask([inquiry])
            positions = _met([inquiry], inputs)
        return self._is_true(call, positions)

    def _is_true(self, call: int, positions: Positions) -> NDArray[np.bool_]:
        margins = self.look_ups.inquiry(call).numbers(positions, 1)[:, 0]
        return np.asarray(margins >= least_margin(self.look_ups.threshold(call)))

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
        self.note(calls, run)
        self.recall(calls)
        self.look_ups.forget()
        self.ahead = True

    def gather(self, calls: Sequence[int], run: Callable[[], None]) -> None:
        """Repeats a run, in which these calls note what is missing, until nothing is."""
        missing = None
        while missing is None or missing:
            self.note(calls, run)
            missing = self.look_ups.missing()
            self.answer(missing)

    def note(self, calls: Sequence[int], run: Callable[[], None]) -> None:
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


def _met(inquiries: Sequence[Inquiry], inputs: pa.Table) -> Positions:
    """Has inquiries meet inputs; where the first one has them, row by row, -1 where it has no room yet."""
    met = [np.empty(0, np.int64)]
    for batch in inputs.to_batches():
        found = [inquiry.meet(batch.columns, batch.num_rows) for inquiry in inquiries]
        met.append(found[0])
    return np.concatenate(met)


def _numbered(column: pa.ChunkedArray) -> Positions:
    """A number for each row's text, the same for equal ones."""
    chunks = (numbers_of(chunk.indices) for chunk in pc.dictionary_encode(column).chunks)
    return np.concatenate([np.empty(0, np.int64), *chunks])


def _among(positions: Positions, some: Positions, count: int) -> NDArray[np.bool_]:
    """Which of the positions, below `count`, are among some; -1 never is."""
    flags = np.zeros(count + 1, bool)
    flags[some] = True
    return np.asarray(flags[positions], bool)


def _of_texts(texts: Positions, answered: NDArray[np.bool_], known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The rows of the texts of answered rows, as far as all rows of a text are known."""
    whole = np.zeros(len(texts), bool)
    whole[texts[answered]] = True
    whole[texts[~known]] = False
    return np.asarray(whole[texts], bool)
