"""One profile a model family, written out as data."""

from __future__ import annotations

_OF_TOKENIZER = {"qwen2": "qwen2.5", "smollm": "smollm2"}  # by `tokenizer.ggml.pre`


def profile_of_tokenizer(pre_tokenizer: str) -> str:
    """The profile of the family that uses a kind of tokenizer."""
    return _OF_TOKENIZER[pre_tokenizer]
