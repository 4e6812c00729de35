"""Random small statements whose answers are tables, and their execution in every order, counted by an engine.

In a *uniform* statement a relation's rows are all combinations of digits, one digit a condition that reads the relation; a
condition looks at its own digits only. So conditions are independent to the row, and shares of rows say exactly how many are
left. In a *drawn* one every answer is drawn by itself.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from quail_engine.batching.batch import Batch
from quail_engine.batching.forest import schedule
from quail_engine.plan.cost import Length, PromptParts, Slot
from quail_engine.plan.survival import Condition, Instance, Text
from quail_engine.prompts.readout import JudgeReadout, Spellings
from quail_engine.prompts.request import Ids, Request

Table = NDArray[np.bool_]

_HEAD = 5  # tokens in front of the first text, the same for all questions
_READOUT = JudgeReadout(Spellings((1,), (2,)))


@dataclass(frozen=True)
class Asked:
    """A condition: its relations, the anchor first, its tokens between and behind the texts, and its answers."""

    relations: tuple[int, ...]
    between: int
    behind: int
    true: Table  # one axis a relation, in their order


@dataclass(frozen=True)
class Statement:
    rows: tuple[int, ...]  # by relation
    lengths: tuple[int, ...]  # tokens of a row's text, by relation
    asked: tuple[Asked, ...]
    uniform: bool
    keeps_kv: bool = False

    def instance(self, shares: Sequence[float] | None = None) -> Instance:
        """The statement as the planner sees it; `shares` in the place of the true selectivities."""
        texts = tuple(
            Text(i, rows, Length(length)) for i, (rows, length) in enumerate(zip(self.rows, self.lengths, strict=True))
        )
        conditions = tuple(
            Condition(
                prompt=_parts(asked),
                texts=asked.relations,
                selectivity=float(asked.true.mean()) if shares is None else shares[number],
                pairs=float(asked.true.size),
                matched=_matched(asked) if self.uniform and shares is None and len(asked.relations) == 2 else None,
                leading=asked.relations[0] if self.keeps_kv else None,
            )
            for number, asked in enumerate(self.asked)
        )
        return Instance(tuple(map(float, self.rows)), texts, conditions)

    def sampled(self, draw: random.Random, rows: int) -> list[float]:
        """Selectivities from so many rows or pairs of each condition; a share of none or all is pulled in by half a row."""
        found = []
        for asked in self.asked:
            answers = draw.choices(asked.true.ravel().tolist(), k=rows)
            found.append((sum(answers) + 0.5) / (rows + 1))
        return found


@dataclass
class CountingEngine:
    """Counts the tokens of the nodes that it has not kept. It answers nothing: the tables do."""

    kept: set[tuple[Ids, ...]] = field(default_factory=set)  # paths
    tokens: int = 0
    paths: dict[int, tuple[Ids, ...]] = field(default_factory=dict)

    def run(self, batch: Batch) -> None:
        for node in batch.nodes:
            path = self.paths[node.number] = (*self.paths.get(node.parent, ()), node.ids)
            self.tokens += 0 if path in self.kept else node.fresh


class Execution:
    """Runs the conditions of a statement in any order. What is asked after a set of others is run once a set."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self._steps: dict[tuple[int, int, int], int] = {}

    def tokens(self, order: Sequence[int]) -> int:
        done, kept, total = 0, -1, 0
        for condition in order:
            key = (done, condition, kept)
            if key not in self._steps:
                self._steps[key] = self._step(*key)
            total += self._steps[key]
            done |= 1 << condition
            if self.statement.keeps_kv:
                kept = self.statement.asked[condition].relations[0]
        return total

    def every_order(self) -> Iterator[tuple[tuple[int, ...], int]]:
        for order in itertools.permutations(range(len(self.statement.asked))):
            yield order, self.tokens(order)

    def _step(self, done: int, condition: int, kept: int) -> int:
        statement, asked = self.statement, self.statement.asked[condition]
        others = tuple(axis for axis in range(len(statement.rows)) if axis not in asked.relations)
        left = self._left(done).any(axis=others)
        if len(asked.relations) == 2 and asked.relations[0] > asked.relations[1]:
            left = left.T
        engine, first = CountingEngine(), asked.relations[0]
        if first == kept:  # the head's KV is kept with that of the texts behind it
            engine.kept = {(_head(),), *((_head(), _text(statement, first, row)) for row in range(statement.rows[first]))}
        requests = [self._request(condition, row) for row in np.argwhere(left).tolist()]
        for batch in schedule(requests, 1_000):
            engine.run(batch)
        return engine.tokens

    def _left(self, done: int) -> Table:
        """The combinations of rows that the conditions which were asked leave."""
        left: Table = np.ones(self.statement.rows, bool)
        for number, asked in enumerate(self.statement.asked):
            if done >> number & 1:
                table = asked.true if list(asked.relations) == sorted(asked.relations) else asked.true.T
                shape = [rows if axis in asked.relations else 1 for axis, rows in enumerate(self.statement.rows)]
                left = left & table.reshape(shape)
        return left

    def _request(self, condition: int, rows: Sequence[int]) -> Request:
        asked = self.statement.asked[condition]
        texts = [_text(self.statement, relation, row) for relation, row in zip(asked.relations, rows, strict=True)]
        constants = [(-1 - condition,) * asked.between, (-100 - condition,) * asked.behind]
        middle = [constants[0], texts[1]] if len(texts) == 2 else []
        return Request((_head(), texts[0], *middle, constants[1]), _READOUT)


def _head() -> Ids:
    return (-1_000,) * _HEAD


def _text(statement: Statement, relation: int, row: int) -> Ids:
    return (1_000 * relation + row,) * statement.lengths[relation]


def _parts(asked: Asked) -> PromptParts:
    middle: tuple[float | Slot, ...] = (asked.between, Slot(1)) if len(asked.relations) == 2 else ()
    return PromptParts((_HEAD, Slot(0), *middle, asked.behind))


def _matched(asked: Asked) -> tuple[float, float]:
    return float(asked.true.any(axis=1).mean()), float(asked.true.any(axis=0).mean())


def statements(count: int, seed: int, uniform: bool, keeps_kv: bool) -> Iterator[Statement]:
    draw = random.Random(seed)
    for _ in range(count):
        statement = _uniform(draw) if uniform else _drawn(draw)
        yield replace(statement, keeps_kv=keeps_kv)


def _graph(draw: random.Random) -> list[tuple[int, ...]]:
    """The relations of each condition: joins that hold up to three relations together, and filters on some."""
    relations = draw.choice([1, 2, 2, 3, 3, 3])
    joins = [draw.sample([draw.randrange(other), other], 2) for other in range(1, relations)]
    if relations > 1 and draw.random() < 0.3:
        joins.append(draw.sample(range(relations), 2))  # a second join of a pair, or one that closes a circle
    filters = [[draw.randrange(relations)] for _ in range(draw.randint(1 if joins else 2, 5 - len(joins)))]
    found = [tuple(condition) for condition in joins + filters]
    draw.shuffle(found)
    return found


def _made(
    draw: random.Random, rows: Sequence[int], graph: Sequence[tuple[int, ...]], tables: Sequence[Table], uniform: bool
) -> Statement:
    asked = [Asked(of, draw.randint(1, 6), draw.randint(2, 30), table) for of, table in zip(graph, tables, strict=True)]
    return Statement(tuple(rows), tuple(draw.randint(1, 80) for _ in rows), tuple(asked), uniform)


def _uniform(draw: random.Random) -> Statement:
    graph = _graph(draw)
    bases = [[draw.choice([2, 2, 3]) for _ in of] for of in graph]
    relations = 1 + max(itertools.chain.from_iterable(graph))
    digits = [[(n, of.index(r)) for n, of in enumerate(graph) if r in of] for r in range(relations)]
    rows = [list(itertools.product(*(range(bases[n][side]) for n, side in digits[r]))) for r in range(relations)]
    tables = []
    for number, of in enumerate(graph):
        small = _some_true(draw, bases[number])
        own = [[row[digits[r].index((number, side))] for row in rows[r]] for side, r in enumerate(of)]
        tables.append(small[np.ix_(*own)])
    return _made(draw, list(map(len, rows)), graph, tables, True)


def _some_true(draw: random.Random, shape: Sequence[int]) -> Table:
    while True:
        table = np.array([draw.random() < 0.5 for _ in range(int(np.prod(shape)))]).reshape(shape)
        if table.any():
            return table


def _drawn(draw: random.Random) -> Statement:
    graph = _graph(draw)
    rows = [draw.randint(8, 20) for _ in range(1 + max(itertools.chain.from_iterable(graph)))]
    tables = []
    for of in graph:
        share = draw.choice([0.05, 0.2, 0.5, 0.8])
        shape = [rows[r] for r in of]
        tables.append(np.array([draw.random() < share for _ in range(int(np.prod(shape)))]).reshape(shape))
    return _made(draw, rows, graph, tables, False)
