"""Answers for what a round found missing: recall what the store has, prefill the rest, remember it."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quail_engine.answers import truncated_key
from quail_engine.asking_round import Behind, Round, Settled, by_text
from quail_engine.batching.forest import count_work
from quail_engine.budgets import Budgets, Spent
from quail_engine.calls import Question, Reads, Task
from quail_engine.cascade import Cascade, Links, expected, leaders_first, leaders_of, refuse, without_needless
from quail_engine.deciding import Known, decided, derived, doubts, fitted, keep, read_before, recalled, unanswered
from quail_engine.decisions import Decision
from quail_engine.errors import QuailError
from quail_engine.lookups import Inquiry, Positions
from quail_engine.model import Model
from quail_engine.owner import Answers, Handed, Owner, Place, Values
from quail_engine.pending import Pending, by_question, keys_of, length_of, pending_of, segments_to_text, tokenised
from quail_engine.progress import Asking, Listener, Warned
from quail_engine.prompts.request import Logits
from quail_engine.ratios import refuse_failures, refuse_overlong
from quail_engine.settings import Settings
from quail_engine.tallies import Tallies
from quail_engine.waiting import PART_BYTES, PART_ROWS, Inputs, Repeats, Waiting, inputs_of, joined, may_repeat

_NOT_FINITE = "the engine gave no finite number"
_NO_LABELS = "its labels are no list of two or more different ones"

_TOKENS_A_BYTE = 4
"""No tokenizer makes more tokens of a byte; inputs that fit by this need not be encoded to know that they fit."""


@dataclass(frozen=True)
class Terms:
    """Who asks, and under which conditions: of one statement."""

    budgets: Budgets
    node: str = ""  # as dbt names it
    since: int = 0  # answers older than this, in microseconds since 1970 UTC, are asked again


class Answering:
    """Answers the inquiries of one statement, beside others: the engines' owner lets them share batches."""

    _keeps = True  # what follows from the store's answers is kept there, too

    def __init__(self, settings: Settings, listener: Listener, cancelled: threading.Event, owner: Owner, terms: Terms) -> None:
        self._settings = settings
        self._terms = terms
        self._budgets = terms.budgets.of_a_statement()
        self._listener = listener
        self._cancelled = cancelled
        self._owner = owner
        self._failures: dict[tuple[Question, str], list[bytes]] = {}  # keys of inputs by question and reason
        self.tallies = Tallies()
        self.rules: dict[Question, Decision] = {}  # what decided something in this statement

    def answer(
        self,
        model: Model,
        inquiries: Sequence[Inquiry],
        cascade: Cascade = MappingProxyType({}),
        behind: Behind | None = None,
    ) -> None:
        """Settles every missing input: known numbers, or None for one that failed, was too long or is needless by `cascade`.

        `behind` is told of the first inquiry's answers while the KV of their texts is held, so that all is asked that reads it;
        not in a refresh, which says beforehand what it asks again. Raises BudgetError before anything is asked, EngineError
        when too many requests failed.
        """
        in_order = leaders_first(inquiries, cascade)
        # One after the other where labelled rows differ: the zero-shot numbers that they share are asked once.
        for rows in dict.fromkeys(inquiry.question.labelled for inquiry in in_order):
            alike = [inquiry for inquiry in in_order if inquiry.question.labelled == rows]
            self._answer(model, alike, cascade, None if self._terms.since else behind)

    def recall(self, model: Model, inquiry: Inquiry) -> int:
        """Settles missing inputs that the store knows, without asking about any; returns their number. The others stay missing.

        None of a question with labelled rows, which may have to be asked first.
        """
        if inquiry.question.labelled:
            return 0
        recalled = 0
        for part in inquiry.missing.parts(PART_ROWS, PART_BYTES):
            self._stop_if_cancelled()
            for inputs in inputs_of(inquiry, part):
                rest, _ = self._recall(model, inputs, keys_of(model, inputs))
                recalled += len(inputs) - len(rest)
        return recalled

    def _answer(self, model: Model, inquiries: Sequence[Inquiry], cascade: Cascade, behind: Behind | None) -> None:
        self._weigh_labelled(model, inquiries)
        with self._owner.place() as place, closing(Waiting(inquiries, self._settings.missing_bytes)) as waiting:
            round_ = Round(place, waiting, cascade, Repeats() if may_repeat(inquiries) else None, behind)
            self._run(model, inquiries, round_)
        for inquiry in (*inquiries, *round_.asked_behind):
            refuse_failures(inquiry)

    def _answer_behind(self, model: Model, round_: Round, held: int, inquiries: Sequence[Inquiry]) -> None:
        """As `answer`, on the KV that a round holds of its requests' first `held` segments; a part of that round."""
        with closing(Waiting(inquiries, self._settings.missing_bytes)) as waiting:
            self._run(model, inquiries, Round(round_.place, waiting, {}, None, held=held, standing=round_.standing))
        round_.asked_behind.update(inquiries)

    def _run(self, model: Model, inquiries: Sequence[Inquiry], round_: Round) -> None:
        for inquiry in inquiries:
            with closing(inquiry.taken()) as missing:
                for part in missing.parts(PART_ROWS, PART_BYTES):
                    self._stop_if_cancelled()
                    for inputs in inputs_of(inquiry, part):
                        self._sift(model, inputs, round_)
                        self._keep_failures(model)
        refuse_overlong(round_.refused, round_.longest, round_.room)
        if len(round_.waiting):
            self._ask(model, inquiries, round_)
        if round_.repeats:
            round_.repeats.settle()

    def _stop_if_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise QuailError("The statement was cancelled. What was answered so far is kept.")

    def _sift(self, model: Model, inputs: Inputs, round_: Round) -> None:
        """Settles the inputs that need no request; the others wait."""
        keys = keys_of(model, inputs)
        if inputs.question.task is not Task.JUDGE and not inputs.question.labels:
            # These rows cannot be asked; like a failed request they are NULL, and count towards max_error_ratio.
            self.tallies.of(inputs.inquiry).failed += len(inputs)
            inputs.inquiry.count(len(inputs), len(inputs))
            inputs.inquiry.settle(inputs.positions, None)
            self._note_failures(inputs.question, _NO_LABELS, keys)
            return
        if round_.repeats:
            rows = round_.repeats.first(inputs, keys)
            inputs, keys = inputs.take(rows), [keys[row] for row in rows.tolist()]
        unsettled = len(inputs)
        inputs, keys = self._recall(model, inputs, keys)
        round_.recalled += unsettled - len(inputs)
        inputs, keys = self._fitting(model, inputs, keys, round_)
        if len(inputs):
            round_.waiting.add(inputs, keys)
            round_.asked_again += len(model.store.recall(keys)) if self._terms.since else 0

    def _recall(self, model: Model, inputs: Inputs, keys: list[bytes]) -> tuple[Inputs, list[bytes]]:
        """Settles what the store knows; returns the rest."""
        known = self._known(model, inputs.inquiry, inputs.question, keys)
        if not known:
            return inputs, keys
        found = [row for row, key in enumerate(keys) if key in known]
        rest = [row for row, key in enumerate(keys) if key not in known]
        self.tallies.of(inputs.inquiry).recalled += len(found)
        inputs.inquiry.settle(inputs.positions[found], np.array([known[keys[row]] for row in found], np.float32))
        return inputs.take(rest), [keys[row] for row in rest]

    def _known(self, model: Model, inquiry: Inquiry, question: Question, keys: Sequence[bytes]) -> Known:
        """The numbers that are known without asking about these rows."""
        since = self._terms.since
        if not question.labelled:
            return read_before(model, keys, since, inquiry.reads)
        known = recalled(model, question, keys, since)
        if (rest := [key for key in keys if key not in known]) and (rule := self._rule(model, inquiry, question)):
            known |= derived(model, question, rule, rest, since, self._keeps)
        return known

    def _rule(self, model: Model, inquiry: Inquiry, question: Question) -> Decision | None:
        """What decides a question: fitted before, or now to its labelled rows, which are asked first."""
        rule = self._fitted_before(model, question)
        if rule is None:
            rule = fitted(question, self._ask_labelled(model, inquiry, question))
            model.keep_rule(question, rule)
        if question not in self.rules:
            for doubt in doubts(question, rule):
                self._listener(Warned(doubt))
        self.rules[question] = rule
        return rule

    def _weigh_labelled(self, model: Model, inquiries: Sequence[Inquiry]) -> None:
        """Raises BudgetError where labelled rows, which are asked first, and what is missing go beyond a budget together."""
        questions = dict.fromkeys(inquiry.question for inquiry in inquiries if inquiry.question.labelled)
        unfitted = [question for question in questions if self._fitted_before(model, question) is None]
        if unfitted:
            rows = [self._labelled(model, question)[0] for question in unfitted]
            everything = [*rows, *inquiries]
            with ExitStack() as closed:
                waiting = closed.enter_context(closing(Waiting(everything, self._settings.missing_bytes)))
                for inquiry in rows:
                    closed.callback(inquiry.missing.close)
                for inputs, keys in unanswered(model, everything, self._terms.since):
                    waiting.add(inputs, keys)
                for part in itertools.islice(waiting.parts(), 1):
                    first = pending_of(model, everything, part, {})
                    with self._budgets.round(self._estimate(model, first, len(waiting), 0, {})):
                        pass

    def _fitted_before(self, model: Model, question: Question) -> Decision | None:
        return None if self._terms.since and question not in self.rules else model.rule(question)

    def _labelled(self, model: Model, question: Question) -> tuple[Inquiry, Positions]:
        """The labelled rows of a question as inputs, and where they stand in their order."""
        columns = [pa.array(texts, pa.string()) for texts in zip(*(row.inputs for row in question.labelled), strict=True)]
        rows = len(question.labelled)
        inquiry = Inquiry(question.zero_shot, model.name, "null", False, len(columns), rows, self._settings.missing_bytes)
        inquiry.reads = Reads.NUMBERS | Reads.FEATURES
        return inquiry, inquiry.meet(columns, rows)

    def _ask_labelled(self, model: Model, asked_for: Inquiry, question: Question) -> NDArray[np.float32]:
        """Numbers and features of a question's labelled rows, in their order; NaN where there are none."""
        inquiry, positions = self._labelled(model, question)
        self.tallies.belongs(inquiry, asked_for)
        self.answer(model, [inquiry])
        return inquiry.numbers(positions, inquiry.numbers_each)

    def _fitting(self, model: Model, inputs: Inputs, keys: list[bytes], round_: Round) -> tuple[Inputs, list[bytes]]:
        """What fits into the model's context; the rest is settled as NULL, refused or cut, as `on_overlong` says."""
        room = model.prompter.compile(inputs.question.zero_shot).room
        looked_at = np.flatnonzero(inputs.text_bytes * _TOKENS_A_BYTE > room)
        tokens = [length_of(ids) for ids in tokenised(model, inputs.take(looked_at))]
        long = [row for row, length in zip(looked_at.tolist(), tokens, strict=True) if length > room]
        if not long:
            return inputs, keys
        self.tallies.of(inputs.inquiry).overlong += len(long)
        rest = np.setdiff1d(np.arange(len(inputs)), long)
        fitting, fitting_keys = inputs.take(rest), [keys[row] for row in rest.tolist()]
        cut, cut_keys = inputs.take(long), [keys[row] for row in long]
        policy = inputs.inquiry.on_overlong or self._settings.on_overlong
        if policy == "truncate":
            cut, cut_keys = self._recall(model, cut, list(map(truncated_key, cut_keys)))
            round_.recalled += len(long) - len(cut)
            return joined(fitting, cut), fitting_keys + cut_keys
        if policy == "error":
            round_.refused, round_.longest, round_.room = round_.refused + len(long), max(round_.longest, *tokens), room
        else:
            inputs.inquiry.settle(cut.positions, None)
            self._note_failures(inputs.question, f"too long: more than the {room:,} tokens that fit", cut_keys)
        return fitting, fitting_keys

    def _ask(self, model: Model, inquiries: Sequence[Inquiry], round_: Round) -> None:
        requests = len(round_.waiting)
        leaders = leaders_of(round_.cascade)
        parts = (pending_of(model, inquiries, part, self.rules, leaders) for part in round_.waiting.parts())
        first = next(parts)
        estimate = self._estimate(model, first, requests, round_.recalled, round_.cascade, round_.held)
        self._warn_of_refresh(estimate, round_.asked_again)
        self._warn_of_layout(model, inquiries)
        round_.standing.wants(requests, round_.recalled)
        with self._budgets.round(estimate) as expected:
            if not round_.held:
                self._listener(estimate)
            try:
                for pending in itertools.chain([first], parts):
                    if round_.behind:
                        self._ask_by_text(model, inquiries[0], pending, round_, expected)
                    else:
                        self._ask_part(model, pending, round_, expected)
            finally:
                model.features.flush()
                model.store.flush()

    def _ask_by_text(self, model: Model, first: Inquiry, pending: Sequence[Pending], round_: Round, expected: Spent) -> None:
        """Asks about as many texts as KV is held of, then what is asked behind them, and goes on to the next."""
        assert round_.behind, "nothing reads what would be held"
        held = segments_to_text(model, first.question)
        for some in by_text(pending, held, self._owner.room(model)):
            with round_.place.holding(model, held):
                self._ask_part(model, some, round_, expected)
                answered = np.array([p.position for p in some if p.asked.inquiry is first], np.int64)
                round_.behind(answered, partial(self._answer_behind, model, round_, held))

    def _ask_part(self, model: Model, pending: Sequence[Pending], round_: Round, expected: Spent) -> None:
        standing = round_.standing
        with closing(self._prefill(model, pending, round_, expected)) as batches:
            for settled in batches:
                self._listener(standing.add(settled))
                self._budgets.stop(standing.done, standing.requests)

    def _estimate(
        self, model: Model, sample: Sequence[Pending], requests: int, recalled: int, cascade: Cascade, held: int = 0
    ) -> Asking:
        """What the round will cost, by its first part; what another statement is asking costs nothing here."""
        taken = self._owner.taken([p.key for p in sample])
        ours = [p.request for p in expected(sample, cascade) if p.key not in taken]
        work, roofline = count_work(ours, held) * (requests / len(sample)), model.engine.roofline
        seconds = roofline.seconds(work, self._settings.token_budget)
        asked, measured = len(ours) * requests // len(sample), roofline.machine.measured
        counted = len(sample) == requests
        return Asking(asked, int(work.tokens), seconds, model.name, recalled, self._settings.sample, measured, counted)

    def _warn_of_refresh(self, estimate: Asking, again: int) -> None:
        if again and estimate.requests:
            share = again / estimate.requests
            tokens, seconds = round(share * estimate.tokens), share * estimate.seconds
            part = replace(estimate, requests=again, tokens=tokens, seconds=seconds, recalled=0, share=1.0, counted=False)
            inputs = "input that has" if again == 1 else "inputs that have"
            moment = datetime.fromtimestamp(self._terms.since / 1_000_000, timezone.utc).isoformat()
            self._listener(
                Warned(
                    f"{estimate.model}: a refresh would re-ask {again:,} {inputs} an answer ({part.cost}). Should it be "
                    f"interrupted, quail_refresh: '{moment}' in place of true goes on with it."
                )
            )

    def _warn_of_layout(self, model: Model, inquiries: Sequence[Inquiry]) -> None:
        for question in dict.fromkeys(inquiry.question for inquiry in inquiries):
            if left := model.left_behind(question):
                self._listener(
                    Warned(
                        f"{model.name}: {left:,} stored answers to '{question.title}' were given under an earlier layout than "
                        f"{model.prompter.layout} and are not used: what the rows need is asked again."
                    )
                )

    def _prefill(
        self, model: Model, pending: Sequence[Pending], round_: Round, expected: Spent
    ) -> Generator[Settled, None, None]:
        """Has requests answered; yields after each batch."""
        place, cascade = round_.place, round_.cascade
        while pending:
            pending, needless = without_needless(pending, cascade)
            if needless:
                yield Settled(needless=needless)
            claimed = self._owner.claim(place, [p.key for p in pending])
            ours, pending = [p for p in pending if p.key in claimed], [p for p in pending if p.key not in claimed]
            if not place.alone:  # another statement may have got answers since the store was asked
                known = self._known_by_now(model, ours)
                self._owner.release(place, list(known), {})
                ours = self._take(ours, known)
                yield Settled(answered=len(known))
            links = Links.of(ours, cascade)
            if links.late:
                late = [ours[index] for index in sorted(links.late)]
                self._owner.release(place, [p.key for p in late], {})
                ours, pending = [p for index, p in enumerate(ours) if index not in links.late], [*pending, *late]
                links = Links.of(ours, cascade)
            with self._owner.handed_in(place, model, [p.request for p in ours], links.after) as handed:
                try:
                    for answers in self._owner.answers(place, handed, self._stop_if_cancelled):
                        settled = self._keep(model, ours, answers, place, expected)
                        yield replace(settled, needless=self._decide(ours, answers, place, handed, links))
                finally:
                    for answers in self._owner.rest(place, handed):
                        self._keep(model, ours, answers, place, expected)
            if pending:
                given = self._owner.awaited(place, self._stop_if_cancelled)
                # What a rule decides, or comes with features, is more than the model's numbers: the store has it, if any.
                plain = [p for p in pending if not p.asked.question.labelled and p.asked.reads is Reads.NUMBERS]
                known = {p.key: given[p.key] for p in plain if p.key in given}
                pending = self._take(pending, known)
                yield Settled(answered=len(known))

    def _decide(self, pending: Sequence[Pending], answers: Answers, place: Place, handed: Handed, links: Links) -> int:
        """Has asked what waited for these answers, or not; returns how many requests are needless."""
        needless: list[int] = []
        for index, followed in links.decided(pending, [index for index, _ in answers.logits]):
            needless += self._owner.decide(handed, index, followed)
        refuse([pending[index] for index in needless])
        self._owner.release(place, [pending[index].key for index in needless], {})
        return len(needless)

    def _known_by_now(self, model: Model, pending: Sequence[Pending]) -> Known:
        """What the store knows by now."""
        known: Known = {}
        for group in by_question(pending):
            asked = group[0].asked
            known |= self._known(model, asked.inquiry, asked.question, [p.key for p in group])
        return known

    def _take(self, pending: Sequence[Pending], known: Known) -> list[Pending]:
        """Settles what was answered on another statement's account; returns the rest."""
        for p in pending:
            if p.key in known:
                p.asked.inquiry.settle([p.position], np.array([known[p.key]], np.float32))
                self.tallies.of(p.asked.inquiry).recalled += 1
        return [p for p in pending if p.key not in known]

    def _keep(self, model: Model, pending: Sequence[Pending], answers: Answers, place: Place, expected: Spent) -> Settled:
        """Counts and keeps what a batch answered."""
        finished = [(pending[index], logits) for index, logits in answers.logits]
        self._budgets.spend(len(finished), answers.tokens, answers.seconds, expected)
        self._owner.release(place, [p.key for p, _ in finished], self._settle(model, finished))
        logical = Counter[Inquiry]()
        for p, _ in finished:
            logical[p.asked.inquiry] += p.request.tokens
        self.tallies.share_out(answers.tokens, answers.seconds, logical)
        return Settled(len(finished), answers.tokens, answers.seconds)

    def _settle(self, model: Model, finished: Sequence[tuple[Pending, list[Logits]]]) -> dict[bytes, Values]:
        """Keeps the answers of a batch, question by question, and gives what the model gave; a number that is not finite is a
        failed row."""
        settled: dict[bytes, Values] = {}
        read = {id(pending): logits for pending, logits in finished}
        for pending in by_question(pending for pending, _ in finished):
            asked = pending[0].asked
            logits = [np.stack(vectors) for vectors in zip(*(read[id(p)] for p in pending), strict=True)]
            numbers = asked.readout.answer(logits)
            failed: NDArray[np.bool_] = np.asarray(~np.isfinite(numbers).all(axis=1))
            numbers[failed] = np.nan
            keys, tokens = [p.key for p in pending], [p.request.tokens for p in pending]
            tally = self.tallies.of(asked.inquiry)
            tally.asked += len(pending)
            tally.failed += int(failed.sum())
            settled |= keep(model, asked, keys, numbers, tokens, self._terms.since)
            if asked.rule:
                numbers = decided(model, asked.question, asked.rule, keys, numbers, tokens, self._terms.since)
            asked.inquiry.settle([p.position for p in pending], numbers)
            asked.inquiry.count(len(pending), int(failed.sum()))
            self._note_failures(asked.question, _NOT_FINITE, [keys[row] for row in np.flatnonzero(failed).tolist()])
        self._keep_failures(model)
        return settled

    def _note_failures(self, question: Question, reason: str, keys: Sequence[bytes]) -> None:
        if keys:
            self._failures.setdefault((question, reason), []).extend(keys)

    def _keep_failures(self, model: Model) -> None:
        """Writes down why inputs got no answer."""
        for (question, reason), keys in self._failures.items():
            base = model.question_key(question)
            model.store.remember_failures(base, question.title, keys, reason, model.name, self._terms.node)
        self._failures.clear()
