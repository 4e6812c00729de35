"""Several devices of one machine: a worker process each, which pull batches; what one loses another one runs.

All that is about workers happens on one thread. It gives the worker that has the least to do the batch that costs the least
time there beside its own: so a worker goes on with what it holds while there is any, then with what hangs below nothing, and
only then takes a part of what another one is at. What each holds is known here alone, and what work costs by the roofline.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any

from quail_engine.batching.batch import Batch, Node
from quail_engine.engine.base import Engine
from quail_engine.engine.units import Hello, Unit, above
from quail_engine.errors import EngineError
from quail_engine.prompts.request import Logits
from quail_engine.roofline import Roofline, Work
from quail_engine.settings import Settings

_SENT = 2  # units that a worker has: one to run, and the next
_AHEAD = 4  # units a worker that may be submitted before the first is done: among them it chooses
_LOSSES = 2  # workers that a unit may take with it
_CLOSING_SECONDS = 10.0


@dataclass
class Worker:
    """A worker as its parent sees it. Used by one thread at a time."""

    process: subprocess.Popen[bytes]
    connection: Connection
    held: frozenset[int] = frozenset()  # nodes whose KV it has once it has run what it was sent
    sent: dict[int, Unit] = field(default_factory=dict)
    expected: dict[int, float] = field(default_factory=dict)  # seconds, of each that was sent

    def hello(self) -> Hello:
        """Waits until its engine is loaded. Raises what loading raised."""
        try:
            said = self.connection.recv()
        except (EOFError, OSError) as error:
            raise EngineError(f"A worker process ended while it loaded the model ({_ending(self.process)}).") from error
        if isinstance(said, Exception):
            raise said
        assert isinstance(said, Hello)
        return said


def end(workers: Sequence[Worker]) -> None:
    """Ends them, as soon as they have run what they have; beside each other, for a device takes a while to be let go of."""
    for worker in workers:
        worker.connection.close()
    ends = monotonic() + _CLOSING_SECONDS
    for worker in workers:
        try:
            worker.process.wait(max(0.0, ends - monotonic()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()


@dataclass(frozen=True)
class Underway:
    answer: Future[list[Logits]]

    def logits(self) -> list[Logits]:
        return self.answer.result()


class Workers(Engine):
    """Implements `engine.base.Engine` with several workers. Create it with `start`."""

    def __init__(self, workers: Sequence[Worker], hellos: Sequence[Hello], token_budget: int) -> None:
        """`token_budget`: fresh tokens of a worker's batch, with what it lacks of what stands above."""
        first = hellos[0]
        self.weights, self.precision, self.dtype = first.weights, first.precision, first.dtype
        self.device = f"{len(hellos)} workers: {', '.join(hello.device for hello in hellos)}"
        self.remarks = tuple(dict.fromkeys(remark for hello in hellos for remark in hello.remarks))
        self.in_flight = _AHEAD * len(workers)
        self._roofline = together(first.roofline, len(hellos))
        self._token_budget = token_budget
        self._known: dict[int, Node] = {}  # nodes that a batch to come may hang below
        self._submitted = 0
        self._inbox: deque[Unit | None] = deque()
        self._bell, self._rung = Pipe()  # rung once for each that is put into the inbox
        # What follows is the thread's.
        self._live = list(workers)
        self._pending: deque[Unit] = deque()
        self._keep: frozenset[int] = frozenset()  # of the last batch that was submitted
        self._losses: dict[int, int] = {}  # by number of a unit
        self._ending = ""  # how the last worker was lost
        self._thread = Thread(target=self._serve, name="quail-workers", daemon=True)
        self._thread.start()

    @property
    def roofline(self) -> Roofline:
        return self._roofline

    def score(self, batch: Batch) -> list[Logits]:
        return self.submit(batch).logits()

    def submit(self, batch: Batch) -> Underway:
        unit = Unit(self._submitted, batch, above(batch, self._known), Future())
        known = self._known | {node.number: node for node in batch.nodes}
        self._known = {number: known[number] for number in batch.keep}
        self._submitted += 1
        if not self._thread.is_alive():
            raise EngineError("The engine's thread has ended; the error above says why. Run again to go on.")
        self._tell(unit)
        return Underway(unit.answer)

    def close(self) -> None:
        self._tell(None)
        self._thread.join()
        for end in (self._bell, self._rung):
            end.close()

    def _tell(self, unit: Unit | None) -> None:
        self._inbox.append(unit)
        self._bell.send_bytes(b".")

    def _serve(self) -> None:
        try:
            self._work()
        except BaseException as error:
            told = [unit for unit in self._inbox if unit]
            for unit in [*self._pending, *told, *(unit for worker in self._live for unit in worker.sent.values())]:
                unit.answer.set_exception(error)
            raise

    def _work(self) -> None:
        by_connection = {worker.connection: worker for worker in self._live}
        while True:
            self._feed()
            for ready in wait([self._rung, *(worker.connection for worker in self._live)]):
                if ready is not self._rung:
                    self._hear(by_connection[ready])  # type: ignore[index]
                    continue
                self._rung.recv_bytes()
                unit = self._inbox.popleft()
                if unit is None:
                    end(self._live)
                    return
                self._pending.append(unit)
                self._keep = unit.batch.keep
                for worker in self._live:  # a new schedule may use the numbers of one that is done
                    worker.held -= unit.own

    def _feed(self) -> None:
        """Every worker has a unit before one has two; then that is next which will be done first."""
        while self._pending and (free := [worker for worker in self._live if len(worker.sent) < _SENT]):
            self._send(min(free, key=lambda worker: (len(worker.sent), sum(worker.expected.values()))))
        while self._pending and not self._live:
            self._pending.popleft().answer.set_exception(
                EngineError(
                    f"All worker processes ended, the last one {self._ending}. What was answered so far is kept: run again "
                    "to go on, on fewer devices or with a smaller token_budget if it happens again."
                )
            )

    def _send(self, worker: Worker) -> None:
        unit = min(self._pending, key=lambda unit: self._beside(unit, worker))
        self._pending.remove(unit)
        expected = self._seconds(unit.work + unit.lacking(worker.held))
        wanted = self._keep.union(*(other.wanted for other in self._pending))
        batches, worker.held = unit.sent(worker.held, wanted, self._token_budget)
        worker.sent[unit.number] = unit
        worker.expected[unit.number] = expected
        try:
            worker.connection.send((unit.number, batches))
        except OSError:
            self._lose(worker)

    def _beside(self, unit: Unit, worker: Worker) -> tuple[float, float]:
        """Seconds that a unit takes longer there than where all that it hangs below is held; of equal ones, tokens."""
        lacking = unit.lacking(worker.held)
        return self._seconds(unit.work + lacking) - self._seconds(unit.work), lacking.tokens

    def _seconds(self, work: Work) -> float:
        return self._roofline.seconds(work, self._token_budget)

    def _hear(self, worker: Worker) -> None:
        try:
            reply = worker.connection.recv()
        except (EOFError, OSError):
            self._lose(worker)
            return
        unit = worker.sent.pop(reply.number)
        del worker.expected[reply.number]
        self._roofline = replace(self._roofline, past=reply.past)
        if reply.found is None:
            self._pending.appendleft(unit)
        elif isinstance(reply.found, Exception):
            worker.held = frozenset()  # it has less than what it was sent would have left
            unit.answer.set_exception(reply.found)
        else:
            unit.answer.set_result(reply.found.logits)

    def _lose(self, worker: Worker) -> None:
        if worker not in self._live:
            return
        self._live.remove(worker)
        worker.connection.close()
        self._ending = _ending(worker.process)
        for unit in reversed(worker.sent.values()):
            self._losses[unit.number] = self._losses.get(unit.number, 0) + 1
            if self._losses[unit.number] < _LOSSES:
                self._pending.appendleft(unit)
            else:
                unit.answer.set_exception(
                    EngineError(
                        f"{_LOSSES} worker processes ended over the same batch, the last one {self._ending}. What was "
                        "answered so far is kept. Set a smaller token_budget, or run fewer things beside it."
                    )
                )


def start(folder: Path, settings: Settings, fp8: bool, devices: Sequence[str]) -> Workers:
    """A worker on each of the devices, all with the model in `folder`. Raises what loading it on one of them raises.

    They run in one number format: that which the first one takes. On the CPU they divide its threads.
    """
    if os.name != "posix":
        raise EngineError("devices: needs Linux or macOS. Name one device with device: here.")
    threads = settings.cpu_threads
    if devices[0] == "cpu":
        threads = max(1, (threads or os.cpu_count() or 1) // len(devices))
    workers: list[Worker] = []
    hellos: list[Hello] = []
    try:
        for device in devices:
            dtype = hellos[0].dtype if hellos and not fp8 else settings.dtype
            own = replace(settings, device=device, devices=(), dtype=dtype, cpu_threads=threads)
            workers.append(_started(folder, own, fp8))
            if not hellos:  # the others load beside each other
                hellos.append(workers[0].hello())
        hellos += [worker.hello() for worker in workers[1:]]
    except BaseException:
        for worker in workers:
            worker.process.kill()
        end(workers)
        raise
    return Workers(workers, hellos, settings.token_budget)


def _started(folder: Path, settings: Settings, fp8: bool) -> Worker:
    """A process that imports this package from where it was imported here; that a caller's own script is none of its business
    is why it is not started by `multiprocessing`. Ctrl-C in the terminal reaches its parent alone, which ends it."""
    ours, theirs = socket.socketpair()
    descriptor = theirs.fileno()
    process = subprocess.Popen(
        [sys.executable, "-m", "quail_engine.engine.local.worker", str(descriptor)],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno() if _is_real(sys.stderr) else subprocess.DEVNULL,
        pass_fds=[descriptor],
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    theirs.close()
    connection = Connection(ours.detach())
    connection.send((folder, settings, fp8))
    return Worker(process, connection)


def _is_real(stream: Any) -> bool:
    """Whether a stream has a descriptor; a captured one has none."""
    try:
        return bool(stream.fileno() >= 0)
    except (AttributeError, OSError, ValueError):
        return False


def _ending(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(_CLOSING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return "hung"
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"


def together(roofline: Roofline, devices: int) -> Roofline:
    """The roofline of so many devices of one kind, for work that can be divided among them."""
    machine = roofline.machine
    return replace(
        roofline,
        machine=replace(
            machine,
            matrix_flops=machine.matrix_flops * devices,
            attention_flops=machine.attention_flops * devices,
            bandwidth=machine.bandwidth * devices,
            pass_seconds=machine.pass_seconds / devices,
            fork_seconds=machine.fork_seconds / devices,
        ),
    )
