"""How right answers are: zero-shot, and with labelled rows, on public data; the table of docs/quality.md.

    QUAIL_DATA=data python bench/quality.py --model smollm2-135m --tasks sentiment,spam --rows 64,256 --test 300

Everything goes through `con.sql`, as a user's statement would. Rows whose sha256 is divisible by four are the test set: a
sample of them is asked, and nothing else ever sees them. Labelled rows come from the others. Both have as many of each answer
as of any other, as far as there are. With `--draws` other labelled rows teach again, drawn from the first `--pool` of them; as
answers are kept, only rows that no earlier draw had are asked. Each result is a line of JSON, and `--table` makes the table of
them.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

import duckdb

import quail_engine
from quail_engine.quality.accuracy import wilson
from quail_engine.quality.figures import calibration_error, reliability

Row = tuple[tuple[str, ...], str]  # inputs, answer


@dataclass(frozen=True)
class Task:
    sql: str  # key, one or two inputs, answer: the rows of one key are on the same side of the split
    question: str = ""  # of AI_SCORE; empty: AI_CLASSIFY over the answers


_REPORTS = """
    select report_text, report_text, unnest([reactions[1], other]), unnest([true, false])
    from (select *, lead(reactions[1]) over (order by md5(report_id::varchar)) as other from vaers_reports)
    where not list_contains(reactions, other)
"""
"""A reaction that was reported, and one that was of another report: so no reaction is right more often than others."""

TASKS = {
    "sentiment": Task("select text, text, is_positive from sentiment_sentences", "Is the review positive? {0}"),
    "spam": Task("select text, text, is_spam from sms_spam", "Is this message spam? {0}"),
    "nli": Task("select premise, premise, hypothesis, label = 'entailment' from nli_pairs", "Does {0} imply {1}?"),
    "fever": Task(
        "select claim, evidence, claim, is_supported from fever_pairs", "Does the evidence {0} support the claim {1}?"
    ),
    "vaers": Task(_REPORTS, "Report {0} mentions reaction {1}"),
    "clinc": Task("select text, text, replace(domain, '_', ' ') from clinc150 where in_scope"),
    "it_tickets": Task("select text, array_to_string(string_split(text, ' ')[:120], ' '), category from it_tickets"),
    "banking77": Task("select text, text, replace(category, '_', ' ') from banking77"),
}


@dataclass(frozen=True)
class Result:
    task: str
    model: str
    labelled: int  # rows; 0: zero-shot
    n: int  # test rows that have an answer
    correct: int
    calibration_error: float  # expected, of ten bins of the probability of the answer given
    decided: str
    asked: int
    seconds: float
    draw: int = 0  # of the labelled rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--rows", default="64,256", help="numbers of labelled rows")
    parser.add_argument("--test", type=int, default=300, help="test rows, at most")
    parser.add_argument("--draws", type=int, default=1, help="draws of the labelled rows")
    parser.add_argument("--pool", type=int, help="rows that draws are from; default: the largest number of labelled rows")
    parser.add_argument("--answers", default=".quail/quality/answers", help="where answers are kept")
    parser.add_argument("--out", type=Path, default=Path("quality.jsonl"))
    parser.add_argument("--table", action="store_true", help="print the table of what is in --out, and ask nothing")
    options = parser.parse_args()
    if options.table:
        print(table([Result(**json.loads(line)) for line in options.out.read_text().splitlines()]))  # noqa: T201
        return
    counts = sorted(map(int, options.rows.split(",")), reverse=True)
    options.pool = options.pool or counts[0]
    for name in options.tasks.split(","):
        for count, draw in [*itertools.product(counts, range(options.draws)), (0, 0)]:
            result = measure(name, options.model, count, draw, options)
            with options.out.open("a") as file:
                file.write(json.dumps(asdict(result)) + "\n")
            print(result, flush=True)  # noqa: T201


def measure(name: str, model: str, labelled: int, draw: int, options: argparse.Namespace) -> Result:
    """The most labelled rows first: fewer are among them, so that nothing is asked twice."""
    task, began = TASKS[name], time.monotonic()
    rows = rows_of(task)
    labels = sorted({answer for _, _, answer in rows})
    pool = balanced([(inputs, answer) for key, inputs, answer in rows if not is_test(key)], options.pool)
    shown = balanced(pool, labelled, draw) if draw else pool[:labelled]
    asked = balanced([(inputs, answer) for key, inputs, answer in rows if is_test(key)], options.test)
    examples = f", {{'examples': {literal([{'input': list(i), 'answer': a} for i, a in shown])}}}" if shown else ""
    columns = [f"a{i}" for i in range(len(asked[0][0]))]
    if task.question:
        call = f"AI_SCORE(PROMPT({literal(task.question)}, {', '.join(columns)}){examples})"
    else:
        call = f"AI_CLASSIFY_SCORES(a0, {literal(labels)}{examples})"
    with quail_engine.connect(engine="local", model=model, answers=options.answers, max_seconds=None) as con:
        values = ", ".join(f"({', '.join(map(literal, (n, *inputs)))})" for n, (inputs, _) in enumerate(asked))
        found = con.sql(f"select n, {call} as score from (values {values}) t(n, {', '.join(columns)}) order by n")
        report = con.report
    given = [
        (probabilities(score), answer)
        for score, (_, answer) in zip(found.column("score").to_pylist(), asked, strict=True)
        if score is not None
    ]
    best = [(max(weights, key=lambda label: weights[label]), weights, answer) for weights, answer in given]
    sure = [(weights[label], label == answer) for label, weights, answer in best]
    return Result(
        task=name,
        model=model,
        labelled=labelled,
        n=len(sure),
        correct=sum(right for _, right in sure),
        calibration_error=round(calibration_error(reliability(sure)) or 0.0, 4),
        decided="; ".join(report.decided),
        asked=report.asked,
        seconds=round(time.monotonic() - began, 1),
        draw=draw,
    )


def rows_of(task: Task) -> list[tuple[str, tuple[str, ...], str]]:
    """Key, inputs and answer of all rows, in an order that is always the same."""
    with duckdb.connect() as con:
        for path in Path(os.environ["QUAIL_DATA"]).glob("*.parquet"):
            con.sql(f"create view {path.stem} as from read_parquet({literal(str(path))})")
        found = con.sql(task.sql).fetchall()
    words = {True: "true", False: "false"}
    return sorted({(key, tuple(inputs), words.get(answer, answer)) for key, *inputs, answer in found})


def is_test(key: str) -> bool:
    return int(hashlib.sha256(key.encode()).hexdigest(), 16) % 4 == 0


def balanced(rows: Sequence[Row], count: int, draw: int = 0) -> list[Row]:
    """As many of each answer; the first of a larger sample are a smaller one."""
    shuffled = random.Random(7 + draw).sample(list(rows), len(rows))
    numbers: dict[str, int] = {}
    turns = []
    for inputs, answer in shuffled:
        numbers[answer] = numbers.get(answer, 0) + 1
        turns.append((numbers[answer], len(turns), (inputs, answer)))
    return [row for _, _, row in sorted(turns)[:count]]


def probabilities(score: object) -> dict[str, float]:
    """By answer."""
    return {"true": score, "false": 1 - score} if isinstance(score, float) else dict(score)  # type: ignore[call-overload]


def literal(value: object) -> str:
    """SQL of a text, a number, a list or a mapping."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dict):
        return "{" + ", ".join(f"'{key}': {literal(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(map(literal, value)) + "]" if isinstance(value, list) else str(value)


def table(results: Sequence[Result]) -> str:
    """Accuracy with its 95 % interval, and calibration error, by task and model; of repeated measurements the last."""
    counts = sorted({result.labelled for result in results})
    last = {(result.task, result.model, result.labelled, result.draw): result for result in results}
    heads = ["task", "model", *("zero-shot" if not count else f"{count} labelled rows" for count in counts)]
    lines = [heads, ["---"] * len(heads)]
    for task, model in dict.fromkeys((result.task, result.model) for result in results):
        own = {count: [each for key, each in last.items() if key[:3] == (task, model, count)] for count in counts}
        lines.append([task, model, *map(cell, own.values())])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(draws: Sequence[Result]) -> str:
    """Means over the draws of labelled rows, and how far apart their accuracies are; the interval is that of the test rows."""
    if not draws:
        return "–"
    shares = [result.correct / result.n for result in draws]
    n = min(result.n for result in draws)
    low, high = wilson(round(mean(shares) * n), n)
    apart = f", {len(draws)} draws {min(shares):.2f} to {max(shares):.2f}" if len(draws) > 1 else ""
    error = f"{mean(result.calibration_error for result in draws):.2f}"
    return f"{mean(shares):.2f} ({low:.2f} to {high:.2f}, n {n}{apart}), error of calibration {error}"


if __name__ == "__main__":
    main()
