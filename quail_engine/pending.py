"""From inputs that wait to requests: texts become token ids, cut where they are too long, and a question its prompt."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from quail_engine.answers import answer_keys
from quail_engine.arrow import numbers_of, of_numbers
from quail_engine.calls import Question, Reads, Task
from quail_engine.decisions import Decision
from quail_engine.lookups import Inquiry, digests_of
from quail_engine.model import Model
from quail_engine.plan import Reading
from quail_engine.prompts.prompter import Prompt
from quail_engine.prompts.readout import FeatureReadout
from quail_engine.prompts.request import Ids, Readout, Request
from quail_engine.waiting import Inputs, labelled

_TEXT, _OTHER = -2, -3
"""Stand for the tokens of a text, and of others; no tokens of a model, and not HIDDEN."""


@dataclass(frozen=True)
class Asked:
    """A question as one model is asked it, for one inquiry."""

    inquiry: Inquiry
    question: Question
    prompt: Prompt
    readout: Readout
    base: bytes  # key of the question as the model sees it, without labelled rows
    rule: Decision | None  # what becomes of what is read, where the question has labelled rows
    reads: Reads


class Pending(NamedTuple):  # a named tuple: one is made for every row
    """One request, and the input that waits for its answer."""

    asked: Asked
    position: int
    key: bytes
    request: Request
    leader: int = -1  # where another question decides whether this one is asked: the position of the same text there


def pending_of(
    model: Model,
    inquiries: Sequence[Inquiry],
    part: pa.RecordBatch,
    rules: Mapping[Question, Decision],
    leaders: Mapping[Inquiry, Inquiry] = MappingProxyType({}),
) -> list[Pending]:
    """The requests of a part of what waits, in its order; `rules` has those of questions with labelled rows, `leaders` which
    question decides about which. Without its rule a question is asked what any rule would need at the least."""
    numbers, positions, keys, _, texts, labels = (column.to_pylist() for column in part.columns)
    ids = _ids(model, list(itertools.chain.from_iterable(texts)))
    questions: dict[tuple[int, str | None], Asked] = {}
    leads = positions_of_leaders(inquiries, part, leaders)
    pending = []
    for number, position, key, arguments, list_, lead in zip(numbers, positions, keys, texts, labels, leads, strict=True):
        asked = questions.get((number, list_))
        if asked is None:
            asked = questions[number, list_] = _asked(model, inquiries[number], list_, rules)
        own = list(itertools.islice(ids, len(arguments)))
        fits = length_of(own) <= asked.prompt.room
        request = asked.prompt.request(own if fits else truncated(own, asked.prompt.room))
        pending.append(Pending(asked, position, key, request._replace(readout=asked.readout), lead))
    return pending


def by_question(pending: Iterable[Pending]) -> list[list[Pending]]:
    """Requests of one question and inquiry together."""
    groups: dict[int, list[Pending]] = {}
    for one in pending:
        groups.setdefault(id(one.asked), []).append(one)
    return list(groups.values())


def positions_of_leaders(inquiries: Sequence[Inquiry], part: pa.RecordBatch, leaders: Mapping[Inquiry, Inquiry]) -> list[int]:
    """For each row of a part, where its text stands among those of the question that decides about its own; -1: nowhere."""
    if not leaders:
        return [-1] * len(part)
    found, numbers = np.full(len(part), -1), numbers_of(part.column(0))
    for number, inquiry in enumerate(inquiries):
        if leader := leaders.get(inquiry):
            rows = np.flatnonzero(numbers == number)
            texts = part.column(4).take(of_numbers(rows)).flatten()
            assert len(texts) == len(rows), "only questions about one text wait for each other"
            found[rows] = leader.find(digests_of([texts], len(rows)))
    positions: list[int] = found.tolist()
    return positions


def _asked(model: Model, inquiry: Inquiry, labels: str | None, rules: Mapping[Question, Decision]) -> Asked:
    question = labelled(inquiry.question, labels)
    seen = question.zero_shot
    prompt = model.prompter.compile(seen)
    rule = rules.get(question)
    reads = rule.reads if rule else inquiry.reads
    if question.labelled and not rule and question.task is Task.CLASSIFY:
        reads = Reads.FEATURES
    readout = with_features(prompt, seen, reads) if Reads.FEATURES in reads else prompt.readout
    return Asked(inquiry, question, prompt, readout, model.question_key(seen), rule, reads)


def with_features(prompt: Prompt, question: Question, reads: Reads) -> FeatureReadout:
    """The hidden features, after what the prompt's own readout gives where numbers are read, too."""
    texts = len(question.template.arguments)
    head, *others = prompt.request([(_TEXT,)] * texts).segments
    tail = others[-1] if others and others[-1] != (_TEXT,) else ()
    return FeatureReadout(prompt.readout if Reads.NUMBERS in reads else None, len(head), len(tail), texts)


def _ids(model: Model, texts: Sequence[str]) -> Iterator[Ids]:
    """The token ids of texts, in their order; a text that occurs twice is encoded once."""
    distinct = list(dict.fromkeys(texts))
    ids = dict(zip(distinct, model.tokens.ids(model.prompter, distinct), strict=True))
    return map(ids.__getitem__, texts)


def reading_of(model: Model, question: Question) -> Reading | None:
    """How a question reads the text that comes first, of a pair the anchor's; None where another text stands before it.

    What comes with labelled rows is asked apart from what comes with others.
    """
    request = _marked(model, question)
    ids = tuple(itertools.chain.from_iterable(request.segments))
    place, words = ids.index(_TEXT), question.title
    if _OTHER in ids[:place]:
        return None
    tokens_a_byte = len(model.prompter.encode([words])[0]) / len(words.encode())
    before = model.name, question.labelled, ids[:place]
    return Reading(before, ids[place + 1 :], request.tokens - len(ids), tokens_a_byte)


def segments_to_text(model: Model, question: Question) -> int:
    """How many segments of a question's requests there are up to the text that comes first, with it."""
    return next(place for place, ids in enumerate(_marked(model, question).segments, 1) if _TEXT in ids)


def _marked(model: Model, question: Question) -> Request:
    """A request whose texts are markers."""
    texts = [(_OTHER,)] * len(question.template.arguments)
    texts[question.anchor] = (_TEXT,)
    return model.prompter.compile(question.zero_shot).request(texts)


def keys_of(model: Model, inputs: Inputs) -> list[bytes]:
    """The keys of the inputs' answers."""
    base = model.question_key(inputs.question.zero_shot)
    return answer_keys(base, [column.cast(pa.binary()).to_pylist() for column in inputs.columns], len(inputs))


def tokenised(model: Model, inputs: Inputs) -> list[list[Ids]]:
    """The token ids of each input's texts."""
    texts = inputs.texts()
    ids = _ids(model, list(itertools.chain.from_iterable(texts)))
    return [list(itertools.islice(ids, len(arguments))) for arguments in texts]


def length_of(ids: Sequence[Ids]) -> int:
    """Tokens of an input's texts together."""
    return sum(map(len, ids))


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
