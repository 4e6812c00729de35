"""Several devices: a worker process each, with the same answers to the bit as one; a lost worker loses nothing but time."""

from __future__ import annotations

import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
from reference.requests import JUDGE, VOCABULARY, random_requests, score

from quail_engine import Settings, connect
from quail_engine.batching.batch import Batch, Node, Read
from quail_engine.batching.forest import schedule
from quail_engine.engine import load_engine
from quail_engine.engine.base import Launched
from quail_engine.engine.local import worker as worker_module
from quail_engine.engine.local import workers
from quail_engine.engine.local.worker import serve
from quail_engine.engine.local.workers import Worker, Workers, together
from quail_engine.engine.mock import MockEngine
from quail_engine.engine.rules import Rules
from quail_engine.engine.units import Hello, Unit, Values, above, can_run
from quail_engine.errors import EngineError, SettingsError
from quail_engine.prompts.request import Ids, Logits, Request
from quail_engine.roofline import ASSUMED, ModelShape, Roofline, Work, run

BUDGET = 60


def settings(**changes: object) -> Settings:
    return Settings.of({"device": "cpu", "dtype": "float32", "cpu_threads": 1, "token_budget": BUDGET, **changes})


@contextmanager
def two_workers(folder: Path, **changes: object) -> Iterator[Workers]:
    engine = load_engine(folder, settings(device=None, devices=["cpu", "cpu"], **changes))
    assert isinstance(engine, Workers)
    processes = [worker.process for worker in engine._live]
    try:
        yield engine
    finally:
        engine.close()
    assert all(process.poll() is not None for process in processes)


class InAThread:
    """Stands in for a worker's process: the same code, in a thread of this one, which has imported everything already."""

    def __init__(self, run: Callable[[], object]) -> None:
        self.failed = False
        self.thread = Thread(target=self._run, args=(run,), daemon=True)
        self.thread.start()

    def _run(self, run: Callable[[], object]) -> None:
        try:
            run()
        except Exception:  # noqa: BLE001 - as a process ends
            self.failed = True

    def poll(self) -> int | None:
        return None if self.thread.is_alive() else int(self.failed)

    def wait(self, seconds: float | None = None) -> int:
        self.thread.join(seconds)
        if self.thread.is_alive():
            raise subprocess.TimeoutExpired("worker", seconds or 0)
        return int(self.failed)

    def kill(self) -> None:
        """It ends by itself when its connection does."""


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(folder: Path, given: Settings, fp8: bool) -> Worker:
        ours, theirs = socket.socketpair()

        def run() -> None:
            with theirs:
                try:
                    worker_module.main(os.dup(theirs.fileno()))
                finally:
                    with suppress(OSError):  # nobody is at the other end
                        theirs.shutdown(socket.SHUT_RDWR)

        connection = Connection(ours.detach())
        connection.send((folder, given, fp8))
        return Worker(InAThread(run), connection)  # type: ignore[arg-type]

    monkeypatch.setattr(workers, "_started", started)


def ahead(engine: Workers, requests: Sequence[Request], budget: int = BUDGET) -> list[tuple[Logits, ...]]:
    """As `score`, with as many batches in flight as the engine may have."""
    batches = list(schedule(requests, budget))
    found: list[dict[int, Logits]] = [{} for _ in requests]
    underway = [engine.submit(batch) for batch in batches[: engine.in_flight]]
    for number, batch in enumerate(batches):
        for read, vector in zip(batch.reads, underway[number].logits(), strict=True):
            found[read.request][read.part] = vector
        if len(underway) < len(batches):
            underway.append(engine.submit(batches[len(underway)]))
    return [tuple(parts[i] for i in range(len(parts))) for parts in found]


def assert_same(found: Sequence[tuple[Logits, ...]], expected: Sequence[tuple[Logits, ...]]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def joins(anchors: int, partners: int) -> list[Request]:
    """Anchors longer than a batch, each with partners: what stands above most batches is much of what there is."""
    rng = random.Random(1)

    def ids(count: int) -> Ids:
        return tuple(rng.randrange(VOCABULARY) for _ in range(count))

    head, ends = ids(9), [ids(12) for _ in range(partners)]
    return [Request((head, anchor, end), JUDGE) for anchor in [ids(70) for _ in range(anchors)] for end in ends]


def test_two_workers_answer_as_one_engine_to_the_bit_though_one_is_killed(tiny_folder: Callable[[str], Path]) -> None:
    folder = tiny_folder("qwen3")
    everything = [random_requests(3, [5, 40, 130, 17, 90, 33]), joins(4, 20)]
    one = load_engine(folder, settings())
    expected = [score(one, requests, BUDGET) for requests in everything]
    with two_workers(folder) as engine:
        assert (engine.weights, engine.precision, engine.dtype) == (one.weights, one.precision, one.dtype)
        assert engine.device == "2 workers: cpu, cpu"
        for requests, answers in zip(everything, expected, strict=True):
            assert_same(ahead(engine, requests), answers)
        assert_same(score(engine, everything[0], 200), expected[0])

        first, second = (worker.process for worker in engine._live)
        first.send_signal(signal.SIGSTOP)  # it has units and does not answer
        batches = list(schedule(joins(4, 20), BUDGET))
        underway = [engine.submit(batch) for batch in batches]
        wait_until(lambda: sum(not one.answer.done() for one in underway) <= workers._SENT)
        assert not all(one.answer.done() for one in underway), "the stopped one has some"
        first.kill()
        found = [one.logits() for one in underway]
        reads = [read for batch in batches for read in batch.reads]
        answered = dict(zip((read.request for read in reads), itertools.chain(*found), strict=True))
        assert_same([(answered[number],) for number in range(len(answered))], expected[1])
        second.kill()
        with pytest.raises(EngineError, match=r"worker processes ended.*by signal 9"):
            score(engine, everything[0][:1], BUDGET)


def wait_until(happened: Callable[[], bool], seconds: float = 300) -> None:
    """A machine that others keep busy takes its time; nothing is measured here."""
    ends = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < ends, "it never happens"
        time.sleep(0.02)


def test_a_batch_that_ends_its_worker_is_given_up(tiny_folder: Callable[[str], Path], in_threads: None) -> None:
    with two_workers(tiny_folder("llama tied")) as engine:
        broken = Batch((Node(0, -1, (VOCABULARY + 5,)),), (), frozenset())  # a token that the model has not
        with pytest.raises(EngineError, match="2 worker processes ended over the same batch, the last one with exit code 1"):
            engine.score(broken)


class Small(MockEngine):
    """Has no memory for a batch that keeps nothing of what it reads."""

    in_flight = 2

    def submit(self, batch: Batch) -> Launched:
        if not batch.keep and batch.reads:
            raise MemoryError("too large")
        return super().submit(batch)


def test_what_hangs_below_a_batch_that_failed_is_sent_whole() -> None:
    ours, theirs = Pipe()
    thread = Thread(target=serve, args=(theirs, Small(Rules(None, {}))))
    thread.start()
    first, second = Node(0, -1, (1, 2)), Node(1, 0, (3,))
    fails = Batch((first,), (Read(0, (1,), 0, 0),), frozenset())
    below = Batch((second,), (), frozenset({1}))
    for number, batches in enumerate([[fails], [below], [Batch((first,), (), frozenset({0})), below]]):
        ours.send((number, batches))
    found = {reply.number: reply.found for reply in (ours.recv() for _ in range(3))}
    assert isinstance(found[0], MemoryError)
    assert found[1] is None
    assert found[2].logits == []
    ours.close()
    thread.join(300)
    assert not thread.is_alive()


def test_workers_that_cannot_load_say_why(tiny_folder: Callable[[str], Path], in_threads: None) -> None:
    with pytest.raises(EngineError, match=r"device: cuda:0 (cannot be used|is not there)"):
        workers.start(tiny_folder("llama tied"), settings(), False, ("cuda:0", "cuda:7"))


def unit(number: int, batch: Batch, known: dict[int, Node]) -> Unit:
    return Unit(number, batch, above(batch, known), Future())


def test_a_unit_has_what_stands_above_it_and_no_more() -> None:
    requests = joins(2, 12)
    batches = list(schedule(requests, BUDGET))
    known: dict[int, Node] = {}
    for number, batch in enumerate(batches):
        one = unit(number, batch, known)
        known |= {node.number: node for node in batch.nodes}
        before = frozenset(one.wanted)
        assert one.lacking(before) == Work()
        (same,), held = one.sent(before, batch.keep, BUDGET)
        assert same.nodes == batch.nodes
        assert held == batch.keep
        sent, held = one.sent(frozenset(), batch.keep, BUDGET)
        assert can_run(sent, ())
        assert all(part.tokens <= max(BUDGET, *(node.fresh for node in part.nodes)) for part in sent[:-1])
        assert sum(part.tokens for part in sent) == batch.tokens + one.lacking(()).tokens
        assert sent[-1].reads == batch.reads
        assert not any(part.reads for part in sent[:-1])
        if one.above:
            assert not can_run([batch], ())


def test_work_is_divided_by_what_each_holds(tiny_folder: Callable[[str], Path]) -> None:
    """Of four anchors each worker takes its own: the fewest anchors are prefilled twice."""
    requests = joins(4, 30)
    batches = list(schedule(requests, BUDGET))
    known: dict[int, Node] = {}
    pending = []
    for number, batch in enumerate(batches):
        pending.append(unit(number, batch, known))
        known |= {node.number: node for node in batch.nodes}
    held = [frozenset[int](), frozenset[int]()]
    tokens = [0, 0]
    for turn in range(len(batches)):
        window = pending[:8]
        chosen = min(window, key=lambda one: one.lacking(held[turn % 2]).tokens)
        pending.remove(chosen)
        wanted = frozenset().union(*(one.wanted for one in pending), batches[-1].keep)
        sent, held[turn % 2] = chosen.sent(held[turn % 2], wanted, BUDGET)
        tokens[turn % 2] += sum(part.tokens for part in sent)
    plain = sum(batch.tokens for batch in batches)
    assert plain <= sum(tokens) < 1.25 * plain
    assert max(tokens) < 1.15 * min(tokens)


SLOW_AT_ATTENTION = Roofline(ModelShape(layers=1, hidden=64, heads=4, kv_heads=2, head_dim=16, mlp=128), ASSUMED)


@contextmanager
def silent_workers(count: int) -> Iterator[tuple[Workers, list[Connection]]]:
    """Workers that take what they are sent and never answer, and the ends of their connections."""
    pairs = [Pipe() for _ in range(count)]
    silent = [Worker(InAThread(lambda: None), ours) for ours, _ in pairs]  # type: ignore[arg-type]
    engine = Workers(silent, [Hello("w", "full", "float32", "cpu", SLOW_AT_ATTENTION, ())] * max(1, count), 2_048)
    try:
        yield engine, [theirs for _, theirs in pairs]
    finally:
        engine.close()


def test_what_a_worker_lacks_counts_by_the_time_that_it_takes() -> None:
    """Few tokens behind a long document cost more than some more tokens behind nothing."""
    document = [Node(number, number - 1, (0,) * 512) for number in range(8)]
    deep, shallow = Node(8, 7, (0,) * 40), Node(9, -1, (0,) * 60)
    known = {node.number: node for node in (*document, deep, shallow)}
    behind, alone = (unit(0, Batch((Node(10, node.number, (0,) * 5),), (), frozenset()), known) for node in (deep, shallow))
    worker = Worker(InAThread(lambda: None), Pipe()[0], frozenset(range(8)))  # type: ignore[arg-type]
    assert (behind.lacking(worker.held).tokens, alone.lacking(worker.held).tokens) == (40, 60)
    assert behind.lacking(worker.held).pairs == 40 * 8 * 512 + 40 * 41 // 2
    with silent_workers(0) as (engine, _):
        assert engine._beside(behind, worker) > engine._beside(alone, worker) > (0, 0)
        worker.held |= {9}
        assert engine._beside(alone, worker) == (0, 0)


def test_the_next_unit_goes_to_the_worker_that_will_be_done_first() -> None:
    with silent_workers(2) as (engine, ends):
        for number, tokens in enumerate((500, 5, 6)):
            engine.submit(Batch((Node(number, -1, (0,) * tokens),), (), frozenset()))
        sent = [[end.recv()[1][0].tokens for _ in range(count)] for end, count in zip(ends, (1, 2), strict=True)]
        assert sent == [[500], [5, 6]]
        assert not any(end.poll(0.05) for end in ends)


class Hung(InAThread):
    """Does not end before it is killed."""

    def __init__(self) -> None:
        self.killed = Event()
        super().__init__(self.killed.wait)

    def kill(self) -> None:
        self.killed.set()


def test_workers_that_do_not_end_are_killed_after_one_wait_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_CLOSING_SECONDS", 0.2)
    given: list[float] = []
    monkeypatch.setattr(Hung, "wait", lambda self, seconds=None: given.append(seconds) or InAThread.wait(self, seconds))
    hung = [Worker(Hung(), Pipe()[0]) for _ in range(3)]  # type: ignore[arg-type]
    workers.end(hung)
    assert all(worker.process.poll() is not None and worker.connection.closed for worker in hung)
    assert sum(seconds for seconds in given if seconds) <= 0.2 + 1e-6


def test_logits_survive_the_way_between_processes() -> None:
    vectors = [np.array([1.0, 2.0], np.float32), np.array([3.0], np.float32)]
    assert all(np.array_equal(a, b) for a, b in zip(Values.of(vectors).logits, vectors, strict=True))
    assert Values.of([]).logits == []


def test_several_devices_take_a_share_of_the_time() -> None:
    work, one = run(0, 128, read_on=False) * 16, MockEngine.roofline
    assert together(one, 4).seconds(work, 2_048) == pytest.approx(one.seconds(work, 2_048) / 4)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"devices": ["cuda:0", "cpu"]}, "all of one kind"),
        ({"devices": ["gpu"]}, "devices must be all, or a list"),
        ({"devices": [0, 0]}, "names one twice: cuda:0, cuda:0"),
        ({"devices": [0, 1], "device": "cuda:0"}, "device and devices are both set"),
        ({"devices": True}, "devices must be all"),
    ],
)
def test_devices_are_checked(given: dict[str, object], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        Settings.of(given)


def test_devices_are_a_list_or_all() -> None:
    assert Settings.of({"devices": [0, "cuda:1"]}).devices == ("cuda:0", "cuda:1")
    assert Settings.of({"devices": "all"}).token_budget == Settings.of({"device": "cuda"}).token_budget
    assert Settings.of({"devices": ["cpu", "cpu"]}).token_budget == Settings.of({}).token_budget
    assert Settings.of({}).devices == ()


def test_a_statement_on_two_workers_has_the_same_numbers(model_folder: Callable[[str], Path], in_threads: None) -> None:
    model_folder("smollm2-135m")
    found = []
    for devices in ({"device": "cpu"}, {"devices": ["cpu", "cpu"]}):
        given = {"model": "smollm2-135m", "dtype": "float32", "answers": {"mode": "off"}, "token_budget": 100, **devices}
        with connect(**given) as con:
            call = "AI_SCORE('Is this about the sea?', 'Note ' || i || ': the ' || ['ship', 'car', 'cake'][i % 3 + 1])"
            found.append(con.sql(f"select {call} as score from range(9) r(i) order by i")["score"].to_pylist())
            assert con.report.asked == 9
    assert found[0] == found[1]
    assert len(set(found[0])) == 9


# A script of a user's, without a guard around what it does: nothing of it may run twice.
SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from quail_engine import Settings
from quail_engine.batching.batch import Batch, Node
from quail_engine.engine.local import workers
print("begun", flush=True)
engine = workers.start(Path(sys.argv[1]), Settings.of({"dtype": "float32", "cpu_threads": 1}), False, ["cpu"])
(worker,) = engine._live
worker.process.send_signal(signal.SIGSTOP)  # so that there is something to wait for
try:
    waiting = engine.submit(Batch((Node(0, -1, (1, 2)),), (), frozenset()))
    print(worker.process.pid, flush=True)  # within: the signal may come before the next line
    waiting.logits()
finally:
    worker.process.send_signal(signal.SIGCONT)
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda sent: sent.name)
def test_whatever_ends_the_session_ends_its_workers(
    sent: signal.Signals, tiny_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    program = subprocess.Popen(
        [sys.executable, script, tiny_folder("llama tied")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout
    said = [program.stdout.readline().strip() for _ in range(2)]
    assert said[0] == "begun", said
    pid = int(said[1])
    program.send_signal(sent)
    if sent != signal.SIGINT:  # nothing of the session runs any more
        assert program.wait(300) == -sent
        os.kill(pid, signal.SIGCONT)
    _, errors = program.communicate(timeout=300)  # the worker has its standard error, too
    assert "KeyboardInterrupt" in errors or sent != signal.SIGINT
    wait_until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    """Whether a process is there and is no zombie, which only waits for somebody to ask how it ended."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
