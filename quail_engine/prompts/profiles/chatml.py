"""The chat wrapper that the Qwen families and SmolLM2 share."""

from __future__ import annotations

from quail_engine.prompts.profile import Wrapper


def chatml(message: str, thought: str = "") -> Wrapper:
    """The wrapper with a system message, or without that turn where it is empty."""
    return Wrapper(
        begin="",
        system="<|im_start|>system\n{message}<|im_end|>\n",
        message=message,
        user="<|im_start|>user\n",
        assistant="<|im_end|>\n<|im_start|>assistant\n",
        thought=thought,
        stop="<|im_end|>",
        following="\n",
    )
