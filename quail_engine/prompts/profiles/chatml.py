"""The chat wrapper that Qwen2, Qwen2.5 and SmolLM2 share."""

from __future__ import annotations

USER = "<|im_start|>user\n"
ASSISTANT = "<|im_end|>\n<|im_start|>assistant\n"
STOP = "<|im_end|>"
FOLLOWING = "\n"


def system(message: str) -> str:
    """The system turn."""
    return f"<|im_start|>system\n{message}<|im_end|>\n"
