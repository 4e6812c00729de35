"""One profile a model family, written out as data."""

from __future__ import annotations

from quail_engine.prompts.profile import Profile
from quail_engine.prompts.profiles.qwen25 import QWEN25
from quail_engine.prompts.profiles.smollm2 import SMOLLM2

PROFILES: dict[str, Profile] = {profile.name: profile for profile in (QWEN25, SMOLLM2)}

_OF_TOKENIZER = {"qwen2": QWEN25, "smollm": SMOLLM2}  # by `tokenizer.ggml.pre`


def profile_of_tokenizer(pre_tokenizer: str) -> str:
    """The name of the profile of the family that uses a kind of tokenizer."""
    return _OF_TOKENIZER[pre_tokenizer].name
