"""The mock's prompter: prompts as UTF-8 bytes, so that the mock, like every engine, is given token ids and no text.

A request is `HEAD` + the question as JSON, then `ARGUMENT` + the text for each argument, then `CUE`. Labels are spelled in
bytes after the cue.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import NamedTuple

from quail_engine.calls import Example, Label, Question, Task, Template
from quail_engine.prompts.readout import JudgeReadout, Spellings, TagReadout, TrieReadout
from quail_engine.prompts.request import Ids, Readout, Request

HEAD, ARGUMENT, CUE, END, TRUE, FALSE = range(256, 262)
"""Ids beyond the bytes: what begins each part, what ends a label, and the two answers."""

_SPELLINGS = Spellings((TRUE,), (FALSE,))


@dataclass(frozen=True)
class BytePrompt:
    head: Ids
    readout: Readout
    room: int = 1 << 20  # bytes of a row's texts; longer rows are overlong, as with a real model

    def request(self, arguments: Sequence[Ids]) -> Request:
        return Request((self.head, *((ARGUMENT, *ids) for ids in arguments), (CUE,)), self.readout)


class BytePrompter:
    layout = "mock/1"
    tokenizer = "bytes"

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        return [tuple(text.encode()) for text in texts]

    def compile(self, question: Question) -> BytePrompt:
        head = (HEAD, *json.dumps(asdict(question), ensure_ascii=False, sort_keys=True).encode())
        return BytePrompt(head, _readout(question))


def _readout(question: Question) -> Readout:
    labels = [tuple(label.text.encode()) for label in question.labels]
    if question.task is Task.CLASSIFY:
        return TrieReadout.of(labels, (END,))
    return (
        TagReadout(_SPELLINGS, tuple((*ids, END) for ids in labels)) if question.task is Task.TAG else JudgeReadout(_SPELLINGS)
    )


class Reading(NamedTuple):
    """What a path of tokens says so far: the way back from ids to what a request asks."""

    parts: tuple[str, ...] = ()  # the question and the texts that are complete
    open: bytes = b""  # of the last part, which the next tokens may continue

    def on(self, ids: Ids) -> Reading:
        """After some more tokens, at least one. A part begins with the first of them or not at all."""
        if HEAD <= ids[0] <= CUE:
            parts = (*self.parts, self.open.decode()) if ids[0] > HEAD else ()
            return Reading(parts, bytes(ids[1:]))
        return Reading(self.parts, self.open + bytes(ids[:-1] if ids[-1] == END else ids))

    def request(self) -> tuple[Question, tuple[str, ...], str]:
        """The question, the argument texts and what follows the cue, after a path that has passed it."""
        return _question(self.parts[0]), self.parts[1:], self.open.decode(errors="surrogateescape")


def _answer(value: str | list[str]) -> str | tuple[str, ...]:
    return value if isinstance(value, str) else tuple(value)


@lru_cache(maxsize=64)
def _question(text: str) -> Question:
    fields = json.loads(text)
    return Question(
        task=Task(fields["task"]),
        template=Template(tuple(fields["template"]["parts"])),
        labels=tuple(Label(**label) for label in fields["labels"]),
        anchor=fields["anchor"],
        instructions=fields["instructions"],
        examples=tuple(Example(tuple(e["inputs"]), _answer(e["answer"])) for e in fields["examples"]),
    )
