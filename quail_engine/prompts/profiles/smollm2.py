"""SmolLM2."""

from __future__ import annotations

from quail_engine.prompts.profile import Profile
from quail_engine.prompts.profiles import chatml

SMOLLM2 = Profile(
    name="smollm2",
    version=1,
    system=chatml.system("You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
    user=chatml.USER,
    assistant=chatml.ASSISTANT,
    stop=chatml.STOP,
    following=chatml.FOLLOWING,
    spellings=(("True", "False"), ("true", "false"), ("Yes", "No"), ("yes", "no")),
    block="{name}:\n{text}",
    separator="\n",
    judge="{question}\n\n{documents}\n\nAnswer True or False.",
    pair="{anchor}\n\n{question}\n\n{partners}\n\nAnswer True or False.",
    whole="{template}\n\nAnswer True or False.",
    classify="{question}\n\nLabels:\n{labels}\n\n{documents}\n\nAnswer with one of the labels.",
    classify_question="Which label fits the text best?",
    tag="{question}\n\n{documents}",
    tag_label='\n\nDoes the label "{label}" apply? Answer True or False.',
)
