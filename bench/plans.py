"""How far is the estimated time of ten plans from what they take?

    python -m bench.plans [--model smollm2-135m] [--threads 2] [--plan NAME]

The plans cover what a layout can share: nothing but the head, a document between questions, an anchor between partners, a
question's head of examples, a label trie. Their texts are drawn from a seed, so every machine runs the same ones. Each plan's
requests are scheduled as a statement's are; the time is the engine's. Prints the machine's rates as they were measured just
now, a JSON line a plan, then a table. Where other programs run, `cpu_seconds` with `--threads 1` come nearest to the time of
an idle machine.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from quail_engine.batching.forest import count_work, schedule
from quail_engine.calls import Example, Label, Question, Task, Template
from quail_engine.engine import load_engine
from quail_engine.engine.base import Engine
from quail_engine.engine.local.attention_kernel import attention_kernel
from quail_engine.engine.local.throughput import measure as measure_machine
from quail_engine.engine.local.weights import open_checkpoint
from quail_engine.engine.rates import Rates, shape_of
from quail_engine.models import find
from quail_engine.prompts.chat import ChatPrompter, prompter_for
from quail_engine.prompts.request import Request
from quail_engine.roofline import Roofline
from quail_engine.settings import Settings

Rows = list[tuple[str, ...]]

_SYLLABLES = [a + b for a in ("ba", "de", "ki", "lo", "mu", "ra", "se", "ti") for b in ("n", "r", "s", "l", "x", "m")]
_URGENT = Question(Task.JUDGE, Template(("The customer wants an answer today: ", 0)))
_ANGRY = Question(Task.JUDGE, Template(("The customer is angry: ", 0)))
_MATTER = Question(Task.JUDGE, Template((0, " is a matter for ", 1)))


@dataclass(frozen=True)
class Plan:
    """Questions, and the rows that each is asked about, row by row."""

    name: str
    questions: tuple[Question, ...]
    rows: Rows

    def requests(self, prompter: ChatPrompter) -> list[Request]:
        ids = [prompter.encode(row) for row in self.rows]
        prompts = [prompter.compile(question) for question in self.questions]
        return [prompt.request(row) for row in ids for prompt in prompts]


def texts(count: int, words: int, seed: int) -> list[str]:
    """Texts of half to one and a half times so many words."""
    draw = random.Random(seed)
    return [
        " ".join("".join(draw.choices(_SYLLABLES, k=2)) for _ in range(draw.randint(words // 2, words + words // 2)))
        for _ in range(count)
    ]


def rows(count: int, words: int, seed: int) -> Rows:
    return [(text,) for text in texts(count, words, seed)]


def pairs(anchors: int, anchor_words: int, partners: int, partner_words: int, seed: int) -> Rows:
    return list(itertools.product(texts(anchors, anchor_words, seed), texts(partners, partner_words, seed + 1)))


def labels(count: int) -> tuple[Label, ...]:
    return tuple(Label(text) for text in texts(count, 3, 77))


def classify(count: int) -> Question:
    return Question(Task.CLASSIFY, Template((0,)), labels(count))


def few_shot(count: int) -> Question:
    examples = [Example((text,), "true" if i % 2 else "false") for i, text in enumerate(texts(count, 20, 5))]
    return Question(Task.JUDGE, _URGENT.template, examples=tuple(examples))


PLANS = (
    Plan("filter, short rows", (_URGENT,), rows(120, 8, 1)),
    Plan("filter, middling rows", (_URGENT,), rows(50, 50, 2)),
    Plan("filter, long rows", (_URGENT,), rows(6, 500, 3)),
    Plan("two questions, one column", (_URGENT, _ANGRY), rows(40, 50, 4)),
    Plan("join, few partners", (_MATTER,), pairs(20, 60, 4, 8, 6)),
    Plan("join, many partners", (_MATTER,), pairs(3, 60, 60, 8, 7)),
    Plan("join, long anchors", (_MATTER,), pairs(3, 400, 20, 8, 8)),
    Plan("classes, 8 labels", (classify(8),), rows(50, 30, 9)),
    Plan("classes, 77 labels", (classify(77),), rows(10, 30, 10)),
    Plan("filter, few-shot head", (few_shot(16),), rows(60, 20, 11)),
)


def measure(
    plan: Plan, requests: Sequence[Request], engine: Engine, roofline: Roofline, token_budget: int
) -> dict[str, object]:
    work = count_work(requests)
    estimated = roofline.seconds(work, token_budget)
    began, busy = time.perf_counter(), time.process_time()
    for batch in schedule(requests, token_budget):
        engine.score(batch)
    measured, cpu = time.perf_counter() - began, time.process_time() - busy
    return {
        "plan": plan.name,
        "requests": len(requests),
        "tokens": int(work.tokens),
        "pairs": int(work.pairs),
        "prefix_pairs": int(work.prefix_pairs),
        "estimated_seconds": round(estimated, 3),
        "measured_seconds": round(measured, 3),
        "cpu_seconds": round(cpu, 3),
        "factor": round(max(estimated / measured, measured / estimated), 2),
    }


def table(results: Sequence[dict[str, object]]) -> str:
    columns = list(results[0])
    widths = [max(len(name), *(len(str(result[name])) for result in results)) for name in columns]
    shown: Callable[[Sequence[object]], str] = lambda cells: "  ".join(  # noqa: E731
        str(cell).ljust(width) for cell, width in zip(cells, widths, strict=True)
    )
    return "\n".join([shown(columns), *(shown([result[name] for name in columns]) for result in results)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plan", action="append", choices=[plan.name for plan in PLANS], help="default: all")
    given = parser.parse_args()
    settings = Settings.of({"cpu_threads": given.threads})
    folder = find(given.model, None).path
    prompter, engine = prompter_for(folder), load_engine(folder, settings)
    # Measured anew, and without what earlier runs taught: nothing of these plans is in their own estimates.
    config = open_checkpoint(folder).config
    roofline = measure_machine(config, attention_kernel(), engine.dtype, given.threads, Rates(shape_of(config), given.threads))
    sys.stdout.write(json.dumps({"dtype": engine.dtype, "threads": given.threads, **asdict(roofline.machine)}) + "\n")
    results = []
    for plan in PLANS:
        if given.plan is None or plan.name in given.plan:
            results.append(measure(plan, plan.requests(prompter), engine, roofline, settings.token_budget))
            sys.stdout.write(json.dumps(results[-1]) + "\n")
            sys.stdout.flush()
    sys.stdout.write(table(results) + "\n")


if __name__ == "__main__":
    main()
