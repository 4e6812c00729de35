"""Qwen3. Its reasoning is switched off as its own template does it, by an empty thought. Not measured here yet."""

from __future__ import annotations

from quail_engine.prompts.profile import Profile
from quail_engine.prompts.profiles.chatml import chatml
from quail_engine.prompts.profiles.layouts import STATEMENT
from quail_engine.prompts.profiles.qwen25 import QWEN25

QWEN3 = Profile(
    name="qwen3",
    version=1,
    wrapper=chatml(message="", thought="<think>\n\n</think>\n\n"),
    spellings=QWEN25.spellings,
    layout=STATEMENT,
)
