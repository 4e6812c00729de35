"""What stands in the text in place of an AI call: a look-up with all that it waits for, or a test of membership in answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from quail_engine.calls import AiCall, Kind, Task, Turn
from quail_engine.sql.query import Query

LOOK_UPS = {
    Kind.FILTER: "__quail_bool",
    Kind.SCORE: "__quail_double",
    Kind.CLASSIFY: "__quail_text",
    Kind.CLASSIFY_SCORES: "__quail_map",
}
LIST_LOOK_UP = "__quail_list"
Edit = tuple[int, int, str]
"""Start and end of a part of the query's text, and what stands there instead."""

KNOWN = "_known"
"""Behind a tag: the same look-up, which never notes what is missing."""

BESIDE = "_beside"
"""Behind a tag: the same look-up, where it stands inside of another one."""

BEFORE = "_before"
"""Behind a tag: the same look-up, in what another one waits for; the rows that it meets there are met before."""

OPEN = "__quail_open"
"""TRUE where a look-up would answer NULL because nobody has asked yet."""


def stand_ins(query: Query, tags: Sequence[str], tables: Mapping[int, str]) -> dict[int, str | None]:
    return {i: stand_in(query, i, tags, tables) for i in range(len(query.calls))}


def replaced(query: Query, stands: Mapping[int, str | None]) -> list[Edit]:
    return [(query.calls[i].start, query.calls[i].end, text) for i, text in stands.items() if text is not None]


def stand_in(query: Query, index: int, tags: Sequence[str], tables: Mapping[int, str]) -> str | None:
    """What replaces a call; None for one that lies inside another's argument, whose text is spliced with it."""
    if is_inside_another(query, index):
        return None
    return membership(query.calls[index], tables[index]) if index in tables else look_up(query, index, tags, tables)


def is_inside_another(query: Query, index: int) -> bool:
    call = query.calls[index]
    return any(other.start < call.start and call.end <= other.end for other in query.calls)


def look_up(query: Query, index: int, tags: Sequence[str], tables: Mapping[int, str] = MappingProxyType({})) -> str:
    inputs = _look_up_inputs(query, index, tags, tables)
    return _compared(query.calls[index], look_up_text(function_of(query, index), tags[index], inputs))


def _compared(call: AiCall, look_up: str) -> str:
    """A look-up as the value of its call: where it chooses a label, whether that is the row's own."""
    return f"({look_up} = {varchar(call.chosen)})" if call.chosen else look_up


def open_look_up(query: Query, index: int, tags: Sequence[str]) -> str:
    return look_up_text(OPEN, tags[index], _look_up_inputs(query, index, tags, {}))


def function_of(query: Query, index: int) -> str:
    call = query.calls[index]
    return LIST_LOOK_UP if call.question.task is Task.TAG else LOOK_UPS[call.kind]


def look_up_text(function: str, tag: str, arguments: Sequence[str]) -> str:
    return f"{function}('{tag}', {', '.join(arguments)})"


def _look_up_inputs(query: Query, index: int, tags: Sequence[str], tables: Mapping[int, str]) -> list[str]:
    call = query.calls[index]
    conditions = [call.guard] if call.guard else []
    conditions += [membership(query.calls[i], tables[i]) for i in call.after if i in tables]
    for reached in call.reached:
        inside = [i for i, c in enumerate(query.calls) if reached.start <= c.start and c.end <= reached.end]
        condition = spliced(query, (reached.start, reached.end), {i: stand_in(query, i, tags, tables) for i in inside})
        conditions.append(f"({reached.before}{condition}{reached.after}) IS TRUE")
    undecided = [f"(({_as_known(query, (turn.start, turn.end), tags)}) {turn.decides}) IS NOT TRUE" for turn in call.unless] + (
        [_in_turn(query, call.turns, tags, tables)] if call.turns else []
    )
    if call.unless or any(turn.asks_on for turn in call.turns):
        # What is known is shown, lest of two TRUE operands of an OR each made the other needless.
        conditions.append(f"({_known(query, index, tags)} IS NOT NULL OR ({' AND '.join(undecided)}))")
    else:
        conditions += undecided
    guard = f"({' AND '.join(conditions)})" if conditions else "TRUE"
    group = [f"CAST({column} AS VARCHAR)" for column in call.group or ()]
    beside = [_beside(query, i, tags, tables) for i in call.beside]
    return [guard, *call.depends, *beside, *group, *inputs_of(query, index, tags)]


def _in_turn(query: Query, turns: Sequence[Turn], tags: Sequence[str], tables: Mapping[int, str]) -> str:
    """Whether nothing that comes before decides, one after the other: CASE looks at none of it behind what does.

    So the look-ups in it need no guard for what comes before them, but for that inside of the same operand. What notes nothing
    stands in one branch: all of it sees the same rows, and finds them sooner.
    """
    branches: list[str] = []
    notes = True  # whether a look-up of the last branch may note something, and so must not be seen behind another one
    for turn in turns:
        part = turn.start, turn.end
        alone = replace(query, calls=tuple(_within(call, turn) for call in query.calls))
        inside = [i for i, c in enumerate(query.calls) if turn.start <= c.start and c.end <= turn.end]
        if turn.asks_on:
            operand = _as_known(query, part, tags)
        else:
            # DuckDB stops at what is not TRUE, and may meet what comes before here alone; else it meets that where it stands.
            own = [_elsewhere(tag, BEFORE) for tag in tags] if turn.waits else tags
            operand = spliced(alone, part, {i: stand_in(alone, i, own, tables) for i in inside})
        waiting = [open_look_up(alone, i, tags) for i in inside if turn.waits]
        decided = " OR ".join([f"({operand}) {turn.decides}", *waiting])
        before, notes = notes, not turn.asks_on or any(alone.calls[i].turns for i in inside)
        if before or notes:
            branches.append(decided)
        else:
            branches[-1] += f" OR {decided}"
    return f"CASE {' '.join(f'WHEN {decided} THEN FALSE' for decided in branches)} ELSE TRUE END"


def _within(call: AiCall, turn: Turn) -> AiCall:
    """A call as it is looked up among the calls of one operand."""
    turns = tuple(t for t in call.turns if turn.start <= t.start and t.end <= turn.end)
    # Of an OR, what is needless has been decided elsewhere, and may as well be taken for open.
    return replace(call, turns=turns, unless=() if turn.asks_on else call.unless, beside=())


def _beside(query: Query, index: int, tags: Sequence[str], tables: Mapping[int, str]) -> str:
    """A look-up inside of another one."""
    alone = replace(query, calls=tuple(replace(call, beside=()) for call in query.calls))
    return look_up_text(function_of(query, index), _elsewhere(tags[index], BESIDE), _look_up_inputs(alone, index, tags, tables))


def _elsewhere(tag: str, place: str) -> str:
    """The name of a look-up at another place than its call's, from that or from its name in what another one waits for."""
    return tag.removesuffix(BEFORE) + place


def _as_known(query: Query, part: tuple[int, int], tags: Sequence[str]) -> str:
    """A condition as far as it is known."""
    inside = [i for i, call in enumerate(query.calls) if part[0] <= call.start and call.end <= part[1]]
    return spliced(query, part, {i: _known(query, i, tags) for i in inside if not is_inside_another(query, i)})


def _known(query: Query, index: int, tags: Sequence[str]) -> str:
    """What is known of a call's answer, whatever its turn."""
    guard = f"({query.calls[index].guard})" if query.calls[index].guard else "TRUE"
    known = look_up_text(function_of(query, index), _elsewhere(tags[index], KNOWN), [guard, *inputs_of(query, index, tags)])
    return _compared(query.calls[index], known)


def inputs_of(query: Query, index: int, tags: Sequence[str]) -> list[str]:
    """The texts that a call is about, as SQL."""
    call = query.calls[index]
    inputs = [varchar(_with_inner(query, index, argument, tags)) for argument in call.arguments]
    return [*inputs, f"CAST(to_json({call.labels_argument}) AS VARCHAR)"] if call.labels_argument else inputs


def _with_inner(query: Query, index: int, argument: str, tags: Sequence[str]) -> str:
    """An argument's text with the calls inside it replaced."""
    outer = query.calls[index]
    inner = [i for i, c in enumerate(query.calls) if outer.start < c.start and c.end <= outer.end]
    return with_look_ups(query, argument, inner, tags)


def with_look_ups(query: Query, text: str, calls: Sequence[int], tags: Sequence[str]) -> str:
    """A copied text with every occurrence of these calls replaced, outer ones before those inside them."""
    for i in sorted(calls, key=lambda i: query.calls[i].start - query.calls[i].end):
        text = text.replace(query.text[query.calls[i].start : query.calls[i].end], look_up(query, i, tags))
    return text


def membership(call: AiCall, table: str) -> str:
    values = ", ".join(map(varchar, call.arguments))
    columns = ", ".join(f"a{i}" for i in range(len(call.arguments)))
    return f"(({values}) IN (SELECT ({columns}) FROM {table}))"


def varchar(argument: str) -> str:
    return f"CAST({argument} AS VARCHAR)"


def spliced(query: Query, part: tuple[int, int], stands: Mapping[int, str | None]) -> str:
    """A part of the query's text with calls replaced; every other character as it was."""
    return edited(query.text, part, replaced(query, stands))


def edited(text: str, part: tuple[int, int], edits: Sequence[Edit]) -> str:
    """A part of a text with spans replaced, and texts inserted where a span is empty."""
    pieces, at = [], part[0]
    for start, end, replacement in sorted(edits, key=lambda edit: edit[:2]):
        if part[0] <= start and end <= part[1]:
            pieces += [text[at:start], replacement]
            at = end
    return "".join([*pieces, text[at : part[1]]])
