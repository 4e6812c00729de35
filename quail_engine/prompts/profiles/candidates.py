"""Layouts to measure beside a profile's own: data for `quail models check`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quail_engine.calls import Task
from quail_engine.prompts.profile import Profile

OWN = "the profile's own"

_INSTRUCTION = "Answer {true} or {false}."
_STATEMENT = "Statement about Text A: {question}\nIs the statement {true} or {false}?"

_JUDGE = {
    "document, statement": {"judge": f"{{documents}}\n\n{_STATEMENT}"},
    "document, question": {"judge": f"{{documents}}\n\n{{question}}\n\n{_INSTRUCTION}"},
    "question, document": {"judge": f"{{question}}\n\n{{documents}}\n\n{_INSTRUCTION}"},
    "document without quotes, statement": {"block": "{name}:\n{text}", "judge": f"{{documents}}\n\n{_STATEMENT}"},
}
_PAIR = {
    "anchor, question, partner": {"pair": f"{{anchor}}\n\n{{question}}\n\n{{partners}}\n\n{_INSTRUCTION}"},
    "question, anchor, partner": {"pair": f"{{question}}\n\n{{documents}}\n\n{_INSTRUCTION}"},
    "anchor, partner, question": {"pair": f"{{documents}}\n\n{{question}}\n\n{_INSTRUCTION}"},
}
_LISTED = {"classify_question": "Which label fits the text best?", "classify_opening": "", "classify_own_opening": ""}
_CLASSIFY: Mapping[str, Mapping[str, Any]] = {
    "labels, document": {
        "classify": "{question}\n\nLabels:\n{labels}\n\n{documents}\n\nAnswer with one of the labels.",
        **_LISTED,
    },
    "document, labels": {
        "classify": "{documents}\n\n{question}\n\nLabels:\n{labels}\n\nAnswer with one of the labels.",
        **_LISTED,
    },
    "the profile's own, not compared with an empty text": {"classify_reference": False},
    "document": {"classify": "{documents}\n\n{question}\nAnswer with the label only.", **_LISTED},
}


def candidates(profile: Profile, task: Task, arguments: int) -> dict[str, Profile]:
    """A profile, and as many others that differ from it in the layout for such questions; by the name of the layout."""
    changes: Mapping[str, Mapping[str, Any]] = _CLASSIFY
    if task is Task.JUDGE:
        changes = _JUDGE if arguments == 1 else _PAIR
    found = {OWN: profile}
    for name, texts in changes.items():
        layout = replace(profile.layout, **texts)
        if layout != profile.layout:
            found[name] = replace(profile, layout=layout)
    return found
