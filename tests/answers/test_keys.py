"""Content keys: everything that changes an answer, nothing else, the same everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import replace

from answer_cases import Q

from quail_engine.answers import answer_key, answer_keys, question_key
from quail_engine.calls import Example, Label, Question, Task, Template


def test_every_part_of_a_question_changes_its_key() -> None:
    labels = (Label("a", "first"), Label("b"))
    base = Question(Task.CLASSIFY, Template(("x ", 0, " y ", 1)), labels, 0, "Look.", (Example(("t", "u"), "a"),))
    keys = [
        question_key(*model, question)
        for model, question in [
            (("w", "full", "p/1"), base),
            (("v", "full", "p/1"), base),
            (("w", "fp8", "p/1"), base),
            (("w", "full", "p/2"), base),
            (("w", "full", "p/1"), replace(base, task=Task.TAG)),
            (("w", "full", "p/1"), replace(base, template=Template(("x ", 0, " y  ", 1)))),
            (("w", "full", "p/1"), replace(base, template=Template(("x ", 1, " y ", 0)))),
            (("w", "full", "p/1"), replace(base, template=Template(("x 0 y ", 1)))),
            (("w", "full", "p/1"), replace(base, labels=labels[::-1])),
            (("w", "full", "p/1"), replace(base, labels=(Label("a"), Label("b", "first")))),
            (("w", "full", "p/1"), replace(base, labels=(Label("a", "First"), Label("b")))),
            (("w", "full", "p/1"), replace(base, anchor=1)),
            (("w", "full", "p/1"), replace(base, instructions="Look!")),
            (("w", "full", "p/1"), replace(base, examples=())),
            (("w", "full", "p/1"), replace(base, examples=(Example(("t", "u"), "b"),))),
            (("w", "full", "p/1"), replace(base, examples=(Example(("tu",), "a"),))),
        ]
    ]
    assert len(set(keys)) == len(keys)
    assert question_key("w", "full", "p/1", replace(base)) == keys[0]


def test_arguments_are_not_run_together() -> None:
    arguments: list[list[str]] = [
        ["a", "b"],
        ["ab", ""],
        ["", "ab"],
        ["ab"],
        [],
        [""],
        ["b", "a"],
        ["é"],
        ["e\u0301"],
        ["\ud800"],
    ]
    keys = [answer_key(Q, argument) for argument in arguments]
    assert len(set(keys)) == len(keys)
    assert answer_key(Q[::-1], ["a", "b"]) != keys[0]


def test_same_in_another_process() -> None:
    program = textwrap.dedent("""
        from quail_engine.answers import answer_key, answer_keys, question_key
        from quail_engine.calls import Question, Task, Template
        q = question_key("weights", "full", "qwen2.5/1", Question(Task.JUDGE, Template(("Is it urgent? ", 0))))
        print(q.hex(), answer_key(q, ["Größe \U0001f40e"]).hex())
    """)
    for seed in ("1", "2"):
        out = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert out.stdout.split() == [Q.hex(), answer_key(Q, ["Größe \U0001f40e"]).hex()]


def test_keys_of_this_schema_never_change() -> None:
    # Written down once: other bytes would make every stored answer of every user unfindable.
    assert Q.hex() == "98832ae2ae17dd7c2420798223d82ca089eb3a6393a57d08599b17ce4e5f3b06"
    assert answer_key(Q, ["text"]).hex() == "19e1d08cf7e2dd565d4ec55bd1a86971e759fab0e2fd4e93d9747f89850c014d"


def test_keys_of_many_rows_are_those_of_each() -> None:
    rows = [("ä", ""), ("", "ä"), ("one", "two")]
    columns = [[text.encode() for text in column] for column in zip(*rows, strict=True)]
    assert answer_keys(Q, columns, 3) == [answer_key(Q, row) for row in rows]
    assert answer_keys(Q, columns[:1], 3) == [answer_key(Q, row[:1]) for row in rows]
    assert answer_keys(Q, [], 2) == [answer_key(Q, ())] * 2
