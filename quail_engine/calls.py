"""What is asked: the vocabulary shared by the SQL front end, the prompts, the planner and the answer store.

A `Question` is everything about an AI call that the model sees except the row's own texts; two calls with equal questions
and equal arguments have one answer. An `AiCall` is one place in a statement where a question stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, Flag, auto


class Task(str, Enum):
    """What the model is asked to do, and so what an answer's numbers are."""

    JUDGE = "judge"  # is it true? one number: the margin, log-odds of TRUE
    CLASSIFY = "classify"  # which label? a number a label: its log-probability among the labels
    TAG = "tag"  # which labels apply? a number a label: the margin of "this label applies"


class Reads(Flag):
    """What is read of the model for an answer."""

    NUMBERS = auto()  # those of the task; further labels cost tokens of their own
    FEATURES = auto()  # hidden states before the answer begins, for decisions that are fitted to labelled rows


class Kind(str, Enum):
    """The SQL function that was called, and so what type it returns."""

    FILTER = "filter"  # BOOLEAN
    SCORE = "score"  # DOUBLE in [0, 1]
    CLASSIFY = "classify"  # VARCHAR, or VARCHAR[] with output_mode 'multi'
    CLASSIFY_SCORES = "classify_scores"  # MAP(VARCHAR, DOUBLE)


@dataclass(frozen=True)
class Template:
    """Literal texts and argument numbers in the order they are written: `('Is it urgent? ', 0)`.

    A number that occurs twice is the same argument twice. No two literals stand side by side, and none is empty.
    """

    parts: tuple[str | int, ...]

    @property
    def arguments(self) -> tuple[int, ...]:
        """The argument numbers that occur, each once, in the order of their first occurrence."""
        return tuple(dict.fromkeys(p for p in self.parts if isinstance(p, int)))

    @property
    def text(self) -> str:
        """The template as a user would write it in PROMPT, braces escaped."""
        escape = {"{": "{{", "}": "}}"}
        return "".join(f"{{{p}}}" if isinstance(p, int) else "".join(escape.get(c, c) for c in p) for p in self.parts)


@dataclass(frozen=True)
class Label:
    text: str  # returned verbatim
    description: str = ""  # shown to the model beside the label; may be empty


@dataclass(frozen=True)
class Example:
    """A labelled row: shown to the model before the question (few-shot), or what a decision is fitted to."""

    inputs: tuple[str, ...]  # one text an argument
    answer: str | tuple[str, ...]  # 'true' or 'false' for JUDGE, a label's text for CLASSIFY, for TAG those that apply


@dataclass(frozen=True)
class Question:
    """What is asked of each row: the part of an answer's key that does not come from the row."""

    task: Task
    template: Template
    labels: tuple[Label, ...] = ()  # CLASSIFY and TAG; empty when the labels come from a column (see AiCall.labels_argument)
    anchor: int = 0  # argument whose text stands first in a pair, so that its partners share its KV
    instructions: str = ""  # the option of that name: one sentence that explains the task
    examples: tuple[Example, ...] = ()  # shown before the question
    labelled: tuple[Example, ...] = ()  # never shown: how the answers follow from the model's numbers is fitted to these

    @property
    def zero_shot(self) -> Question:
        """What the model is asked, where labelled rows decide what becomes of its numbers."""
        return replace(self, labelled=())

    @property
    def title(self) -> str:
        """The question in one line, for people: its template, and its labels where it has some."""
        labels = f" into [{', '.join(label.text for label in self.labels)}]" if self.labels else ""
        return self.template.text + labels


@dataclass(frozen=True)
class Options:
    """Options that do not change what the model is asked; None means the settings' value."""

    threshold: float | None = None
    selectivity: float | None = None  # hint: expected share of TRUE
    model: str | None = None
    on_overlong: str | None = None  # null | error | truncate
    max_error_ratio: float | None = None
    symmetric: bool = False
    order: str | None = None  # 'as_written' keeps the order of the text


@dataclass(frozen=True)
class Reached:
    """A condition that every row meets which reaches a call, and that may ask itself: SQL around a part of the text."""

    start: int  # character span of that part
    end: int
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Turn:
    """An operand of an AND or OR that is asked before a call of another: where it decides the whole, the call is needless."""

    start: int  # character span
    end: int
    decides: str  # the test that it then meets: IS TRUE of an OR, IS FALSE of an AND; IS NOT TRUE where NULL is as good

    @property
    def waits(self) -> bool:
        """Whether what nobody has answered yet must be told from what is settled: both are NULL."""
        return self.decides != "IS NOT TRUE"

    @property
    def asks_on(self) -> bool:
        """Whether DuckDB goes on to the other operands where this one is NULL, and so meets what it holds where it stands."""
        return self.decides == "IS TRUE"


@dataclass(frozen=True)
class AiCall:
    """One AI call in a statement."""

    kind: Kind
    question: Question
    arguments: tuple[str, ...]  # SQL text of each argument's expression, in order of its number
    options: Options
    start: int  # character span of the call in the statement's text, end exclusive
    end: int
    guard: str = ""  # SQL that is TRUE where SQL would look at this call; empty = always
    reached: tuple[Reached, ...] = ()  # conditions that must be TRUE of a row before it reaches the call
    after: tuple[int, ...] = ()  # indexes of conditions on its rows: those that are answered before rounds must be TRUE
    turns: tuple[Turn, ...] = ()  # what is asked before, in this order; none of it may decide
    unless: tuple[Turn, ...] = ()  # what comes beside or after, and may be known already to decide
    beside: tuple[int, ...] = ()  # indexes of calls that are looked up wherever this one is
    depends: tuple[str, ...] = ()  # SQL: what keeps the call above joins, such as a column of every other relation
    level: int = 0  # 0 is asked first; a call waits for the calls of lower levels
    group: tuple[str, ...] | None = None  # SQL: rows with these columns equal need one TRUE among them; None: every row counts
    labels_argument: str = ""  # SQL of a column of lists that holds each row's labels; empty = constant labels
    chosen: str = ""  # SQL of a text: the call is whether that is the label; empty = it is the answer itself
    warnings: tuple[str, ...] = field(default=(), compare=False)
