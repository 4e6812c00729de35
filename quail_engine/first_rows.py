"""A query that stops at its LIMIT: its rows are asked about in their order, until as many are certain as it needs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from quail_engine.inquiries import Inquiries
from quail_engine.lookups import Arguments
from quail_engine.plan import Asked, FirstRows, Source, cheapest
from quail_engine.sql import Conjunct, Query, RowLimit, candidates_query
from quail_engine.wording import Recorder

_WASTE = 4  # rounds grow by a quarter of what was asked: at most a fifth of all questions is asked in vain
_PRIOR = 8  # inputs that what was believed of a condition counts for, beside those that were answered


def ask_first_rows(step: FirstRows, query: Query, cursor: Recorder, inquiries: Inquiries, names: list[str]) -> int:
    """Asks about the first rows that are certain or open, until as many as the LIMIT needs are certain; returns their number.

    Of each row only the first open question is asked: a row that it refuses needs no other. Which is first is weighed anew
    after each round, by what was answered. As many rows are looked at as are needed, so nothing is asked that a scan row by row
    would not ask; after many questions with few hits their number grows with what was asked, so that passes do not stay small.
    """
    limit, look_ups, spent = step.limit, inquiries.look_ups, 0
    wanted = limit.rows + limit.offset
    while True:
        sql = candidates_query(query, limit, inquiries.tags, names, wanted + spent // _WASTE)
        table = cursor.sql(sql).to_arrow_table()
        candidates = _Candidates(limit, [1 + look_ups.width(i) for i in limit.deciding], table)
        open_rows = candidates.open_rows()
        if not open_rows or open_rows[0][0] >= wanted:
            return candidates.rows
        for call in dict.fromkeys(call for _, call, _ in open_rows):
            inputs = [texts for _, asked, texts in open_rows if asked == call]
            columns = [pa.array(column, pa.string()) for column in zip(*inputs, strict=True)]
            look_ups.inquiry(call).meet(columns, len(inputs))
        missing = look_ups.missing()
        spent += sum(len(inquiry.missing) for inquiry in missing)
        inquiries.answer(missing)
        if step.believed:
            limit = _weighed(step, candidates, inquiries)


class _Candidates:
    """Rows that are certain or open, with what can be asked about each."""

    def __init__(self, limit: RowLimit, widths: Sequence[int], table: pa.Table) -> None:
        """`widths`: for each deciding call the number of its columns; these are the table's last."""
        self.rows: int = table.num_rows
        self._columns = table.columns[table.num_columns - sum(widths) :]
        starts = itertools.accumulate([0, *widths])
        self._places = {i: (start, start + width) for i, start, width in zip(limit.deciding, starts, widths, strict=False)}

    def open_rows(self) -> list[tuple[int, int, Arguments]]:
        """The rows that have an open question: their number, the first such call, and what it is about."""
        found = []
        for number, row in enumerate(zip(*(column.to_pylist() for column in self._columns), strict=True)):
            for i, (start, end) in self._places.items():
                if row[start]:
                    found.append((number, i, row[start + 1 : end]))
                    break
        return found

    def inputs(self, conjunct: Conjunct) -> int:
        """Different inputs of a condition among the rows."""
        columns = [
            column for i in conjunct.calls for column in self._columns[slice(self._places[i][0] + 1, self._places[i][1])]
        ]
        if not columns:
            return 1
        named = pa.table(columns, names=[str(number) for number in range(len(columns))])
        return int(named.group_by(named.column_names).aggregate([]).num_rows)


def _weighed(step: FirstRows, candidates: _Candidates, inquiries: Inquiries) -> RowLimit:
    """The LIMIT with its conditions in the order that is the cheapest by what was believed of them and what was answered."""
    conjuncts = step.limit.conjuncts
    shares = [_share(conjunct, number, step, inquiries) for number, conjunct in enumerate(conjuncts)]
    asked = [
        Asked(believed.request_bytes, candidates.inputs(conjunct))
        for conjunct, believed in zip(conjuncts, step.believed, strict=True)
    ]

    def share(done: Sequence[int]) -> float:
        product = 1.0
        for number in done:
            product *= shares[number]
        return product

    order = cheapest(asked, candidates.rows, share)
    return replace(step.limit, conjuncts=tuple(conjuncts[number] for number in order))


def _share(conjunct: Conjunct, number: int, step: FirstRows, inquiries: Inquiries) -> float:
    """The share of TRUE among a condition's inputs: a hint as it is, else what was believed beside what was answered."""
    believed = step.believed[number].selectivity
    if conjunct.negated is None or believed.source is Source.HINTED:
        return believed.value
    call = conjunct.calls[0]
    met, true = inquiries.look_ups.inputs(call), inquiries.look_ups.true(call)
    assert true is not None, "a condition is an AI_FILTER"
    hits = met - true if conjunct.negated else true
    return (hits + _PRIOR * believed.value) / (met + _PRIOR)
