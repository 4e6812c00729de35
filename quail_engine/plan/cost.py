"""What asking costs, from the lengths of a prompt's parts: the counts that batching would find, before there are requests.

A prompt is a sequence of parts: constant ones, and the arguments' texts. Requests share their beginnings, so a part is
prefilled once for each different combination of the texts up to it: all layouts follow from that. Document first shares a
document between questions, question first shares the question between documents, and in a pair the first text, the anchor, is
shared by all its partners. Texts that begin alike by chance share more than is counted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quail_engine.roofline import Work, run


@dataclass(frozen=True)
class Slot:
    """Where the text of an argument stands in a prompt."""

    argument: int


@dataclass(frozen=True)
class Length:
    """Of texts, in tokens."""

    mean: float
    variance: float = 0.0


@dataclass(frozen=True)
class Suffix:
    """A run that is read behind every request: a node of the labels' trie."""

    before: float  # tokens of the trie in front of it
    tokens: float
    read_on: bool  # whether others go on from it


@dataclass(frozen=True)
class PromptParts:
    """A prompt in lengths, in its order."""

    parts: tuple[float | Slot, ...]  # tokens of a constant part, or an argument
    suffixes: tuple[Suffix, ...] = ()

    @property
    def arguments(self) -> tuple[int, ...]:
        """In the order in which they stand."""
        return tuple(dict.fromkeys(part.argument for part in self.parts if isinstance(part, Slot)))


def levels(prompt: PromptParts, texts: Sequence[Length], resident: bool = False) -> tuple[Work, ...]:
    """What one combination of the first k texts costs, for k = 0, 1, …: what stands behind them and before the next text.

    `texts` in the order in which they stand. `resident`: the KV of the prompt up to and with its first text is there.
    """
    first = next((number for number, part in enumerate(prompt.parts) if isinstance(part, Slot)), -1)
    found = [Work() for _ in range(len(prompt.arguments) + 1)]
    seen: set[int] = set()
    before = 0.0
    for number, part in enumerate(prompt.parts):
        if isinstance(part, Slot):
            seen.add(part.argument)
        length = texts[prompt.arguments.index(part.argument)] if isinstance(part, Slot) else Length(part)
        if not resident or number > first:
            last = number == len(prompt.parts) - 1 and not prompt.suffixes
            spread = Work(own_pairs=length.variance / 2)
            found[len(seen)] += run(before, length.mean, read_on=not last) + spread
        before += length.mean
    for suffix in prompt.suffixes:
        found[-1] += run(before + suffix.before, suffix.tokens, suffix.read_on)
    return tuple(found)


def asking(prompt: PromptParts, texts: Sequence[Length], distinct: Sequence[float], resident: bool = False) -> Work:
    """What it costs to ask about `distinct[k - 1]` different combinations of the first k texts of a prompt.

    >>> urgent = PromptParts((3, Slot(0), 7))
    >>> asking(urgent, [Length(20)], [100]).tokens, asking(urgent, [Length(20)], [100], resident=True).tokens
    (2703.0, 700.0)
    """
    counts = (1.0, *distinct)
    return sum((work * count for work, count in zip(levels(prompt, texts, resident), counts, strict=True)), Work())
