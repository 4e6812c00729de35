"""What a profile is: how questions are written for one model family. Data only; the families are in `profiles/`.

A layout is the text of the user's turn with markers in braces, one paragraph after another (separated by an empty line); a
paragraph whose markers are all empty is left out. What stands before the first row's text is shared by all rows.

* `{documents}`: a block for each argument, the anchor's first; `{anchor}`, `{partners}`: its block, and those of the others
* `{question}`: instructions and template, each placeholder replaced by the name of its argument's block
* `{template}`: instructions and template as written, with the arguments' texts in their places
* `{labels}`: the labels, one a line, with their descriptions; `{described}`: the same if one of them has a description, else
  nothing; `{label}`: the label that is asked about
* `{true}`, `{false}`: the words that an answer is read from, as the profile spells them first
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wrapper:
    """The chat's own text, written out. Special tokens stand for themselves here, and nowhere else."""

    begin: str  # before everything
    system: str  # the system turn around `{message}`
    message: str  # the system message; empty: no such turn
    user: str  # opens the user's turn
    assistant: str  # closes the user's turn and opens the model's
    thought: str  # what stands before an answer that a reasoning model gives without reasoning; not before those of examples
    stop: str  # ends an answer: one special token
    following: str  # between an example's answer and the next turn


@dataclass(frozen=True)
class Layout:
    """The user's turn, by what is asked."""

    block: str  # a document: `{name}` and `{text}`
    separator: str  # stands for the white space around a placeholder of `{template}`
    judge: str  # a statement or question about one document
    pair: str  # about several; the anchor's text first
    pair_message: str  # the system message then; empty: the wrapper's
    whole: str  # about nothing else: the prompt is the argument, or a constant
    classify: str  # which label?
    classify_question: str  # `{question}` of a classification that is only given a text
    classify_opening: str  # how the answer to it begins, before a blank and the label; may be empty, as the next
    classify_own_opening: str  # how the answer to a question of the user's own begins
    classify_reference: bool  # whether a label's probability is divided by the one that it has where the texts are empty
    tag: str  # do labels apply? the part before the label
    tag_label: str  # the part that differs from label to label


@dataclass(frozen=True)
class Profile:
    """How a model family is asked. Whatever changes a prompt's tokens must raise `version`: answers are stored under it."""

    name: str
    version: int
    wrapper: Wrapper
    spellings: tuple[tuple[str, str], ...]  # (TRUE, FALSE) as the model may write them; examples use the first pair
    layout: Layout

    @property
    def key(self) -> str:
        """Name and version, such as 'qwen2.5/1'."""
        return f"{self.name}/{self.version}"
