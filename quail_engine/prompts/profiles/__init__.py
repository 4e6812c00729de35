"""One profile a model family, written out as data."""

from __future__ import annotations

from collections.abc import Collection

from quail_engine.errors import ModelError
from quail_engine.prompts.profile import Profile
from quail_engine.prompts.profiles.llama3 import LLAMA3
from quail_engine.prompts.profiles.qwen3 import QWEN3
from quail_engine.prompts.profiles.qwen25 import QWEN25
from quail_engine.prompts.profiles.smollm2 import SMOLLM2

PROFILES: dict[str, Profile] = {profile.name: profile for profile in (LLAMA3, QWEN25, QWEN3, SMOLLM2)}

_FAMILIES = {
    ("llama", "llama-bpe"): LLAMA3,
    ("llama", "smollm"): SMOLLM2,
    ("qwen2", "qwen2"): QWEN25,
    ("qwen3", "qwen2"): QWEN3,
}


def profile_of_markers(architecture: str, markers: Collection[str]) -> str:
    """The name of the profile of an architecture whose end of a turn is among a tokenizer's special tokens.

    Raises ModelError for a family that has none.
    """
    for (name, _), profile in _FAMILIES.items():
        if name == architecture and profile.wrapper.stop in markers:
            return profile.name
    known = "; ".join(f"{name}: {profile.wrapper.stop}" for (name, _), profile in _FAMILIES.items())
    raise ModelError(
        f"No profile says how a model of architecture {architecture} is asked whose tokenizer has none of the markers that are "
        f"known for it ({known})."
    )


def profile_of(architecture: str, pre_tokenizer: str) -> str:
    """The name of the profile of the family with an architecture and a `tokenizer.ggml.pre`.

    Raises ModelError for a family that has none: its chat markers would be a guess.
    """
    if (architecture, pre_tokenizer) not in _FAMILIES:
        known = "; ".join(f"{profile.name} ({pair[0]}, {pair[1]})" for pair, profile in _FAMILIES.items())
        raise ModelError(
            f"No profile says how a model of architecture {architecture} with the tokenizer {pre_tokenizer} is asked. "
            f"Profiles (architecture, tokenizer): {known}."
        )
    return _FAMILIES[architecture, pre_tokenizer].name
