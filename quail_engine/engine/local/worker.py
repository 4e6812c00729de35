"""A worker: a process of its own that has the engine of one device, and runs what it is sent.

    python -m quail_engine.engine.local.worker DESCRIPTOR

`workers` starts it and speaks with it over the connection of that descriptor. It ends when the connection does.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread

from quail_engine.batching.batch import Batch
from quail_engine.engine.base import Engine, Launched
from quail_engine.engine.local.load import load_one
from quail_engine.engine.units import Hello, Reply, Values, can_run
from quail_engine.errors import QuailError

Sent = tuple[int, Sequence[Batch]]


def serve(connection: Connection, engine: Engine) -> None:
    """Runs units in the order that they come, as many at a time as the engine can have in flight."""
    inbox: SimpleQueue[Sent | None] = SimpleQueue()
    # Whoever sends is never kept waiting by a batch that runs here.
    Thread(target=_receive, args=(connection, inbox), daemon=True).start()
    underway: deque[tuple[int, list[Launched]]] = deque()
    held: frozenset[int] = frozenset()
    while True:
        if underway and (len(underway) >= engine.in_flight or inbox.empty()):
            number, launched = underway.popleft()
            connection.send(Reply(number, _landed(launched), engine.roofline.past))
            continue
        sent = inbox.get()
        if sent is None:
            return
        number, batches = sent
        if not can_run(batches, held):
            connection.send(Reply(number, None, engine.roofline.past))
            continue
        launched = []
        try:
            for batch in batches:
                launched.append(engine.submit(batch))
                held = batch.keep
        except (MemoryError, QuailError) as error:
            connection.send(Reply(number, error, engine.roofline.past))
            continue
        underway.append((number, launched))


def _landed(launched: Sequence[Launched]) -> Values | Exception:
    try:
        *_, logits = [one.logits() for one in launched]
    except (MemoryError, QuailError) as error:
        return error
    return Values.of(logits)


def _receive(connection: Connection, inbox: SimpleQueue[Sent | None]) -> None:
    try:
        while True:
            inbox.put(connection.recv())
    except (EOFError, OSError):
        inbox.put(None)


def main(descriptor: int) -> None:
    connection = Connection(descriptor)
    try:
        folder, settings, fp8 = connection.recv()
    except EOFError:  # its session has ended
        return
    try:
        engine = load_one(folder, settings, fp8)
    except (MemoryError, QuailError) as error:
        connection.send(error)
        return
    about = (engine.weights, engine.precision, engine.dtype, engine.device, engine.roofline, engine.remarks)
    with suppress(OSError):  # nobody is there to hear of it any more, nor of what still ran
        connection.send(Hello(*about))
        serve(connection, engine)
    engine.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
