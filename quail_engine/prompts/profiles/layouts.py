"""Layouts that families share."""

from __future__ import annotations

from quail_engine.prompts.profile import Layout

STATEMENT = Layout(
    block='{name}:\n"""\n{text}\n"""',
    separator="\n",
    judge="{documents}\n\nStatement about Text A: {question}\nIs the statement {true} or {false}?",
    pair="{anchor}\n\n{question}\n\n{partners}\n\nAnswer {true} or {false}.",
    pair_message="You read texts carefully and decide whether what is said about them is {true} or {false}.",
    whole="{template}\n\nAnswer {true} or {false}.",
    classify="Labels:\n{described}\n\n{documents}\n\n{question}",
    classify_question="What is the topic of Text A?",
    classify_opening="The topic of Text A is",
    classify_own_opening="Answer:",
    classify_reference=True,
    tag="{question}\n\n{documents}",
    tag_label='\n\nDoes the label "{label}" apply? Answer {true} or {false}.',
)
"""The document first, then the question as a statement about it; a pair's question between its texts."""
