"""The journal: answers as they arrive, in a file that one process appends to.

A payload of such a file is `_HEAD`; template, model and dtype in UTF-8; the answer keys; and as 4-byte numbers each answer's
tokens, how many values each has, and all values.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quail_engine.answers.answer import Answer
from quail_engine.answers.frames import Format
from quail_engine.answers.keys import KEY_BYTES

_HEAD = struct.Struct(f"<{KEY_BYTES}sqIIII")  # question key, time, answers, bytes of template, model and dtype


@dataclass(frozen=True)
class Record:
    """Answers to one question that were remembered together."""

    question: bytes  # question key
    template: str  # as the user wrote it; for people, not part of any key
    model: str  # for people, like dtype
    dtype: str
    time: int  # microseconds since 1970 UTC
    keys: tuple[bytes, ...]
    answers: tuple[Answer, ...]


def encode(record: Record) -> bytes:
    """The record as a payload of a journal."""
    texts = [text.encode("utf-8", "replace") for text in (record.template, record.model, record.dtype)]
    head = _HEAD.pack(record.question, record.time, len(record.keys), *map(len, texts))
    tokens = np.array([answer.tokens for answer in record.answers], "<u4")
    counts = np.array([len(answer.values) for answer in record.answers], "<u4")
    values = np.array([value for answer in record.answers for value in answer.values], "<f4")
    return b"".join([head, *texts, *record.keys, tokens.tobytes(), counts.tobytes(), values.tobytes()])


def _decode(payload: memoryview) -> Record | None:
    """The record, or None where the payload is not one."""
    if len(payload) < _HEAD.size:
        return None
    question, time, count, *text_bytes = _HEAD.unpack_from(payload)
    keys_at = _HEAD.size + sum(text_bytes)
    tokens_at = keys_at + count * KEY_BYTES
    counts_at = tokens_at + count * 4
    values_at = counts_at + count * 4
    if values_at > len(payload):
        return None
    counts: NDArray[np.uint32] = np.frombuffer(payload[counts_at:values_at], "<u4")
    ends = np.cumsum(counts, dtype=np.int64)
    if len(payload) - values_at != 4 * (int(ends[-1]) if count else 0):
        return None
    values: NDArray[np.float32] = np.frombuffer(payload[values_at:], "<f4")
    if not np.isfinite(values).all():
        return None
    tokens: NDArray[np.uint32] = np.frombuffer(payload[tokens_at:counts_at], "<u4")
    numbers, keys = values.tolist(), bytes(payload[keys_at:tokens_at])
    template, model, dtype = _texts(payload[_HEAD.size : keys_at], text_bytes)
    return Record(
        question=question,
        template=template,
        model=model,
        dtype=dtype,
        time=time,
        keys=tuple(keys[i : i + KEY_BYTES] for i in range(0, len(keys), KEY_BYTES)),
        answers=tuple(
            Answer(tuple(numbers[end - size : end]), used)
            for end, size, used in zip(ends.tolist(), counts.tolist(), tokens.tolist(), strict=True)
        ),
    )


def _texts(data: memoryview, lengths: list[int]) -> list[str]:
    ends = itertools.accumulate(lengths)
    return [bytes(data[end - length : end]).decode("utf-8", "replace") for end, length in zip(ends, lengths, strict=True)]


FORMAT = Format(b"quail journal 1\n", _decode)
read = FORMAT.read
