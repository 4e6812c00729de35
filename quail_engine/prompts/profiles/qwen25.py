"""Qwen2.5 and Qwen2.5-Coder.

What chose the layouts: accuracy at threshold 0.5 and AUC of qwen2.5-coder-0.5b in bfloat16, zero-shot, on 60 balanced rows of a
task (100 where marked *), mean over two wordings, a question ("Is the review positive?") and a statement. One standard error of
an accuracy is about 0.04. `S` is "Statement: {question}" with "Is the statement TRUE or FALSE?"; the others end in
"Answer TRUE or FALSE."; `quoted` puts the document between lines of three quotation marks.

    judge                                  sentiment      spam           tokens a row
    document, "Statement about Text A",
      quoted                               0.94 / 0.99    0.53 / 0.43    51     taken
    document, S, quoted                    0.90 / 0.98    0.53 / 0.41    49
    document, "Statement about Text A"     0.82 / 0.99    0.45 / 0.28    51
    S, document, quoted                    0.78 / 0.97    0.50 / 0.29    42
    S, document *                          0.79 / 0.95    0.48 / 0.19    39
    document, S *                          0.77 / 0.96    0.48 / 0.35    46
    document, S, no system message         0.74 / 0.96    0.51 / 0.65    47
    question, document *                   0.69 / 0.95    0.49 / 0.41    37
    question with "Answer …", document *   0.72 / 0.97    0.43 / 0.24    31
    document, question *                   0.57 / 0.95    0.50 / 0.37    42
    document, question, quoted             0.57 / 0.99    0.47 / 0.45    45

    pair                                   entailment     tokens a pair
    anchor, question, partner, quoted      0.65 / 0.80    55     taken: within one error of the next, and shares the anchor
    question, anchor, partner, quoted      0.66 / 0.78    48
    anchor, partner, question, quoted      0.58 / 0.78    55
    S, anchor, partner                     0.55 / 0.81    47
    anchor, S, partner                     0.52 / 0.74    56
    anchor, partner, S                     0.52 / 0.72    56
    S, anchor, partner, quoted             0.50 / 0.80    50
    anchor, S, partner, quoted             0.50 / 0.78    59
    anchor, partner, S, quoted             0.50 / 0.72    59

No layout makes this model tell spam from other messages without examples: below 0.5 it ranks them backwards, because it judges
whether the message is true. Classification is not measured yet.
"""

from __future__ import annotations

from quail_engine.prompts.profile import Profile
from quail_engine.prompts.profiles.chatml import chatml
from quail_engine.prompts.profiles.layouts import STATEMENT

QWEN25 = Profile(
    name="qwen2.5",
    version=2,
    wrapper=chatml("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
    spellings=(("TRUE", "FALSE"), ("True", "False"), ("true", "false"), ("Yes", "No"), ("YES", "NO"), ("yes", "no")),
    layout=STATEMENT,
)
