"""Qwen2.5 and Qwen2.5-Coder."""

from __future__ import annotations

from quail_engine.prompts.profile import Profile
from quail_engine.prompts.profiles import chatml

QWEN25 = Profile(
    name="qwen2.5",
    version=1,
    system=chatml.system("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
    user=chatml.USER,
    assistant=chatml.ASSISTANT,
    stop=chatml.STOP,
    following=chatml.FOLLOWING,
    spellings=(("TRUE", "FALSE"), ("True", "False"), ("true", "false"), ("Yes", "No"), ("YES", "NO"), ("yes", "no")),
    block="{name}:\n{text}",
    separator="\n",
    judge="{question}\n\n{documents}\n\nAnswer TRUE or FALSE.",
    pair="{anchor}\n\n{question}\n\n{partners}\n\nAnswer TRUE or FALSE.",
    whole="{template}\n\nAnswer TRUE or FALSE.",
    classify="{question}\n\nLabels:\n{labels}\n\n{documents}\n\nAnswer with one of the labels.",
    classify_question="Which label fits the text best?",
    tag="{question}\n\n{documents}",
    tag_label='\n\nDoes the label "{label}" apply? Answer TRUE or FALSE.',
)
