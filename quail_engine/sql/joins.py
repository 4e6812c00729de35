"""The relations of inner joins, and which of them must be read together.

Relations that no condition links are each other's cross product. Until an AI condition between two relations is answered
nothing else may link them, so listing the inputs of one would read every pair; here each such part is read by itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp

from quail_engine.sql.dialect import AiFunction, has_span, span
from quail_engine.sql.scopes import holds_ai, is_inner, kind_of, name_of, operands, table_of
from quail_engine.sql.source import Source

Span = tuple[int, int]

_FROM = re.compile(r"(?is)from\b(.*)\Z")
_JOINED = re.compile(r"(?is)(?:inner\s+)?join\b(.*)\bon\s*\Z")
_CROSSED = re.compile(r"(?is)(?:cross\s+join\b|,)(.*)\Z")


@dataclass(frozen=True)
class Relation:
    name: str  # in lower case
    span: Span


@dataclass(frozen=True)
class Condition:
    """A conjunct of ON or WHERE."""

    names: frozenset[str]  # of the relations that it reads
    span: Span
    call: int | None  # the AI call that it is; None: it asks nothing


@dataclass(frozen=True)
class Joins:
    """A FROM whose relations could as well stand in any order, with all their conditions in WHERE. Spans are of the query."""

    relations: tuple[Relation, ...]  # in the order of the text
    conditions: tuple[Condition, ...]

    def parts(self, answered: Collection[int]) -> list[Joins]:
        """The parts that no condition links, in the order of their first relations. AI conditions count once `answered`.

        A condition that reads no relation is in every part.
        """
        counting = [c for c in self.conditions if c.call is None or c.call in answered]
        groups: list[set[str]] = [{relation.name} for relation in self.relations]
        for condition in counting:
            linked = [group for group in groups if group & condition.names]
            if len(linked) > 1:
                groups = [group for group in groups if group not in linked]
                groups.append(set().union(*linked))
        places = {relation.name: place for place, relation in enumerate(self.relations)}
        groups.sort(key=lambda group: min(places[name] for name in group))
        return [
            Joins(
                tuple(relation for relation in self.relations if relation.name in group),
                tuple(condition for condition in counting if condition.names <= group),
            )
            for group in groups
        ]


def find_joins(select: exp.Select, nodes: Sequence[AiFunction], source: Source) -> Joins | None:
    """The joins of a SELECT; None where its relations depend on each other or a condition does not say whose columns it reads.

    A conjunct that holds an AI call without being one is left out, as if it were TRUE.
    """
    from_, joins = select.args.get("from_"), select.args.get("joins") or ()
    if from_ is None or not has_span(from_) or any(not _is_plain(join) for join in joins):
        return None
    start, end = span(from_)  # of all joins, where FROM stands first
    found = [_relation(from_.this, _FROM, (start, min([end, *(span(join)[0] for join in joins)])), source)]
    for join in joins:
        on = join.args.get("on")
        start, end = span(join)
        found.append(_relation(join.this, _JOINED if on is not None else _CROSSED, (start, span(on)[0] if on else end), source))
    relations = tuple(relation for relation in found if relation is not None)
    names = {relation.name for relation in relations}
    if len(relations) < len(found) or len(names) < len(found):
        return None
    conditions = _conditions(select, nodes, names)
    return None if conditions is None else Joins(relations, conditions)


def _is_plain(join: exp.Join) -> bool:
    on = join.args.get("on")
    if not has_span(join) or join.args.get("using") or join.args.get("method") or join.args.get("side"):
        return False
    return is_inner(join) and on is not None and has_span(on) if on is not None else kind_of(join) in ("", "CROSS")


def _relation(node: exp.Expr, around: re.Pattern[str], part: Span, source: Source) -> Relation | None:
    """A table, or a table function of constants: what else stands in FROM may read the relations before it."""
    words = around.match(source.text, *part)
    if words is None or not isinstance(node, exp.Table) or node.find(exp.Column, exp.Query, exp.TableSample):
        return None
    return Relation(name_of(node), words.span(1)) if node.alias_or_name and not node.args.get("joins") else None


def _conditions(select: exp.Select, nodes: Sequence[AiFunction], names: Collection[str]) -> tuple[Condition, ...] | None:
    clauses = [join.args["on"] for join in select.args.get("joins") or () if join.args.get("on") is not None]
    clauses += [select.args["where"].this] if select.args.get("where") is not None else []
    found = []
    for part in (part for clause in clauses for part in operands(clause, exp.And)):
        read = frozenset(table_of(column) for column in part.find_all(exp.Column))
        if not has_span(part) or not read <= set(names) or part.find(exp.Query, exp.Star, exp.Columns):
            return None
        if isinstance(part, AiFunction):
            found.append(Condition(read, span(part), next(i for i, node in enumerate(nodes) if node is part)))
        elif not holds_ai(part):
            found.append(Condition(read, span(part), None))
    return tuple(found)
