"""The prompter of an open-weight chat model: a profile's layout, encoded by the model's tokenizer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quail_engine.calls import Question, Task
from quail_engine.errors import ModelError
from quail_engine.prompts.layout import Markers, Pieces, label_answer, prompt_pieces, tag_pieces
from quail_engine.prompts.profile import Profile
from quail_engine.prompts.profiles import PROFILES
from quail_engine.prompts.readout import JudgeReadout, Spellings, TagReadout, TrieReadout
from quail_engine.prompts.request import Ids, Readout, Request
from quail_engine.prompts.tokenizer import Tokenizer


@dataclass(frozen=True)
class ChatPrompt:
    """A question in tokens, but for the row's own."""

    parts: tuple[Ids | int, ...]  # constant segments, and the arguments between them
    readout: Readout
    room: int  # tokens for one row's arguments together; an argument that stands twice is paid for twice

    def request(self, arguments: Sequence[Ids]) -> Request:
        """The request of one row. An empty text gives no segment."""
        segments = (arguments[part] if isinstance(part, int) else part for part in self.parts)
        return Request(tuple(segment for segment in segments if segment), self.readout)


class ChatPrompter:
    """Writes questions as a profile says, for a model with that tokenizer and that context."""

    def __init__(self, profile: Profile, tokenizer: Tokenizer, context: int) -> None:
        """Raises ModelError if the model does not have the profile's special tokens, or no pair of spellings."""
        self.profile = profile
        self._tokenizer = tokenizer
        self._context = context  # tokens
        self._stop = tokenizer.encode_markers(profile.wrapper.stop)
        if len(self._stop) != 1:
            raise ModelError(
                f"The profile {profile.name} does not fit the model: {profile.wrapper.stop} is not one of its special tokens. "
                f"Use a model of the same family, with its own chat markers."
            )
        self._spellings = _spellings(profile, tokenizer)

    @property
    def layout(self) -> str:
        return self.profile.key

    @property
    def tokenizer(self) -> str:
        return self._tokenizer.digest

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        return self._tokenizer.encode(texts)

    def with_profile(self, profile: Profile) -> ChatPrompter:
        """The same model, asked in another way."""
        return ChatPrompter(profile, self._tokenizer, self._context)

    def compile(self, question: Question) -> ChatPrompt:
        """The prompt of a question. Raises ModelError if it leaves no room in the context, for labels that the model
        cannot tell apart, and for examples that do not fit."""
        parts = self._encoded(prompt_pieces(self.profile, question))
        readout = self._readout(question, tuple(part for part in parts if not isinstance(part, int)))
        constant = sum(len(part) for part in parts if not isinstance(part, int))
        free = self._context - constant - max(map(len, readout.suffixes))
        if free < 0:
            raise ModelError(
                f"The prompt alone needs {self._context - free:,} tokens, more than the model's context of {self._context:,}: "
                f"use fewer labels or examples."
            )
        times = max(Counter(part for part in parts if isinstance(part, int)).values(), default=1)
        return ChatPrompt(parts, readout, free // times)

    def _readout(self, question: Question, constant: tuple[Ids, ...]) -> Readout:
        """`constant`: the prompt's segments where every text is empty."""
        if question.task is Task.JUDGE:
            return JudgeReadout(self._spellings)
        assert question.labels, "a question about labels has labels by the time it is compiled"
        if question.task is Task.CLASSIFY:
            layout = self.profile.layout
            readout = TrieReadout.of(
                self.encode([label_answer(layout, question, label.text) for label in question.labels]), self._stop
            )
            return readout.compared(constant) if layout.classify_reference and question.template.arguments else readout
        suffixes = []
        for label in question.labels:
            (suffix,) = self._encoded(tag_pieces(self.profile, label))
            assert not isinstance(suffix, int), "a label's own question holds no argument"
            suffixes.append(suffix)
        return TagReadout(self._spellings, tuple(suffixes))

    def _encoded(self, pieces: Pieces) -> tuple[Ids | int, ...]:
        """Constant pieces between two arguments become one segment."""
        parts: list[Ids | int] = []
        for piece in pieces:
            if isinstance(piece, int):
                parts.append(piece)
                continue
            ids = self._tokenizer.encode_markers(piece.text) if isinstance(piece, Markers) else self.encode([piece])[0]
            last = parts[-1] if parts else None
            if isinstance(last, tuple):
                parts[-1] = last + ids
            else:
                parts.append(ids)
        return tuple(parts)


def prompter_for(folder: Path) -> ChatPrompter:
    """The prompter of a converted model. Raises ModelError if the folder is damaged or its profile is unknown."""
    try:
        content = json.loads((folder / "quail.json").read_text(encoding="utf-8"))
        name, context = content["profile"], content["config"]["context"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{folder} is not a converted model: its quail.json cannot be read ({error!r}).") from error
    if name not in PROFILES:
        raise ModelError(f"The model in {folder} asks for the profile {name!r}. Known profiles: {', '.join(PROFILES)}.")
    return ChatPrompter(PROFILES[name], Tokenizer(folder / "tokenizer.json"), context)


def _spellings(profile: Profile, tokenizer: Tokenizer) -> Spellings:
    """The pairs of the profile whose both members are one token of the model."""
    encoded = [tokenizer.encode(pair) for pair in profile.spellings]
    usable = [(true[0], false[0]) for true, false in encoded if len(true) == len(false) == 1]
    if not usable:
        pairs = ", ".join("/".join(pair) for pair in profile.spellings)
        raise ModelError(
            f"The model spells TRUE and FALSE with several tokens in each way that the profile {profile.name} knows ({pairs}), "
            f"so its answer cannot be read in one pass. Use a model of this family with its original vocabulary, or add a pair "
            f"of words that are one token each to the profile."
        )
    return Spellings(tuple(true for true, _ in usable), tuple(false for _, false in usable))
