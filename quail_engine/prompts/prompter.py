"""The contract between a question and token ids: one `Prompter` a model, one `Prompt` a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quail_engine.calls import Question
from quail_engine.prompts.request import Ids, Readout, Request


class Prompt(Protocol):
    """A question rendered for a model: everything but the row's own texts is already tokens."""

    @property
    def room(self) -> int:
        """Tokens that the arguments of one row may have together: the model's context less the prompt's own tokens."""
        ...

    @property
    def readout(self) -> Readout:
        """What is read after each of its requests."""
        ...

    def request(self, arguments: Sequence[Ids]) -> Request:
        """The request of one row; `arguments[i]` holds the ids of argument i's text, and may be empty."""
        ...


class Prompter(Protocol):
    """Renders questions for one model."""

    @property
    def layout(self) -> str:
        """Profile and layout version, such as 'qwen2.5/1'; part of every answer's key."""
        ...

    @property
    def tokenizer(self) -> str:
        """Names the tokenizer by its content: prompters with the same name encode a text to the same ids."""
        ...

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Ids of rows' texts. Special tokens in them are plain characters; an empty text has no ids."""
        ...

    def compile(self, question: Question) -> Prompt:
        """The prompt of a question. Its template's arguments are numbered 0 … n-1 without gaps."""
        ...
