"""What a table's AI calls ask, kept with the answers, so that a later run can tell whether it asks something else.

A prompt is a call's question, its model and how its answers are read. The SQL around the calls, their arguments and their
number are no part of it: an incremental model that is written differently and asks the same has the same fingerprint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from quail_engine.answers import question_key
from quail_engine.calls import AiCall, Kind, Task
from quail_engine.progress import amount, duration
from quail_engine.report import RunReport
from quail_engine.settings import Settings
from quail_engine.sql import analyze, split


@dataclass(frozen=True, order=True)
class Prompt:
    function: str  # AI_FILTER, …
    title: str  # the question in one line
    model: str
    threshold: float | None  # None where nothing is read by one
    question: str  # hash of all that the model is asked except the row's own texts

    def __str__(self) -> str:
        threshold = "" if self.threshold is None else f", threshold {self.threshold:g}"
        return f"{self.function} '{self.title}' of {self.model}{threshold}"


@dataclass(frozen=True)
class Fingerprint:
    """The prompts of a table, and what one request of them has cost so far."""

    prompts: tuple[Prompt, ...]  # different ones, sorted
    tokens_a_request: float = 0.0  # 0: never measured
    seconds_a_request: float = 0.0

    @classmethod
    def of(cls, text: str, settings: Settings) -> Fingerprint:
        """The fingerprint of statements. Raises SqlError for those that would be refused."""
        calls = [call for statement in split(text) if statement.calls for call in analyze(text, statement).calls]
        return cls(tuple(sorted({_prompt(call, settings) for call in calls})))

    def asks_more_than(self, before: Fingerprint) -> bool:
        """Whether a prompt is new. One that is gone needs no answer, and may only stand where this run has no use for it."""
        return not set(self.prompts) <= set(before.prompts)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Fingerprint:
        prompts = tuple(Prompt(**{field.name: prompt[field.name] for field in fields(Prompt)}) for prompt in record["prompts"])
        return cls(prompts, record["tokens_a_request"], record["seconds_a_request"])

    def as_record(self) -> dict[str, Any]:
        return asdict(self)

    def measured(self, report: RunReport | None, before: Fingerprint | None) -> Fingerprint:
        """With the costs of a run, or, where it asked nothing, with those that were measured before."""
        if report is not None and report.asked:
            return Fingerprint(self.prompts, report.tokens_fresh / report.asked, report.seconds_engine / report.asked)
        return self if before is None else Fingerprint(self.prompts, before.tokens_a_request, before.seconds_a_request)

    def new_questions(self, before: Sequence[Prompt]) -> int:
        """Questions that were not asked before; a call that is only read otherwise has none."""
        known = {(prompt.question, prompt.model) for prompt in before}
        return len({(prompt.question, prompt.model) for prompt in self.prompts} - known)


@dataclass(frozen=True)
class PromptChange:
    """A table that was filled by other prompts than those that a run is about to use."""

    before: Fingerprint
    now: Fingerprint

    def told(self, rows: int) -> str:
        """What changed, for people; `rows` are those that the table holds."""
        old = "; ".join(str(prompt) for prompt in self.before.prompts if prompt not in self.now.prompts)
        new = "; ".join(str(prompt) for prompt in self.now.prompts if prompt not in self.before.prompts)
        return (
            f"this run asks {new}; the {rows:,} rows that are there were answered {f'by {old}' if old else 'without it'}, and "
            f"keep their answers. Building the table anew asks {self._cost(rows)}"
        )

    def _cost(self, rows: int) -> str:
        requests = rows * self.now.new_questions(self.before.prompts)
        if not requests:
            return "nothing: these questions are answered already"
        tokens, seconds = requests * self.before.tokens_a_request, requests * self.before.seconds_a_request
        cost = f" (≈ {amount(tokens)} tokens, ≈ {duration(seconds)} at the rate of its last run)" if tokens else ""
        return f"up to {requests:,} questions{cost}"


def _prompt(call: AiCall, settings: Settings) -> Prompt:
    read_by_threshold = call.kind is Kind.FILTER or call.question.task is Task.TAG
    threshold = settings.threshold if call.options.threshold is None else call.options.threshold
    return Prompt(
        function=f"AI_{call.kind.name}",
        title=call.question.title,
        model=call.options.model or settings.model,
        threshold=threshold if read_by_threshold else None,
        question=question_key("", "", "", call.question).hex(),
    )
