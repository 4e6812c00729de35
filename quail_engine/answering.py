"""Answers for what a round found missing: recall what the store has, prefill the rest, remember it."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from quail_engine.answers import Answer, AnswerStore, answer_key, question_key, truncated_key
from quail_engine.batching.forest import count_tokens, schedule
from quail_engine.budgets import Budgets
from quail_engine.calls import Question, Task
from quail_engine.engine.base import Engine
from quail_engine.errors import EngineError, QuailError
from quail_engine.lookups import Arguments, Inquiry, labels_of
from quail_engine.progress import Answered, Asking, Listener, Warned
from quail_engine.prompts.prompter import Prompt, Prompter
from quail_engine.prompts.request import Ids, Logits, Request
from quail_engine.prompts.token_store import TokenStore
from quail_engine.settings import Settings

_REQUESTS_A_SCHEDULE = 16_384
"""Requests that are turned into a forest at once; bounds the memory of a round, not what a batch may share."""

_NOT_FINITE = "the engine gave no finite number"
_NO_LABELS = "its labels are no list of two or more different ones"

_RATIO_FROM = 20
"""Asked rows from which on the share of failed ones can fail a statement."""


class Model:
    """Everything that answers for one model. Its engine is loaded at the first question that the store cannot answer."""

    def __init__(
        self,
        name: str,
        identity: tuple[str, str],
        prompter: Prompter,
        load: Callable[[], Engine],
        store: AnswerStore,
        tokens: TokenStore,
    ) -> None:
        """`identity`: sha256 of the source weights, and precision class. They and the layout are part of every key."""
        self.name = name
        self.prompter = prompter
        self.store = store
        self.tokens = tokens
        self._identity = identity
        self._load = load

    @cached_property
    def engine(self) -> Engine:
        engine = self._load()
        assert (engine.weights, engine.precision) == self._identity, (
            "the engine holds other weights than its answers are kept under"
        )
        return engine

    def question_key(self, question: Question) -> bytes:
        return question_key(*self._identity, self.prompter.layout, question)

    def close(self) -> None:
        if "engine" in self.__dict__:
            self.engine.close()


@dataclass(frozen=True)
class Terms:
    """Who asks, and under which conditions: of one statement."""

    budgets: Budgets
    node: str = ""  # as dbt names it
    since: int = 0  # answers older than this, in microseconds since 1970 UTC, are asked again


@dataclass
class Tally:
    """Counts of one statement, as they grow."""

    asked: int = 0
    recalled: int = 0
    failed: int = 0
    overlong: int = 0
    tokens_fresh: int = 0
    tokens_logical: int = 0
    seconds_engine: float = 0.0


@dataclass
class _Pending:
    """One distinct request, and the inputs of all inquiries that wait for it."""

    key: bytes
    prompt: Prompt
    question: Question
    arguments: Arguments
    waiting: list[tuple[Inquiry, bytes]] = field(default_factory=list)
    ids: list[Ids] = field(default_factory=list)

    def settle(self, numbers: tuple[float, ...] | None) -> None:
        for inquiry, digest in self.waiting:
            inquiry.known[digest] = numbers


class Answering:
    """Answers the inquiries of one statement. One statement at a time is in the engine; `lock` is the model's."""

    def __init__(
        self, settings: Settings, listener: Listener, cancelled: threading.Event, lock: threading.Lock, terms: Terms
    ) -> None:
        self._settings = settings
        self._terms = terms
        self._budgets = terms.budgets.of_a_statement()
        self._listener = listener
        self._cancelled = cancelled
        self._lock = lock
        self._failures: dict[tuple[Question, str], list[bytes]] = {}  # keys of inputs by question and reason
        self.tally = Tally()

    def answer(self, model: Model, inquiries: Sequence[Inquiry]) -> None:
        """Settles every missing input: known numbers, or None for one that failed or was too long.

        Raises BudgetError before anything is asked, EngineError when too many requests failed.
        """
        with self._lock:
            before = self.tally.recalled
            pending = self._pending(model, inquiries)
            for inquiry in inquiries:
                inquiry.missing.clear()
            pending = self._recall(model, pending)
            self._tokenise(model, pending)
            pending = self._fitting(model, pending)
            if pending:
                self._ask(model, pending, self.tally.recalled - before)
        for inquiry in inquiries:
            _refuse_failures(inquiry, self._settings.max_error_ratio)

    def _pending(self, model: Model, inquiries: Sequence[Inquiry]) -> list[_Pending]:
        """The distinct requests behind all missing inputs, those of one anchor together."""
        requests: dict[bytes, _Pending] = {}
        for inquiry in inquiries:
            for question, rows in self._by_labels(model, inquiry):
                prompt = model.prompter.compile(question)
                base = model.question_key(question)
                for digest, arguments in rows:
                    key = answer_key(base, arguments)
                    pending = requests.setdefault(key, _Pending(key, prompt, question, arguments))
                    pending.waiting.append((inquiry, digest))
        return sorted(requests.values(), key=lambda p: p.arguments[p.question.anchor] if len(p.arguments) > 1 else "")

    def _by_labels(self, model: Model, inquiry: Inquiry) -> Iterator[tuple[Question, list[tuple[bytes, Arguments]]]]:
        """The missing inputs by the question they are asked: one, or one a label list when the labels come with the rows."""
        question = inquiry.question
        rows = list(inquiry.missing.items())
        if question.task is Task.JUDGE or question.labels:
            yield question, rows
            return
        lists: dict[str, list[tuple[bytes, Arguments]]] = {}
        for digest, arguments in rows:
            lists.setdefault(arguments[-1], []).append((digest, arguments[:-1]))
        for text, inputs in lists.items():
            try:
                labels = labels_of(text)
            except (ValueError, json.JSONDecodeError):
                # These rows cannot be asked; like a failed request they are NULL, and count towards max_error_ratio.
                self.tally.failed += len(inputs)
                inquiry.asked += len(inputs)
                inquiry.failed += len(inputs)
                inquiry.known.update((digest, None) for digest, _ in inputs)
                base = model.question_key(question)
                for _, arguments in inputs:
                    self._note_failure(question, _NO_LABELS, answer_key(base, (*arguments, text)))
                continue
            yield replace(question, labels=labels), inputs

    def _recall(self, model: Model, pending: list[_Pending]) -> list[_Pending]:
        """Settles what the store knows; returns the rest."""
        known = model.store.recall([p.key for p in pending], self._terms.since)
        for p in pending:
            if p.key in known:
                self.tally.recalled += 1
                p.settle(known[p.key].values)
        return [p for p in pending if p.key not in known]

    def _tokenise(self, model: Model, pending: Sequence[_Pending]) -> None:
        texts = list(dict.fromkeys(text for p in pending for text in p.arguments))
        ids = dict(zip(texts, model.tokens.ids(model.prompter, texts), strict=True))
        for p in pending:
            p.ids = [ids[text] for text in p.arguments]

    def _fitting(self, model: Model, pending: Sequence[_Pending]) -> list[_Pending]:
        """What fits into the model's context; the rest is settled as NULL, refused or cut, as `on_overlong` says."""
        fitting: list[_Pending] = []
        cut: list[_Pending] = []
        too_long: list[_Pending] = []
        for p in pending:
            (fitting if sum(map(len, p.ids)) <= p.prompt.room else too_long).append(p)
        for p in too_long:
            policy = p.waiting[0][0].on_overlong or self._settings.on_overlong
            self.tally.overlong += 1
            if policy == "error":
                longest = max(sum(map(len, q.ids)) for q in too_long)
                raise EngineError(
                    f"{len(too_long):,} of the inputs are too long for the model: the longest has {longest:,} tokens and "
                    f"{p.prompt.room:,} fit beside the question. Shorten them, or set on_overlong to null or truncate."
                )
            if policy == "truncate":
                p.ids = truncated(p.ids, p.prompt.room)
                p.key = truncated_key(p.key)
                cut.append(p)
            else:
                p.settle(None)
                self._note_failure(p.question, f"too long: more than the {p.prompt.room:,} tokens that fit", p.key)
        self._keep_failures(model)
        return fitting + self._recall(model, cut)

    def _ask(self, model: Model, pending: Sequence[_Pending], recalled: int) -> None:
        estimate = self._estimate(model, pending, recalled)
        self._warn_of_refresh(model, pending, estimate)
        self._budgets.refuse(estimate)
        self._listener(estimate)
        done, fresh, seconds = 0, 0, 0.0
        try:
            for start in range(0, len(pending), _REQUESTS_A_SCHEDULE):
                part = pending[start : start + _REQUESTS_A_SCHEDULE]
                for answered, tokens, spent in self._prefill(model, part):
                    done, fresh, seconds = done + answered, fresh + tokens, seconds + spent
                    self._listener(Answered(done, len(pending), fresh, seconds, recalled))
                    self._budgets.stop(done, len(pending))
        finally:
            model.store.flush()

    def _estimate(self, model: Model, pending: Sequence[_Pending], recalled: int) -> Asking:
        """What the round will cost."""
        sample = pending[:_REQUESTS_A_SCHEDULE]
        tokens = count_tokens([_request(p) for p in sample]).fresh * len(pending) // len(sample)
        return Asking(len(pending), tokens, tokens / model.engine.tokens_per_second, model.name, recalled)

    def _warn_of_refresh(self, model: Model, pending: Sequence[_Pending], estimate: Asking) -> None:
        if not self._terms.since:
            return
        if again := len(model.store.recall([p.key for p in pending])):
            share = again / len(pending)
            part = Asking(again, round(share * estimate.tokens), share * estimate.seconds, model.name)
            self._listener(Warned(f"{model.name}: a refresh would re-ask {again:,} inputs that have an answer ({part.cost})."))

    def _prefill(self, model: Model, pending: Sequence[_Pending]) -> Iterator[tuple[int, int, float]]:
        """Runs the batches; yields after each: requests answered, fresh tokens, seconds in the engine."""
        requests = [_request(p) for p in pending]
        reads: list[dict[int, Logits]] = [{} for _ in requests]
        for batch in schedule(requests, self._settings.token_budget):
            if self._cancelled.is_set():
                raise QuailError("The statement was cancelled. What was answered so far is kept.")
            begun = time.perf_counter()
            scores = model.engine.score(batch)
            spent = time.perf_counter() - begun
            finished = []
            for read, logits in zip(batch.reads, scores, strict=True):
                reads[read.request][read.part] = logits
                if len(reads[read.request]) == len(requests[read.request].readout.rows):
                    finished.append(read.request)
            self.tally.seconds_engine += spent
            self.tally.tokens_fresh += batch.tokens
            self._budgets.spend(len(finished), batch.tokens, spent)
            self._settle(model, [(pending[i], requests[i], _parts(reads[i])) for i in finished])
            yield len(finished), batch.tokens, spent

    def _settle(self, model: Model, finished: Sequence[tuple[_Pending, Request, list[Logits]]]) -> None:
        """Keeps the answers of a batch, question by question; a number that is not finite is a failed row."""
        answers: dict[Question, list[tuple[bytes, Answer]]] = {}
        for p, request, logits in finished:
            numbers = tuple(map(float, request.readout.answer(logits)))
            self.tally.asked += 1
            self.tally.tokens_logical += request.tokens
            failed = not all(map(math.isfinite, numbers))
            self.tally.failed += failed
            for inquiry in {id(inquiry): inquiry for inquiry, _ in p.waiting}.values():
                inquiry.asked += 1
                inquiry.failed += failed
            p.settle(None if failed else numbers)
            if failed:
                self._note_failure(p.question, _NOT_FINITE, p.key)
            else:
                answers.setdefault(p.question, []).append((p.key, Answer(numbers, request.tokens)))
        for question, found in answers.items():
            base = model.question_key(question)
            model.store.remember(base, question.title, found, model.name, model.engine.dtype)
        self._keep_failures(model)

    def _note_failure(self, question: Question, reason: str, key: bytes) -> None:
        self._failures.setdefault((question, reason), []).append(key)

    def _keep_failures(self, model: Model) -> None:
        """Writes down why inputs got no answer."""
        for (question, reason), keys in self._failures.items():
            base = model.question_key(question)
            model.store.remember_failures(base, question.title, keys, reason, model.name, self._terms.node)
        self._failures.clear()


def _request(pending: _Pending) -> Request:
    return pending.prompt.request(pending.ids)


def _parts(reads: dict[int, Logits]) -> list[Logits]:
    return [reads[part] for part in range(len(reads))]


def truncated(ids: Sequence[Ids], room: int) -> list[Ids]:
    """Texts cut to `room` tokens together: the longest is cut most, and each cut text keeps its head and its tail."""
    lengths = [len(text) for text in ids]
    limit = max(lengths)
    while sum(min(length, limit) for length in lengths) > room and limit > 0:
        over = sum(min(length, limit) for length in lengths) - room
        limit -= max(1, over // len(lengths))
    cut = []
    for text in ids:
        tail = min(len(text), limit) // 2
        head = min(len(text), limit) - tail
        cut.append(text if len(text) <= limit else text[:head] + text[len(text) - tail :])
    return cut


def _refuse_failures(inquiry: Inquiry, default_ratio: float) -> None:
    ratio = inquiry.max_error_ratio if inquiry.max_error_ratio is not None else default_ratio
    if inquiry.asked >= _RATIO_FROM and inquiry.failed > ratio * inquiry.asked:
        raise EngineError(
            f"{inquiry.failed:,} of {inquiry.asked:,} requests of '{inquiry.question.title}' failed, more than "
            f"max_error_ratio ({ratio:g}) allows. Nothing was written; the answers that came are kept. "
            "Raise max_error_ratio to take the failed rows as NULL."
        )
