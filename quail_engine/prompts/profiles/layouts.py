"""Layouts that families share."""

from __future__ import annotations

from quail_engine.prompts.profile import Layout

STATEMENT = Layout(
    block='{name}:\n"""\n{text}\n"""',
    separator="\n",
    judge="{documents}\n\nStatement about Text A: {question}\nIs the statement {true} or {false}?",
    pair="{anchor}\n\n{question}\n\n{partners}\n\nAnswer {true} or {false}.",
    whole="{template}\n\nAnswer {true} or {false}.",
    classify="{question}\n\nLabels:\n{labels}\n\n{documents}\n\nAnswer with one of the labels.",
    classify_question="Which label fits the text best?",
    tag="{question}\n\n{documents}",
    tag_label='\n\nDoes the label "{label}" apply? Answer {true} or {false}.',
)
"""The document first, then the question as a statement about it; a pair's question between its texts."""
