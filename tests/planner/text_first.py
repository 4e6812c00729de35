"""The mock with prompts that put the text first, as the profiles of models do: a text's KV serves all questions about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from quail_engine.calls import Question
from quail_engine.engine import mock
from quail_engine.prompts.bytes import ARGUMENT, CUE, HEAD, BytePrompt, BytePrompter, Reading
from quail_engine.prompts.request import Ids, Request


class _TextFirstPrompt(BytePrompt):
    def request(self, arguments: Sequence[Ids]) -> Request:
        return Request((*((ARGUMENT, *ids) for ids in arguments), self.head, (CUE,)), self.readout)


class _TextFirstReading(NamedTuple):
    """As the mock's, of a path whose question stands behind the texts."""

    segments: tuple[bytes, ...] = ()

    def on(self, ids: Ids) -> _TextFirstReading:
        if HEAD <= ids[0] <= CUE:
            return _TextFirstReading((*self.segments, bytes(ids[1:])))
        return _TextFirstReading((*self.segments[:-1], self.segments[-1] + bytes(ids)))

    def request(self) -> tuple[Question, tuple[str, ...], str]:
        *texts, question, after = self.segments
        return Reading((question.decode(), *(text.decode() for text in texts)), after).request()


def put_texts_first(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_ = BytePrompter.compile

    def compiled(prompter: BytePrompter, question: Question) -> BytePrompt:
        prompt = compile_(prompter, question)
        return _TextFirstPrompt(prompt.head, prompt.readout)

    monkeypatch.setattr(BytePrompter, "compile", compiled)
    monkeypatch.setattr(BytePrompter, "layout", "mock-text-first/1")
    monkeypatch.setattr(mock, "Reading", _TextFirstReading)
