"""One question in one statement: the inputs that were met, their answers, and what a round found missing.

Memory grows with the number of inputs, not with their texts: some 20 to 30 bytes for the digest that names an input and 12 for
a margin. The texts of missing inputs wait in a `Spill`, in memory only up to the setting `missing_bytes`.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from quail_engine.arrow import of_numbers
from quail_engine.calls import Question, Reads
from quail_engine.errors import QuailError
from quail_engine.lookups.digests import Digests, DigestTable, Positions, digests_of, distinct
from quail_engine.lookups.spill import Spill

Arguments = tuple[str, ...]
Numbers = NDArray[np.float32]

_OPEN, _FAILED, _REFUSED = -1, -2, -3  # instead of a place among the numbers


class Inquiry:
    """Look-ups of several calls share one, on DuckDB's threads; whoever answers it does so while no statement runs."""

    def __init__(
        self,
        question: Question,
        model: str,
        on_overlong: str | None,
        symmetric: bool,  # the order of a pair's texts does not matter: one of both orders is asked
        width: int,  # texts of an input; the row's labels, where they come with it, are the last
        room: int,  # inputs that a round may note
        missing_bytes: int,
    ) -> None:
        self.question = question
        self.model = model
        self.on_overlong = on_overlong
        self.symmetric = symmetric
        self.width = width
        self.room = room
        self.max_error_ratio = 1.0  # of all calls that share this, the least
        self.reads = Reads.NUMBERS  # of each answer; numbers before features
        self.numbers_each = 0  # of the answers that were settled
        self.asked = 0
        self.failed = 0
        self.lock = threading.Lock()
        self.state = 0  # another one where `find` may give something else than before
        self._missing_bytes = missing_bytes
        self._disk_error: OSError | None = None
        self._met = DigestTable()
        self._places = np.empty(0, np.int64)  # by position: where an input's numbers begin
        self._numbers = np.empty(0, np.float32)
        self._used = 0  # of them
        self._refused = 0
        self.missing = self._no_texts()

    def canonical(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The texts in the order in which they are asked."""
        if not self.symmetric:
            return list(columns)
        one, other, *labels = columns
        ordered = pc.less_equal(one, other)
        return [pc.if_else(ordered, one, other), pc.if_else(ordered, other, one), *labels]

    @property
    def inputs(self) -> int:
        """Different inputs that were noted so far."""
        return len(self._met)

    @property
    def needed(self) -> int:
        """Those of them that were not refused."""
        return len(self._met) - self._refused

    def find(self, digests: Digests) -> Positions:
        """Positions by which inputs are known here from now on; -1 for one that was never noted."""
        return self._met.find(digests)

    def known(self, positions: Positions) -> NDArray[np.bool_]:
        """Which inputs are answered, be it by a failure."""
        known: NDArray[np.bool_] = positions >= 0
        known[known] = self._places[positions[known]] != _OPEN
        return known

    def note(self, digests: Digests, columns: Sequence[pa.Array]) -> None:
        """Notes inputs that were never noted, as far as the round has room; the next one will meet the others again."""
        first = distinct(digests)[: max(0, self.room - len(self.missing))]
        if not len(first):
            return
        begin, end = len(self._met), len(self._met) + len(first)
        self._met.add(digests[first])
        self.state += 1
        if end > len(self._places):
            self._places.resize(max(end, 2 * begin, 1 << 10), refcheck=False)
        self._places[begin:end] = _OPEN
        rows = of_numbers(first)
        positions = of_numbers(np.arange(begin, end, dtype=np.int32))
        texts = [column.take(rows) for column in columns]
        try:
            self.missing.append(pa.record_batch([positions, *texts], schema=self.missing.schema))
        except OSError as error:  # raised here, inside of a DuckDB statement, it would abort the user's transaction
            self._disk_error = error
            self.room = 0

    def forget(self) -> None:
        """Drops what is not answered, as if it had never been met."""
        answered = self._places[: len(self._met)] != _OPEN
        first = len(answered) - len(self.missing)  # from here on they were met since the last round
        kept, places = self._met.digests[first:][answered[first:]], self._places[first : len(answered)][answered[first:]]
        self._met.cut(first)
        self.state += 1
        self._met.add(kept)
        self._places[first : first + len(kept)] = places
        self.missing.close()
        self.missing = self._no_texts()

    def meet(self, columns: Sequence[pa.Array], rows: int) -> Positions:
        """Finds inputs by their texts, and notes those that were never noted. For callers outside of a running statement."""
        canonical = self.canonical(columns)
        digests = digests_of(canonical, rows)
        new = np.flatnonzero(self.find(digests) < 0)
        taken = of_numbers(new)
        self.note(digests[new], [column.take(taken) for column in canonical])
        return self.find(digests)

    def settle(self, positions: Sequence[int] | Positions, numbers: Numbers | None) -> None:
        """Keeps answers, a row of `numbers` an input; None for inputs that failed or were too long."""
        if numbers is None:
            self._places[positions] = _FAILED
            return
        rows, width = numbers.shape
        self.numbers_each = width
        if (end := self._used + rows * width) > len(self._numbers):
            self._numbers.resize(max(end, 2 * self._used, 1 << 10), refcheck=False)
        self._numbers[self._used : end] = numbers.reshape(-1)
        self._places[positions] = np.arange(self._used, end, width)
        self._used = end

    def refuse(self, positions: Sequence[int]) -> None:
        """Inputs whose answer no row needs, whatever it would be; they are NULL, and not asked."""
        self._places[positions] = _REFUSED
        self._refused += len(positions)

    def refused(self, positions: Positions) -> NDArray[np.bool_]:
        """Which of the known inputs were refused."""
        return np.asarray(self._places[positions] == _REFUSED)

    def numbers(self, positions: Positions, width: int) -> Numbers:
        """The first `width` numbers of known inputs, a row each; NaN for those that have none."""
        found: Numbers = np.full((len(positions), width), np.nan, np.float32)
        places = self._places[positions]
        answered = places >= 0
        found[answered] = self._numbers[places[answered][:, None] + np.arange(width)]
        return found

    def count(self, asked: int, failed: int) -> None:
        """Counts requests towards `max_error_ratio`."""
        self.asked += asked
        self.failed += failed

    @property
    def waits(self) -> bool:
        """Whether anything is missing, or could not be written down."""
        return bool(len(self.missing) or self._disk_error)

    def taken(self) -> Spill:
        """What is missing, to be answered and closed by the caller; the next round begins with nothing.

        Raises QuailError when the temporary file could not be written.
        """
        if self._disk_error:
            raise QuailError(
                f"Texts that wait for an answer cannot be written to {tempfile.gettempdir()}: {self._disk_error}. "
                "Nothing of this round was asked. Make room there, name another folder in TMPDIR, or raise the setting "
                "missing_bytes."
            )
        taken, self.missing = self.missing, self._no_texts()
        return taken

    def _no_texts(self) -> Spill:
        fields = [("position", pa.int32()), *((f"text{i}", pa.string()) for i in range(self.width))]
        return Spill(pa.schema(fields), self._missing_bytes)
