"""What a question's answers are known so far, and what a round found missing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from quail_engine.calls import Question

Arguments = tuple[str, ...]


@dataclass
class Inquiry:
    """One question in one statement: what is known, and what a round found missing."""

    question: Question
    model: str
    on_overlong: str | None
    max_error_ratio: float | None
    symmetric: bool  # the order of a pair's texts does not matter: one of both orders is asked
    room: int  # inputs that a round may note
    asked: int = 0
    failed: int = 0
    known: dict[bytes, tuple[float, ...] | None] = field(default_factory=dict)  # digest → numbers; None: failed or overlong
    missing: dict[bytes, Arguments] = field(default_factory=dict)

    def note(self, digest: bytes, arguments: Arguments) -> bool:
        """Whether the input is noted; not so when the round has no room, and the next one will meet it again."""
        assert digest not in self.known, "an input that was answered is noted again"
        if len(self.missing) >= self.room:
            return digest in self.missing
        self.missing.setdefault(digest, arguments)
        return True

    def canonical(self, arguments: Arguments) -> Arguments:
        """The texts in the order in which they are asked."""
        return tuple(sorted(arguments)) if self.symmetric else arguments


def digest_of(arguments: Sequence[str]) -> bytes:
    """16 bytes that name an input; lengths keep ('ab', '') and ('a', 'b') apart."""
    if len(arguments) == 1:
        return hashlib.blake2b(arguments[0].encode(), digest_size=16).digest()
    whole = hashlib.blake2b(digest_size=16)
    for text in arguments:
        data = text.encode()
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.digest()
