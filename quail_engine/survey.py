"""Statistics of a statement, measured before it is planned: counts by DuckDB, selectivities by asking a sample of the rows.

Only ANDs and ORs of which more than one condition asks are looked at: nothing else has an order to choose. A sample is uniform
over the different inputs, and the same whenever the rows are. Its answers are kept like all others, so of what is asked for it
only that is lost which the chosen order would not have asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from quail_engine.calls import Kind
from quail_engine.inquiries import Inquiries
from quail_engine.pending import reading_of
from quail_engine.plan import (
    AiFilter,
    AiJoin,
    CallStatistics,
    ConjunctionStatistics,
    Estimate,
    JoinCounts,
    Side,
    SideCount,
    Source,
    Statistics,
    build,
    ordered_freely,
    pairs_to_count,
)
from quail_engine.settings import Settings
from quail_engine.sql import (
    Conjunction,
    Query,
    counts_query,
    pair_counts_queries,
    pairs_sample_query,
    part_counts_query,
    sample_query,
    threshold_query,
)
from quail_engine.wording import Recorder

_LEAST_ROWS, _MOST_ROWS = 64, 256  # of a sample, where the settings do not say; so many stored answers tell as much
_ROWS_A_SAMPLED = 32  # among so many rows one is sampled, within these limits
_GREATEST_HASH = 2**64 - 1
_WORTH = 8  # rows a sampled one from which on a sample is taken: asking all of fewer costs less than knowing an order saves


def survey(query: Query, cursor: Recorder, inquiries: Inquiries, samples: bool) -> Statistics:
    """What can be known of the query's conditions before they are asked. Runs inside the statement's transaction.

    Without `samples` nothing is asked.
    """
    disabled = inquiries.services.settings.disable_rules
    known = Statistics.of(query)
    if "order_joins" not in disabled:
        known = replace(known, joins=_count_joins(query, cursor))
    calls, conjunctions = list(known.calls), list(known.conjunctions)
    for number, conjunction in enumerate(query.conjunctions):
        rule = "order_conjuncts" if conjunction.whole else "order_disjuncts"
        if rule not in disabled and _has_choice(query, conjunction):
            rows = _count(query, conjunction, cursor, calls)
            indexes = [i for conjunct in conjunction.conjuncts for i in conjunct.calls]
            _remember(indexes, query, inquiries, calls, selectivities=True)
            _take_over(indexes, inquiries, calls)
            selectivities = replace(known, calls=tuple(calls)).of_order(conjunction.conjuncts).selectivities
            found = replace(conjunctions[number], rows=Estimate(rows, Source.MEASURED), selectivities=selectivities)
            begins = not replace(known, calls=tuple(calls)).were_asked(indexes)
            if not begins:
                sql = sample_query(query, conjunction, _GREATEST_HASH, inquiries.tags)
                inquiries.recall_ahead(indexes, partial(_drain, cursor, sql))
            sampled = _sampled(query, conjunction, cursor, inquiries, calls, found) if samples and begins else found
            conjunctions[number] = sampled
    if "order_conjuncts" not in disabled:
        _look_at_joins(query, cursor, inquiries, calls, samples)
    if "ask_together" not in disabled:
        _look_at_prompts(query, inquiries, calls, conjunctions)
    return replace(known, calls=tuple(calls), conjunctions=tuple(conjunctions))


def _count_joins(query: Query, cursor: Recorder) -> JoinCounts:
    """Counts texts and pairs of conditions beside joins whose order is the planner's: each part of the join runs once."""
    stops = query.limit is not None and bool(query.limit.conjuncts)
    sides = None if query.written or stops else ordered_freely(query)
    if sides is None or query.pair_spaces[0].joins is None:
        return JoinCounts()
    counts: dict[Side, SideCount] = {}
    pairs: dict[tuple[Side, Side], float] = {}
    for part in query.pair_spaces[0].joins.parts(()):
        here = {relation.name for relation in part.relations}
        alone = list(dict.fromkeys(side for of in sides.values() for side in of if side.relation in here))
        both = [pair for pair in pairs_to_count(sides) if here.issuperset(side.relation for side in pair)]
        if not alone:
            continue
        texts = [*(side.arguments for side in alone), *((*one.arguments, *other.arguments) for one, other in both)]
        found = cursor.execute(part_counts_query(query, query.pair_spaces[0], part, texts)).fetchall()[0]
        distinct, text_bytes = ([float(value or 0) for value in values] for values in (found[::2], found[1::2]))
        counts |= {side: SideCount(distinct[i], text_bytes[i]) for i, side in enumerate(alone)}
        pairs |= dict(zip(both, distinct[len(alone) :], strict=True))
    return JoinCounts(counts, pairs)


def _look_at_joins(query: Query, cursor: Recorder, inquiries: Inquiries, calls: list[CallStatistics], samples: bool) -> None:
    """Fills in `calls` for the conditions beside joins. Those on one relation are sampled where there are several.

    Pairs are not (`ListedConditions`): which there are is not known before the conditions on their relations are answered.
    """
    conditions = build(query).conditions
    if len(conditions) < 2 or any(query.calls[condition.call].options.order for condition in conditions):
        return
    filters: dict[object, list[AiFilter]] = {}
    for condition in conditions:
        if condition.space.joins is not None:
            counts = [cursor.execute(sql).fetchall()[0] for sql in pair_counts_queries(query, condition.space)]
            inputs, size = math.prod(count for count, _ in counts), sum(mean or 0.0 for _, mean in counts)
            measured = [Estimate(float(value), Source.MEASURED) for value in (inputs, size)]
            calls[condition.call] = replace(calls[condition.call], inputs=measured[0], text_bytes=measured[1])
            if isinstance(condition, AiFilter):
                filters.setdefault(frozenset(condition.space.relations[0]), []).append(condition)
    indexes = [condition.call for condition in conditions]
    _remember(indexes, query, inquiries, calls, selectivities=False)  # of what earlier conditions left, as a rule
    samples = samples and not Statistics(tuple(calls), ()).were_asked(indexes)
    for same in filters.values() if samples else ():
        unknown = [f for f in same if calls[f.call].selectivity.source is Source.ASSUMED]
        sizes = [inputs.value for f in same if (inputs := calls[f.call].inputs)]
        rows = sample_rows(min(sizes), min(sizes), inquiries.services.settings)
        if len(unknown) > 1 and rows:
            for condition in unknown:
                sample = cursor.sql(pairs_sample_query(query, condition.space, rows)).to_arrow_table()
                share = float(inquiries.sample_inputs(condition.call, sample).mean())
                calls[condition.call] = replace(calls[condition.call], selectivity=Estimate(share, Source.MEASURED))


def _remember(
    indexes: Sequence[int], query: Query, inquiries: Inquiries, calls: list[CallStatistics], selectivities: bool
) -> None:
    """Fills in how many answers the store has to conditions; and their selectivities, where nothing better tells them."""
    for i in indexes:
        answers, true = inquiries.remembered(i)
        told = selectivities and answers >= _LEAST_ROWS and query.calls[i].kind is Kind.FILTER
        if told and calls[i].selectivity.source is Source.ASSUMED:
            calls[i] = replace(calls[i], selectivity=Estimate(true / answers, Source.REMEMBERED))
        calls[i] = replace(calls[i], known=answers)


def _take_over(indexes: Sequence[int], inquiries: Inquiries, calls: list[CallStatistics]) -> None:
    """Fills in the selectivities of conditions that the sample of another AND or OR was asked."""
    for i in indexes:
        inputs, true = inquiries.look_ups.inputs(i), inquiries.look_ups.true(i)
        if inputs >= _LEAST_ROWS and true is not None and calls[i].selectivity.source is not Source.HINTED:
            calls[i] = replace(calls[i], selectivity=Estimate(true / inputs, Source.MEASURED))


def _look_at_prompts(
    query: Query, inquiries: Inquiries, calls: list[CallStatistics], conjunctions: Sequence[ConjunctionStatistics]
) -> None:
    """Fills in `calls` how the prompts of conditions of one AND, or beside one join, read a text that several of them read: of
    an AI join, its anchor."""
    groups = [
        [i for conjunct in conjunction.conjuncts for i in conjunct.calls]
        for conjunction, known in zip(query.conjunctions, conjunctions, strict=True)
        if known.rows is None or known.rows.value
    ]
    conditions = build(query).conditions
    groups.append([condition.call for condition in conditions])
    joins = {condition.call for condition in conditions if isinstance(condition, AiJoin)}
    for indexes in groups:
        texts = [query.calls[i].arguments[query.calls[i].question.anchor :][:1] for i in indexes]
        read = [(text, inquiries.look_ups.inquiry(i).model) for text, i in zip(texts, indexes, strict=True)]
        for i, text in zip(indexes, read, strict=True):
            if read.count(text) > 1 and _reads_texts(query, i, 2 if i in joins else 1):
                model = inquiries.services.model(text[1])
                calls[i] = replace(calls[i], reading=reading_of(model, query.calls[i].question))


def _reads_texts(query: Query, index: int, number: int) -> bool:
    """Whether a call is about so many texts that are no other call's answer, on every row, and always in the same order."""
    call = query.calls[index]
    nested = any(c is not call and c.start < call.end and call.start < c.end for c in query.calls)
    varies = call.labels_argument or call.group is not None or call.options.symmetric
    return len(call.arguments) == number and not (varies or nested)


def _has_choice(query: Query, conjunction: Conjunction) -> bool:
    """Whether the order of an AND or OR is ours to choose, and its rows can be listed."""
    indexes = [i for conjunct in conjunction.conjuncts for i in conjunct.calls]
    calls = [query.calls[i] for i in indexes]
    inside = any(one.start < other.start and other.end <= one.end for one in calls for other in calls)
    limit = query.limit if not query.written else None  # asks as it goes
    stops = limit is not None and (bool(limit.conjuncts) or not set(limit.calls).isdisjoint(indexes))
    return conjunction.space is not None and not (inside or stops or any(call.options.order for call in calls))


def _count(query: Query, conjunction: Conjunction, cursor: Recorder, calls: list[CallStatistics]) -> int:
    """Counts rows and inputs of an AND. Fills in `calls`, returns the rows."""
    rows, *counts = cursor.execute(counts_query(query, conjunction)).fetchall()[0]
    indexes = [i for conjunct in conjunction.conjuncts for i in conjunct.calls]
    for i, inputs, text_bytes in zip(indexes, counts[::2], counts[1::2], strict=True):
        measured = [Estimate(float(value or 0), Source.MEASURED) for value in (inputs, text_bytes)]
        calls[i] = replace(calls[i], inputs=measured[0], text_bytes=measured[1])
    return int(rows)


def _sampled(
    query: Query,
    conjunction: Conjunction,
    cursor: Recorder,
    inquiries: Inquiries,
    calls: Sequence[CallStatistics],
    known: ConjunctionStatistics,
) -> ConjunctionStatistics:
    """What is known of an AND, and what a sample of its rows tells, where it is worth its price."""
    assert known.rows is not None, "rows are counted first"
    first = min(max(inputs.value for i in c.calls if (inputs := calls[i].inputs)) for c in conjunction.conjuncts)
    rows = sample_rows(known.rows.value, first, inquiries.services.settings)
    if sum(estimate.source is Source.ASSUMED for estimate in known.selectivities) < 2 or not rows:
        return known
    threshold = cursor.execute(threshold_query(query, conjunction, rows)).fetchall()[0][0]
    sql = sample_query(query, conjunction, threshold, inquiries.tags)
    inquiries.sample([i for c in conjunction.conjuncts for i in c.calls], lambda: _drain(cursor, sql))
    truths = tuple(tuple(row[1:]) for row in sorted(cursor.execute(sql).fetchall()))
    selectivities = tuple(
        Estimate(sum(row[i] for row in truths) / len(truths), Source.MEASURED) if e.source is not Source.HINTED else e
        for i, e in enumerate(known.selectivities)
    )
    return replace(known, selectivities=selectivities, truths=truths)


def sample_rows(rows: float, first: float, settings: Settings) -> int:
    """The rows of a sample among so many; 0 where none is worth its price.

    Nor is one taken where a budget will refuse what the statement asks first, at least `first` inputs, whatever the order.
    """
    wanted = settings.sample_rows
    found = min(_MOST_ROWS, max(_LEAST_ROWS, int(rows) // _ROWS_A_SAMPLED)) if wanted is None else wanted
    budget = settings.max_requests
    refused = any(limit is not None and limit < first for limit in (budget.statement, budget.model, budget.run))
    return 0 if refused or rows < _WORTH * found else found


def _drain(cursor: Recorder, sql: str) -> None:
    cursor.execute(sql).fetchall()
