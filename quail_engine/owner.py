"""The owner of a session's engines: requests of statements in flight share batches, and equal ones are asked once.

It has no thread of its own. Whoever waits for answers runs the next batch if nobody runs one: it has a piece for every
statement that asks the same model, and each takes its answers on its own thread. So a statement alone goes from batch to batch
as if there were no others, and of several one prefills while the others keep their answers.

A statement hands in a part of its requests at a time and keeps its own schedule, so what its requests share they share whoever
else asks, and one that is cancelled takes along only what is its own.

An engine that computes beside its host has the next batch before the answers of the one before are read. So answers come a
batch later there, and what they decide is about the batch after the next.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from quail_engine.batching.batch import Batch
from quail_engine.batching.forest import Held, Schedule, joined
from quail_engine.engine.base import Launched
from quail_engine.errors import EngineError
from quail_engine.model import Model
from quail_engine.prompts.request import Logits, Request

_LOOK_SECONDS = 0.1  # how often a statement that waits looks whether it was cancelled
_LIVE_BATCHES = 2  # where no setting says it, as many tokens as these have may wait with their KV for what answers decide


Values = tuple[float, ...]
"""An answer: a margin, or a number a label."""


@dataclass(frozen=True)
class Answers:
    """What a batch answered of one statement's requests."""

    logits: list[tuple[int, list[Logits]]]  # index of a request, and a vector a read
    tokens: int  # fresh ones of this statement's piece
    seconds: float  # its share of the batch's, by tokens


class Handed:
    """A part of a statement's requests that the engine has not answered yet."""

    def __init__(
        self,
        model: Model,
        requests: Sequence[Request],
        numbers: Iterator[int],
        after: Mapping[int, int],
        room: int,
        held: Held | None,
    ) -> None:
        """`after`, `room`, `held`: as for `Schedule`."""
        self.model = model
        self.schedule = Schedule(requests, numbers, after, room, held)
        self.keep = held.numbers if held else frozenset[int]()  # nodes whose KV its next piece reads
        self.served = False  # whether the model's last batch had a piece of it
        self.error: Exception | None = None
        self.unanswered = len(requests)
        self.answers: deque[Answers] = deque()  # not yet taken
        self._requests = requests
        self._reads: dict[int, dict[int, Logits]] = {}  # of requests that are read in several batches or places

    def cut(self, token_budget: int, at_least_one: bool) -> Batch:
        piece = self.schedule.cut(token_budget, at_least_one)
        self.keep = piece.keep
        self.served = bool(piece.nodes)
        return piece

    def take(self, piece: Batch, scores: Iterator[Logits], seconds: float) -> None:
        """`scores`: of the piece's reads, and perhaps of others after them."""
        finished: list[tuple[int, list[Logits]]] = []
        for read, logits in zip(piece.reads, scores, strict=False):
            wanted = len(self._requests[read.request].readout.suffixes)
            if wanted == 1:
                finished.append((read.request, [logits]))
                continue
            found = self._reads.setdefault(read.request, {})
            found[read.part] = logits
            if len(found) == wanted:
                finished.append((read.request, [found[part] for part in range(wanted)]))
                del self._reads[read.request]
        self.unanswered -= len(finished)
        self.answers.append(Answers(finished, piece.tokens, seconds))


class Place:
    """A statement's place at the engines for a round."""

    def __init__(self, alone: bool) -> None:
        self.alone = alone  # whether nobody else has had a place at the same time
        self.claimed: set[bytes] = set()
        self.awaited: set[bytes] = set()  # keys that it would ask and somebody else is asking
        self.given: dict[bytes, Values] = {}  # what those were answered since
        self.handed: Handed | None = None
        self._held: tuple[Model, Held] | None = None

    @contextmanager
    def holding(self, model: Model, segments: int) -> Iterator[None]:
        """Until the end of the block the KV of so many first segments of what is handed in stays for what is handed in next."""
        self._held = model, Held(segments)
        try:
            yield
        finally:
            self._held = None

    def held(self, model: Model) -> Held | None:
        return self._held[1] if self._held and self._held[0] is model else None

    def keep(self, model: Model) -> frozenset[int] | None:
        """Nodes whose KV it reads yet; None where it has nothing to do with that model."""
        if self.handed and self.handed.model is model:
            return self.handed.keep
        held = self.held(model)
        return held.numbers if held else None


Pieces = list[tuple[Place, Handed, Batch]]


@dataclass(frozen=True)
class Flight:
    """A batch that the engine has."""

    model: Model
    pieces: Pieces
    batch: Batch
    launched: Launched
    begun: float  # seconds of `time.perf_counter`


class Owner:
    """Shares the engines among statements. Thread-safe; every wait lies in the thread of the statement that waits."""

    def __init__(self, token_budget: int, kv_bytes: int | None = None) -> None:
        """`token_budget`: fresh tokens of a batch, whoever shares it. `kv_bytes`: of a statement's KV that waits for answers;
        None: that of two batches."""
        assert token_budget > 0, "a batch needs room for a token"
        self._token_budget = token_budget
        self._kv_bytes = kv_bytes
        self._changed = threading.Condition()
        self._places: list[Place] = []
        self._claimed: set[bytes] = set()
        self._numbers = itertools.count()
        self._runner: Place | None = None  # who launches and lands batches
        self._pieces: Pieces = []  # of the batch that is being launched, or of one whose launch Ctrl-C cut off
        self._flights: deque[Flight] = deque()  # changed by the runner only
        self._landed = 0.0  # when the last batch was done

    @contextmanager
    def place(self) -> Iterator[Place]:
        """A place until the end of the block; whoever leaves it takes unasked requests and claims along."""
        with self._changed:
            place = Place(alone=not self._places)
            for other in self._places:
                other.alone = False
            self._places.append(place)
        try:
            yield place
        finally:
            with self._changed:
                self._places.remove(place)
                self._claimed -= place.claimed
                self._changed.notify_all()

    def room(self, model: Model) -> int:
        """Tokens whose KV may wait for what answers decide."""
        if self._kv_bytes is None:
            return _LIVE_BATCHES * self._token_budget
        return self._kv_bytes // model.engine.roofline.shape.kv_bytes

    def taken(self, keys: Sequence[bytes]) -> set[bytes]:
        """The keys that somebody is asking."""
        with self._changed:
            return {key for key in keys if key in self._claimed}

    def claim(self, place: Place, keys: Sequence[bytes]) -> set[bytes]:
        """The keys that nobody else is asking, and nobody else will before they are released. The place awaits the others."""
        with self._changed:
            free = {key for key in keys if key not in self._claimed}
            self._claimed |= free
            place.claimed |= free
            place.awaited, place.given = set(keys) - free, {}
        return free

    def release(self, place: Place, keys: Sequence[bytes], answers: Mapping[bytes, Values]) -> None:
        """Nobody asks these keys any more: `answers` to them are kept, others have none. Who awaits one gets it from here,
        for there may be no store that keeps it."""
        with self._changed:
            place.claimed.difference_update(keys)
            self._claimed.difference_update(keys)
            for other in self._places:
                other.given |= {key: answers[key] for key in answers.keys() & other.awaited}
            self._changed.notify_all()

    def awaited(self, place: Place, look: Callable[[], None]) -> dict[bytes, Values]:
        """What the keys that the place awaits were answered, once nobody asks them any more; some may have got no answer.

        `look` raises where the statement is to wait no longer; so below.
        """
        with self._changed:
            while not self._claimed.isdisjoint(place.awaited):
                look()
                self._changed.wait(_LOOK_SECONDS)
            return place.given

    @contextmanager
    def handed_in(
        self,
        place: Place,
        model: Model,
        requests: Sequence[Request],
        after: Mapping[int, int] = MappingProxyType({}),
    ) -> Iterator[Handed]:
        """Requests that are answered until the end of the block; those that are not asked by then never are.

        `after`: of requests that wait, the one whose answer decides whether they are asked; `decide` is to be told.
        """
        handed = Handed(model, requests, self._numbers, after, self.room(model), place.held(model))
        with self._changed:
            place.handed = handed
        try:
            yield handed
        finally:
            with self._changed:
                place.handed = None
                if self._runner is place:  # Ctrl-C came between two steps
                    self._runner = None
                if self._runner is None:
                    self._pieces = [piece for piece in self._pieces if piece[0] is not place]
                self._changed.notify_all()

    def answers(self, place: Place, handed: Handed, look: Callable[[], None]) -> Iterator[Answers]:
        """The answers to what was handed in, as they come. Raises what the engine raised in a batch that had a piece of it."""
        while True:
            look()
            with self._changed:
                if not handed.answers:
                    if handed.error:
                        raise handed.error
                    if not handed.unanswered:
                        return
                    if self._runner:
                        self._changed.wait(_LOOK_SECONDS)
                        continue
                    self._runner = place
            if handed.answers:
                yield handed.answers.popleft()
            else:
                self._run(place)

    def decide(self, handed: Handed, request: int, followed: bool) -> list[int]:
        """Whether those that wait for a request that was answered are asked. Returns those that never will be."""
        with self._changed:
            refused = handed.schedule.decide(request, followed)
            handed.unanswered -= len(refused)
            return refused

    def rest(self, place: Place, handed: Handed) -> Iterator[Answers]:
        """No further piece; the answers of batches in flight, and those that were not taken."""
        with self._changed:
            place.handed = None
        while self._turn_of(place):
            self._run(place, launch=False)
        yield from handed.answers

    def _turn_of(self, place: Place) -> bool:
        """Waits until the place may run batches in flight that have a piece of it; False where none has."""
        with self._changed:
            while True:
                others = self._runner not in (None, place)
                pieces = itertools.chain(*(flight.pieces for flight in self._flights), self._pieces if others else ())
                if not any(other is place for other, _, _ in pieces):
                    return False
                if not others:
                    self._runner = place
                    return True
                self._changed.wait(_LOOK_SECONDS)

    def _run(self, runner: Place, launch: bool = True) -> None:
        """Launches batches until the engine has as many as it wants, then waits for the first one's answers.

        What a batch raises is for each whose piece it was; one whose launch Ctrl-C cuts off is left to the others.
        """
        try:
            while launch and (not self._flights or len(self._flights) < self._flights[0].model.engine.in_flight):
                launch = self._launch()
            if self._flights:
                self._land()
        finally:
            with self._changed:
                if self._runner is runner:
                    self._runner = None
                self._changed.notify_all()

    def _launch(self) -> bool:
        """Launches the next batch; False where there is none, or it could not be launched."""
        with self._changed:
            self._pieces = pieces = self._pieces or self._composed()
            if not pieces:
                assert self._flights, "somebody waits for answers that nobody asks for"
                return False
            model = pieces[0][1].model
            batch = self._joined(model, [piece for _, _, piece in pieces])
        begun, flight, error = time.perf_counter(), None, None
        try:
            with _told_of_memory(model, batch):
                flight = Flight(model, pieces, batch, model.engine.submit(batch), begun)
        except Exception as raised:  # noqa: BLE001 - raised again on the thread of each statement that it concerns
            error = raised
        with self._changed:
            self._pieces = []
            if flight:
                self._flights.append(flight)
            for _, handed, _ in pieces:
                handed.error = error or handed.error
        return flight is not None

    def _land(self) -> None:
        """Waits for the first batch in flight and deals out its answers."""
        flight, scores, error = self._flights[0], list[Logits](), None
        try:
            with _told_of_memory(flight.model, flight.batch):
                scores = flight.launched.logits()
            assert len(scores) == len(flight.batch.reads), "the engine left reads out"
        except Exception as raised:  # noqa: BLE001 - as above
            error = raised
        # While another batch ran before it, it did not; so all batches together took no longer than the clock.
        begun, self._landed = max(flight.begun, self._landed), time.perf_counter()
        seconds = self._landed - begun
        with self._changed:
            self._flights.popleft()
            in_order = iter(scores)
            for _, handed, piece in flight.pieces:
                handed.error = error or handed.error
                if not error:
                    handed.take(piece, in_order, seconds * piece.tokens / flight.batch.tokens)

    def _composed(self) -> Pieces:
        """The next batch, of one model: a piece of the same size for every statement, and what one leaves for the next. None
        where all that waits is in flight.

        Who got nothing last time comes first, a model without its turn, too; then those who need less than their share.
        """
        waiting = [(place, place.handed) for place in self._places if place.handed and not place.handed.error]
        ready = [(place, handed) for place, handed in waiting if handed.schedule.tokens]
        if not ready:
            return []
        model = min(ready, key=lambda waits: waits[1].served)[1].model
        for _, other in ready:
            other.served &= other.model is model
        live = [(place, handed) for place, handed in ready if handed.model is model]
        room, share = self._token_budget, self._token_budget // len(live)
        live.sort(key=lambda waits: (waits[1].served, waits[1].schedule.tokens > share))
        pieces: Pieces = []
        for number, (place, handed) in enumerate(live):
            piece = handed.cut(room // (len(live) - number), at_least_one=not pieces)
            if piece.nodes:
                room -= piece.tokens
                pieces.append((place, handed, piece))
        return pieces

    def _joined(self, model: Model, pieces: list[Batch]) -> Batch:
        kept = [keep for place in self._places if (keep := place.keep(model)) is not None]
        if len(pieces) == len(kept) == 1:
            return pieces[0]
        return joined(pieces, frozenset().union(*kept))


@contextmanager
def _told_of_memory(model: Model, batch: Batch) -> Iterator[None]:
    """Says what to do about a batch that does not fit."""
    try:
        yield
    except MemoryError as error:
        raise EngineError(
            f"{model.name} ran out of memory at a batch of {batch.tokens:,} tokens. What was answered so far is kept. "
            "Set a smaller token_budget or a smaller model, or run fewer things beside it, and run again to go on."
        ) from error
