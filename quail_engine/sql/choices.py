"""`{'rewrite': 'classify'}`: which text of the other side it is, asked once a text, instead of yes or no for each pair.

The texts of the side that is not the anchor are the labels of a choice, and a pair is TRUE where its own text is the one that
was chosen. They are those of the relation as it stands in FROM, whatever other conditions say of its rows, so that a row's
question does not depend on its pairs. What is asked is another question; so this happens only where the option says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import exp

from quail_engine.calls import AiCall, Label
from quail_engine.sql.dialect import AiFunction, QuailDialect, has_span, span
from quail_engine.sql.extract import label_of, labels_problem
from quail_engine.sql.pairs import PairSpace, is_conjunct, readable_ctes
from quail_engine.sql.scopes import Place, holds_ai, name_of, place_of, relations, table_of
from quail_engine.sql.source import Source, quoted

MOST_LABELS = 255
_INSTEAD = "AI_CLASSIFY over a list of labels, compared with the column"


@dataclass(frozen=True)
class Choice:
    """Where the labels of a rewritten call come from."""

    texts: str  # SQL of the different ones, no more than one too many
    column: str  # SQL of the text whose values they are
    span: tuple[int, int]  # of the call

    def labels(self, texts_of: Callable[[str], Sequence[str]], source: Source) -> tuple[Label, ...]:
        """The labels; none where the relation has no row. Raises SqlError where they are no choice."""
        labels = tuple(label_of(text) for text in texts_of(self.texts))
        problem = labels_problem(labels) if labels else ""
        if len(labels) > MOST_LABELS:
            problem = f"{self.column} has more than {MOST_LABELS} different texts, which is no short list to choose from."
        if problem:
            instead = "leave the option out, or join a table of the texts that may be chosen"
            raise source.error(f"This question cannot be rewritten as a choice. {problem}", *self.span, instead)
        return labels


def choice_of(node: AiFunction, call: AiCall, place: Place, stops_early: bool, source: Source) -> Choice | None:
    """The choice that a call is rewritten to; None for one that is not. Raises SqlError for one that cannot be."""
    if not call.chosen:
        return None

    def refuse(why: str, instead: str = _INSTEAD) -> Exception:
        return source.error_at(node, f"Only the question of a join can be rewritten as a choice, and {why}.", instead)

    sides = [{table_of(c) for c in _parsed(text).find_all(exp.Column)} for text in (*call.arguments, call.chosen)]
    if any(len(side) != 1 or "" in side for side in sides) or sides[0] == sides[1]:
        raise refuse("each of its two arguments must name the columns of one side", "a.text and b.term, say")
    if stops_early:
        raise refuse("this one is asked until one is TRUE", "a join in place of EXISTS, IN, SEMI or ANTI")
    select, name = place.scope, next(iter(sides[1]))
    found = [r for r in relations(select, place.join) if name_of(r) == name] if isinstance(select, exp.Select) else []
    ctes = readable_ctes(select) if isinstance(select, exp.Select) else None
    relation = _relation(found[0], source) if len(found) == 1 else None
    if relation is None or ctes is None:
        raise refuse(f"{name} is no table or CTE of this FROM that can be read by itself", f"a table or CTE for {name}")
    with_ = f"WITH {', '.join(map(source.sql, ctes))} " if ctes else ""
    text = f"SELECT DISTINCT CAST({call.chosen} AS VARCHAR) AS label FROM {relation}"
    texts = f"{with_}SELECT label FROM ({text}) WHERE trim(label) <> '' ORDER BY label LIMIT {MOST_LABELS + 1}"
    return Choice(texts, call.chosen, span(node))


def after_filters(call: AiCall, node: AiFunction, filters: Iterable[tuple[AiFunction, PairSpace]]) -> AiCall:
    """A rewritten call of inner joins, which comes after the conditions on one relation of theirs."""
    place = place_of(node)
    if not call.chosen or not is_conjunct(node, place) or not isinstance(place.scope, exp.Select):
        return call
    names = {name_of(relation) for relation in relations(place.scope, place.join)}
    spaces = [space for found, space in filters if place_of(found).scope is place.scope and space.outer is None]
    one_sided = [space for space in spaces if space.one_sided and names.issuperset(*space.relations)]
    return replace(call, after=tuple(space.call for space in one_sided))


def _relation(node: exp.Expr, source: Source) -> str | None:
    """SQL of a relation alone; None where it may read others, or asks."""
    if holds_ai(node) or node.args.get("joins") or node.find(exp.TableSample):
        return None
    if isinstance(node, exp.Table):
        return None if node.find(exp.Column, exp.Query) else node.sql(dialect="duckdb")
    inner = node.this if isinstance(node, exp.Subquery) and not node.alias_column_names else None
    return f"({source.sql(inner)}) AS {quoted(node.alias)}" if isinstance(inner, exp.Query) and has_span(inner) else None


def _parsed(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, dialect=QuailDialect)
