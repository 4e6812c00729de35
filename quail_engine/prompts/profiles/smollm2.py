"""SmolLM2.

What chose the layouts: accuracy at threshold 0.5 and AUC of smollm2-135m in bfloat16, measured like Qwen2.5's (60 balanced rows
of a task, two wordings). This model is near chance on all but short sentiment; it is for CI and tests.

    judge                                             sentiment      spam           tokens a row
    document, "Statement about Text A", quoted        0.62 / 0.76    0.53 / 0.54    57     taken
    document, question, "Answer True or False."       0.58 / 0.66    0.42 / 0.24    48
    "Statement", document                             0.50 / 0.54    0.50 / 0.19    44
    document, question, "Answer Yes or No."           0.50 / 0.56    0.50 / 0.16    50

    pair                                              entailment     tokens a pair
    anchor, question, partner, quoted                 0.52 / 0.54    64     taken
    anchor, partner, question, quoted                 0.48 / 0.50    63
"""

from __future__ import annotations

from quail_engine.prompts.profile import Profile
from quail_engine.prompts.profiles.chatml import chatml
from quail_engine.prompts.profiles.layouts import STATEMENT

SMOLLM2 = Profile(
    name="smollm2",
    version=2,
    wrapper=chatml("You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
    spellings=(("True", "False"), ("true", "false"), ("Yes", "No"), ("yes", "no")),
    layout=STATEMENT,
)
