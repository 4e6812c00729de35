"""Lays a question out as a model's profile says: which constant text and which arguments stand one after the other.

A function of (profile, question) alone. The planner chooses what to share of it, never what it is.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quail_engine.calls import Example, Label, Question, Task
from quail_engine.errors import ModelError
from quail_engine.prompts.profile import Layout, Profile

_MARKER = re.compile(r"\{(\w+)\}")
_PARAGRAPH = "\n\n"


@dataclass(frozen=True)
class Markers:
    """Text of the profile's own in which special tokens stand for themselves."""

    text: str


Piece = str | int | Markers
"""Constant text without special tokens, the number of an argument, or markers."""

Pieces = tuple[Piece, ...]


def prompt_pieces(profile: Profile, question: Question) -> Pieces:
    """A question's prompt up to the place where the model answers (TAG: up to the first label's own text).

    Raises ModelError for an example that does not fit the question.
    """
    pieces: list[Piece] = [Markers(_system(profile, question))]
    for example in question.examples:
        for label, answer in _example_answers(profile, question, example):
            turn = _filled(_turn(profile, question, label), example.inputs)
            pieces += [*turn, answer, Markers(profile.wrapper.stop + profile.wrapper.following)]
    if question.task is Task.TAG:
        return _merged((*pieces, Markers(profile.wrapper.user), *_body(profile, question)))
    cue = (Markers(profile.wrapper.thought), _opening(profile.layout, question))
    return _merged((*pieces, *_turn(profile, question, None), *cue))


def tag_pieces(profile: Profile, label: Label) -> Pieces:
    """What follows `prompt_pieces` of a TAG question for one label."""
    return (*_label_pieces(profile, label), Markers(profile.wrapper.assistant + profile.wrapper.thought))


def label_answer(layout: Layout, question: Question, label: str) -> str:
    """A label as it stands after the opening of an answer; all of the answer where there is none."""
    return f" {label}" if _opening(layout, question) else label


def _opening(layout: Layout, question: Question) -> str:
    """How an answer begins, before what is read."""
    if question.task is not Task.CLASSIFY:
        return ""
    return layout.classify_own_opening if _has_words(question) else layout.classify_opening


def _system(profile: Profile, question: Question) -> str:
    pair = question.task is Task.JUDGE and len(question.template.arguments) > 1
    message = (pair and _spelled(profile, profile.layout.pair_message)) or profile.wrapper.message
    return profile.wrapper.begin + (profile.wrapper.system.replace("{message}", message) if message else "")


def _turn(profile: Profile, question: Question, label: Label | None) -> Pieces:
    """One user's turn, with the markers around it."""
    body = _body(profile, question)
    if label is not None:
        body += _label_pieces(profile, label)
    return (Markers(profile.wrapper.user), *body, Markers(profile.wrapper.assistant))


def _body(profile: Profile, question: Question) -> Pieces:
    blocks = _blocks(profile, question)
    asked = _question_text(profile, question)
    labels = "\n".join(f"- {_label_line(label)}" for label in question.labels)
    values: dict[str, Pieces] = {
        "documents": _joined(blocks),
        "anchor": _joined(blocks[:1]),
        "partners": _joined(blocks[1:]),
        "question": (asked,) if asked else (),
        "template": _inline(profile, question),
        "labels": (labels,) if labels else (),
        "described": (labels,) if any(label.description for label in question.labels) else (),
    }
    return _expand(_spelled(profile, _layout(profile.layout, question, asked)), values)


def _layout(layout: Layout, question: Question, asked: str) -> str:
    if question.task is Task.CLASSIFY:
        return layout.classify
    if question.task is Task.TAG:
        return layout.tag
    arguments = len(question.template.arguments)
    if arguments == 0 or not asked:
        return layout.whole
    return layout.judge if arguments == 1 else layout.pair


def _spelled(profile: Profile, layout: str) -> str:
    """A layout with the profile's words for TRUE and FALSE."""
    true, false = profile.spellings[0]
    return layout.replace("{true}", true).replace("{false}", false)


def _label_pieces(profile: Profile, label: Label) -> Pieces:
    return _expand(_spelled(profile, profile.layout.tag_label), {"label": (_label_line(label),)})


def _blocks(profile: Profile, question: Question) -> list[Pieces]:
    """A block for each argument that occurs, in the order in which they stand in the prompt."""
    names = _names(question)
    return [_expand(profile.layout.block, {"name": (name,), "text": (argument,)}) for argument, name in names.items()]


def _names(question: Question) -> dict[int, str]:
    """Argument → the name of its block, 'Text A', 'Text B' …; the anchor comes first."""
    arguments = sorted(question.template.arguments, key=lambda argument: argument != question.anchor)
    letters = string.ascii_uppercase
    return {a: f"Text {letters[i] if i < len(letters) else i + 1}" for i, a in enumerate(arguments)}


def _has_words(question: Question) -> bool:
    return any(part.strip() for part in question.template.parts if isinstance(part, str))


def _question_text(profile: Profile, question: Question) -> str:
    """Instructions and template in words; empty if there are none: then the arguments are the whole prompt."""
    parts = question.template.parts
    literals = [part for part in parts if isinstance(part, str)]
    placeholders = len(parts) - len(literals)
    if not _has_words(question):
        words = profile.layout.classify_question if question.task is Task.CLASSIFY else ""
    elif placeholders == 1 and isinstance(parts[-1], int):
        words = "".join(literals)
    else:
        names = _names(question)
        words = "".join(names[part] if isinstance(part, int) else part for part in parts)
    return "\n".join(filter(None, (question.instructions.strip(), words.strip())))


def _inline(profile: Profile, question: Question) -> Pieces:
    """The template as written; white space around a placeholder gives way to the profile's separator."""
    pieces: list[Piece] = [question.instructions.strip()] if question.instructions.strip() else []
    for part in question.template.parts:
        piece = part.strip() if isinstance(part, str) else part
        if piece == "":
            continue
        if pieces:
            pieces.append(profile.layout.separator)
        pieces.append(piece)
    return _merged(pieces)


def _label_line(label: Label) -> str:
    return f"{label.text}: {label.description}" if label.description else label.text


def _example_answers(profile: Profile, question: Question, example: Example) -> list[tuple[Label | None, str]]:
    """What the model is shown to answer, and for TAG about which label: those that apply, and one that does not."""
    if len(example.inputs) <= max(question.template.arguments, default=-1):
        raise ModelError(f"An example has {len(example.inputs)} texts, fewer than the prompt has arguments.")
    true, false = profile.spellings[0]
    if question.task is Task.JUDGE:
        answer = {"true": true, "false": false}.get(str(example.answer).lower())
        if answer is None:
            raise ModelError(f"An example's answer is {example.answer!r}; it must be 'true' or 'false'.")
        return [(None, answer)]
    texts = [label.text for label in question.labels]
    answers = [example.answer] if isinstance(example.answer, str) else example.answer
    if unknown := [answer for answer in answers if answer not in texts]:
        raise ModelError(f"An example's answer is {unknown[0]!r}, which is none of the labels: {', '.join(texts)}.")
    if question.task is Task.CLASSIFY:
        layout = profile.layout
        return [(None, _opening(layout, question) + label_answer(layout, question, answers[0]))]
    applying = [i for i, text in enumerate(texts) if text in answers]
    # The first after one that applies, so that examples of different labels deny different ones.
    after = applying[-1] + 1 if applying else 0
    denied = [i % len(texts) for i in range(after, after + len(texts)) if i % len(texts) not in applying][:1]
    return [*((question.labels[i], true) for i in applying), *((question.labels[i], false) for i in denied)]


def _filled(pieces: Sequence[Piece], texts: Sequence[str]) -> Pieces:
    """The pieces with the arguments' texts in their places."""
    return tuple(texts[piece] if isinstance(piece, int) else piece for piece in pieces)


def _joined(blocks: Sequence[Pieces]) -> Pieces:
    pieces: list[Piece] = []
    for block in blocks:
        pieces += [_PARAGRAPH, *block] if pieces else block
    return tuple(pieces)


def _expand(layout: str, values: Mapping[str, Pieces]) -> Pieces:
    """A layout with its markers replaced; paragraphs whose markers are all empty are left out."""
    paragraphs: list[Pieces] = []
    for paragraph in layout.split(_PARAGRAPH):
        plain_and_names = _MARKER.split(paragraph)
        names = plain_and_names[1::2]
        if names and not any(values[name] for name in names):
            continue
        pieces: list[Piece] = []
        for i, text in enumerate(plain_and_names):
            pieces += values[text] if i % 2 else [text]
        paragraphs.append(tuple(pieces))
    return _joined(paragraphs)


def _merged(pieces: Sequence[Piece]) -> Pieces:
    """Neighbouring texts made one, so that they are encoded as one; empty ones left out."""
    merged: list[Piece] = []
    for piece in pieces:
        if piece == "":
            continue
        last = merged[-1] if merged else None
        if isinstance(piece, str) and isinstance(last, str):
            merged[-1] = last + piece
        else:
            merged.append(piece)
    return tuple(merged)
