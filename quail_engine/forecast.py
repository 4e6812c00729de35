"""What a statement would ask: it is run as always, but what the store does not know is supposed instead of asked.

DuckDB reads the rows, look-ups note inputs, and the store says which answers it has; so counts that no answer decides are
exact, and the plan's own stops (LIMIT, EXISTS, conditions that wait for others) are in the numbers. An unknown answer is drawn
from its key, TRUE as often as the call's selectivity says: the same statement over the same rows is estimated the same.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quail_engine.answering import Answering, Terms
from quail_engine.arrow import numbers_of
from quail_engine.asking_round import Round
from quail_engine.batching.forest import count_tokens, count_work
from quail_engine.budgets import Budgets
from quail_engine.calls import Question, Task, Template
from quail_engine.cascade import Cascade, leaders_of
from quail_engine.decisions import Decision
from quail_engine.lookups import Inquiry, Positions
from quail_engine.model import Model
from quail_engine.owner import Owner
from quail_engine.pending import pending_of, positions_of_leaders, segments_to_text
from quail_engine.plan import Alternative, Counted, Estimate, Figures, Layout, Source, Statistics, weakest
from quail_engine.prompts.request import Request
from quail_engine.resolve import QuestionCount
from quail_engine.roofline import Roofline, Work
from quail_engine.settings import Settings
from quail_engine.sql import Query
from quail_engine.waiting import Inputs, labelled

_REMEMBERED_FROM = 32
"""Known answers to a question in a statement from which on their share of TRUE says more than an assumption."""


_UNKNOWN_SHARE = Estimate(0.5, Source.ASSUMED)


class Supposing(Answering):
    """Answers by supposition. Nothing is asked, nothing is kept; the store is only read."""

    _keeps = False

    def __init__(self, settings: Settings, query: Query, asked_before: set[bytes]) -> None:
        """`asked_before`: keys that earlier statements of the same run will have asked by then; this statement's are added."""
        budgets = Budgets(settings, {})
        super().__init__(
            settings, lambda event: None, threading.Event(), Owner(settings.token_budget, settings.kv_bytes), Terms(budgets)
        )
        known = Statistics.of(query).calls
        self._shares = {call.question: known[i].selectivity for i, call in enumerate(query.calls)}
        self._asked_before = asked_before
        self._weakest = Source.MEASURED  # of what was supposed so far
        self._reached: dict[Inquiry, Source] = {}  # where it is known from which inputs there are
        self._true_of_known: dict[Inquiry, tuple[int, int]] = {}  # recalled answers, and those of them that are TRUE
        self._other_anchor: dict[Inquiry, Work] = {}  # were the other text of a pair first
        self._rooflines: dict[Inquiry, Roofline | None] = {}
        self._by_a_part: set[Inquiry] = set()  # whose tokens were counted of a part of their requests
        self._unfitted: set[Question] = set()  # whose labelled rows were counted

    def _run(self, model: Model, inquiries: Sequence[Inquiry], round_: Round) -> None:
        for inquiry in inquiries:
            self._reached[inquiry] = weakest(self._reached.get(inquiry, Source.MEASURED), self._weakest)
            self._rooflines[inquiry] = model.roofline
        super()._run(model, inquiries, round_)
        for inquiry in round_.cascade:  # which of its inputs are asked was supposed just now
            self._reached[inquiry] = weakest(self._reached.get(inquiry, Source.MEASURED), self._weakest)

    def share(self, inquiry: Inquiry) -> Estimate:
        """The share of inputs that are TRUE: a hint, else that of the answers that are known, else an assumption."""
        given = self._shares.get(inquiry.question, _UNKNOWN_SHARE)
        known, true = self._true_of_known.get(inquiry, (0, 0))
        if given.source is Source.ASSUMED and known >= _REMEMBERED_FROM:
            return Estimate(true / known, Source.REMEMBERED)
        return given

    def counted(self, count: QuestionCount) -> Counted:
        """What a call is estimated to meet and to cost."""
        inquiry = count.inquiry
        tally, reached = count.tally, self._weakest if count.stops else self._reached.get(inquiry, self._weakest)
        share = self.share(inquiry)
        roofline = self._rooflines.get(inquiry)
        read = weakest(reached, Source.SAMPLED) if inquiry in self._by_a_part else reached
        timed = weakest(read, Source.CALCULATED if roofline and roofline.machine.measured else Source.ASSUMED)
        has_kv = self._settings.engine != "mock"

        def of(value: float, source: Source = reached) -> Estimate:
            return Estimate(value, source)

        known = tally.recalled == count.inputs
        figures = Figures(
            rows=of(count.rows),
            inputs=of(count.inputs),
            true=None if count.true is None else of(count.true, reached if known else weakest(reached, share.source)),
            requests=of(tally.asked),
            recalled=of(tally.recalled),
            overlong=of(tally.overlong),
            tokens_fresh=of(tally.tokens_fresh, read),
            tokens_reused=of(tally.tokens_logical - tally.tokens_fresh, read),
            kv_bytes=of(tally.tokens_fresh * roofline.shape.kv_bytes, read) if roofline and has_kv else None,
            seconds=of(tally.seconds_engine, timed) if roofline else None if tally.tokens_fresh else of(0.0),
        )
        other = self._other_anchor.get(inquiry)
        turned = f"the other text first, {{'anchor': {1 - inquiry.question.anchor}}}"
        seconds = of(roofline.seconds(other, self._settings.token_budget), timed) if roofline and other else None
        alternatives = () if other is None else (Alternative(turned, of(tally.asked), of(round(other.tokens), read), seconds),)
        return Counted(figures, share if count.true is not None else None, same_as=count.same_as, alternatives=alternatives)

    def _recall(self, model: Model, inputs: Inputs, keys: list[bytes]) -> tuple[Inputs, list[bytes]]:
        rest, rest_keys = super()._recall(model, inputs, keys)
        found = np.setdiff1d(inputs.positions, rest.positions)
        true = int((inputs.inquiry.numbers(found, 1)[:, 0] >= 0).sum())
        before, true_before = self._true_of_known.get(inputs.inquiry, (0, 0))
        self._true_of_known[inputs.inquiry] = before + len(found), true_before + true
        if not self._asked_before.isdisjoint(rest_keys):
            again = [row for row, key in enumerate(rest_keys) if key in self._asked_before]
            self.tallies.of(inputs.inquiry).recalled += len(again)
            self._suppose(rest.question, inputs.inquiry, rest.positions[again], [rest_keys[row] for row in again])
            others = [row for row, key in enumerate(rest_keys) if key not in self._asked_before]
            rest, rest_keys = rest.take(others), [rest_keys[row] for row in others]
        return rest, rest_keys

    def _weigh_labelled(self, model: Model, inquiries: Sequence[Inquiry]) -> None:
        """A plan is shown whatever it costs."""

    def _rule(self, model: Model, inquiry: Inquiry, question: Question) -> Decision | None:
        """What was fitted before. Where nothing was, labelled rows are counted; what will be fitted to them is not known."""
        if rule := model.rule(question):
            self.rules[question] = rule
        elif question not in self._unfitted:
            self._unfitted.add(question)
            before = self._weakest
            self._ask_labelled(model, inquiry, question)
            self._weakest = before
        return rule

    def _ask(self, model: Model, inquiries: Sequence[Inquiry], round_: Round) -> None:
        """Counts what would be asked, its tokens by the first part of it, and supposes the answers."""
        requests, counted = len(round_.waiting), False
        answered = [np.empty(0, np.int64)]  # of the first inquiry
        for part in round_.waiting.parts():
            rows = self._suppose_part(inquiries, part, round_.cascade)
            if not counted:
                asked = part.take(pa.array(rows, pa.int64()))
                self._count_tokens(model, inquiries, asked, requests / len(part), round_.held)
                counted = True
            answered.append(numbers_of(part.column(1))[numbers_of(part.column(0)) == 0])
        if round_.behind:
            held = segments_to_text(model, inquiries[0].question)
            round_.behind(np.concatenate(answered), partial(self._answer_behind, model, round_, held))

    def _suppose_part(self, inquiries: Sequence[Inquiry], part: pa.RecordBatch, cascade: Cascade) -> list[int]:
        """Supposes the answers of a part, those that others wait for first; returns the rows that would be asked."""
        numbers, positions, keys, _, _, labels = (column.to_pylist() for column in part.columns)
        leads = positions_of_leaders(inquiries, part, leaders_of(cascade))
        groups: dict[tuple[int, str | None], list[int]] = {}
        for row, group in enumerate(zip(numbers, labels, strict=True)):
            groups.setdefault(group, []).append(row)
        asked: list[int] = []
        for (number, list_), rows in sorted(groups.items(), key=lambda group: group[0][0]):
            inquiry = inquiries[number]
            if follows := cascade.get(inquiry):
                needed = follows.passes(np.array([leads[row] for row in rows])).tolist()
                inquiry.refuse([positions[row] for row, needs in zip(rows, needed, strict=True) if not needs])
                rows = list(itertools.compress(rows, needed))
            self.tallies.of(inquiry).asked += len(rows)
            names = [keys[row] for row in rows]
            self._suppose(labelled(inquiry.question, list_), inquiry, [positions[row] for row in rows], names)
            self._asked_before.update(names)
            asked += rows
        return sorted(asked)

    def _count_tokens(self, model: Model, inquiries: Sequence[Inquiry], part: pa.RecordBatch, scale: float, held: int) -> None:
        """Tokens of a round, from those of `part`, which is asked of one of `scale` equal ones; `held` as in `Round`."""
        pending = pending_of(model, inquiries, part, self.rules)
        logical = Counter[Inquiry]()
        for p in pending:
            logical[p.asked.inquiry] += p.request.tokens
        work, roofline = count_work([p.request for p in pending], held) * scale, model.roofline
        scaled = {inquiry: round(scale * tokens) for inquiry, tokens in logical.items()}
        seconds = roofline.seconds(work, self._settings.token_budget) if roofline else 0.0
        self.tallies.share_out(round(work.tokens), seconds, scaled)
        if scale > 1:
            self._by_a_part.update(logical)
        texts = part.column(4).to_pylist()
        for inquiry in logical:
            if inquiry.question.task is Task.JUDGE and len(inquiry.question.template.arguments) == 2:
                pairs = [own for own, p in zip(texts, pending, strict=True) if p.asked.inquiry is inquiry]
                turned = _turned(model, inquiry.question, pairs) * scale
                self._other_anchor[inquiry] = self._other_anchor.get(inquiry, Work()) + turned

    def _suppose(
        self, question: Question, inquiry: Inquiry, positions: Sequence[int] | Positions, keys: Sequence[bytes]
    ) -> None:
        """Settles inputs by numbers drawn from their keys."""
        if not len(keys):
            return
        share = self.share(inquiry)
        numbers = np.frombuffer(b"".join(key[:4] for key in keys), np.uint32)
        # Spread evenly, so that the share of TRUE is met as nearly as the number of inputs lets it.
        drawn = (numbers.argsort().argsort() + numbers[0] / 2**32) / len(keys)
        self._weakest = weakest(self._weakest, share.source)
        inquiry.settle(positions, _supposed(question, share.value, drawn))

    def _keep_failures(self, model: Model) -> None:
        self._failures.clear()


def _supposed(question: Question, share: float, drawn: NDArray[np.float64]) -> NDArray[np.float32]:
    """An answer's numbers, a row a number drawn from [0, 1): margins that are TRUE for `share` of them, any label alike."""
    labels = len(question.labels)
    if question.task is not Task.CLASSIFY:
        turned = (drawn[:, None] + np.arange(max(1, labels)) / max(1, labels)) % 1.0
        return np.asarray(np.where(turned < share, 4 - turned, -4 - turned), np.float32)
    chosen = (drawn * labels).astype(np.int64)
    return np.asarray(np.where(np.arange(labels) == chosen[:, None], np.log(0.9), np.log(0.1 / (labels - 1))), np.float32)


def _turned(model: Model, question: Question, pairs: Sequence[Sequence[str]]) -> Work:
    """Of pairs, were their other text the anchor."""
    prompt = model.prompter.compile(replace(question, anchor=1 - question.anchor))
    texts = list(dict.fromkeys(itertools.chain.from_iterable(pairs)))
    ids = dict(zip(texts, model.tokens.ids(model.prompter, texts), strict=True))
    return count_work([prompt.request([ids[text] for text in pair]) for pair in pairs])


def layout_of(model: Model) -> Layout:
    """Whether a model's prompts put texts or questions first, by what two of them share."""
    prompts = [model.prompter.compile(Question(Task.JUDGE, Template((question, 0)))) for question in ("Is it a? ", "Is it b? ")]
    one, other = model.prompter.encode(["one text", "two text"])
    same, different = ([prompts[0].request([one]), prompts[1].request([text])] for text in (one, other))
    return Layout(model.name, model.prompter.layout, _shared(same) > _shared(different))


def _shared(requests: Sequence[Request]) -> int:
    """Tokens that two requests share."""
    count = count_tokens(requests)
    return count.logical - count.fresh
