"""Draws the parts of a query: calls, expressions over them, and FROM clauses with every kind of join."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bound import Rows, Site
from expressions import Asks, Call, Cheap, Expression, Node
from hypothesis import strategies as st

MOST_CALLS = 4

OUTER_AND_INNER = ("inner", "left", "right", "full", "semi", "anti")
JOINS = ("none", *OUTER_AND_INNER, "cross", "asof")

_JUDGE = ("Does it mention ''late''? {0}", "hashed {0}", "Mentions ''refund'' {0}", "Is ''brown'' in {0}?")
_PAIR = ("{0} shares a word with {1}", "hashed {0} {1}", "is {1} like {0}?")
_LABELS = ("['late', 'refund', 'brown']", "['x', 'y']")


@dataclass(frozen=True)
class Scope:
    """What a clause sees: a FROM clause with the clauses after it so far, and what its expressions can read."""

    source: str
    texts: tuple[str, ...]  # SQL of text values
    cheap: tuple[str, ...]  # SQL of conditions without calls
    keys: tuple[str, ...]  # columns that order and identify its rows
    key: str = "t.k"  # the column that joins
    joined: tuple[tuple[str, str], ...] = ()  # how its tables are joined, in order: kind, and text of the join
    sites: tuple[Site, ...] = ()  # the calls in it

    @property
    def shown(self) -> str:
        return ", ".join(self.keys)

    @property
    def join_keys(self) -> str:
        """The columns that join its tables, as a select list."""
        return ", ".join((self.key, *(f"{key.split('.')[0]}.k" for key in self.keys[1:])))

    @property
    def joins(self) -> tuple[str, ...]:
        return tuple(kind for kind, _ in self.joined)

    def site(self, position: str, expression: Expression, drops: bool = False) -> Site:
        return Site(position, expression, Rows(self.source, joined=self.joined), self.joins or ("none",), drops)


class Writer:
    """Writes a query of one to four calls. What has to ask is reserved its share before the rest is drawn.

    Everything is drawn by Hypothesis, so that a query that fails shrinks: what stands first in a choice is the simplest.
    """

    def __init__(self, draw: st.DrawFn, reserved: int, join: str | None = None) -> None:
        """`join` is how the first FROM clause joins; drawn by default."""
        self._draw = draw
        self._left = max(self.number(reserved, MOST_CALLS) for _ in range(2))
        self._reserved = reserved
        self._join = join

    def ask(self, scope: Scope) -> Expression:
        """An expression with at least one call; every query calls this as often as it has reserved."""
        self._reserved -= 1
        return self._expression(scope, self._left - self._reserved)

    def maybe(self, scope: Scope) -> Expression | None:
        """An expression with calls, without calls, or none."""
        room = self._left - self._reserved
        kind = self.one("none", "none", "cheap", "asks", "asks")
        if kind == "none" or (kind == "asks" and room < 1):
            return None
        return self._cheap(scope) if kind == "cheap" else self._expression(scope, room)

    def one(self, *texts: str) -> str:
        return self._draw(st.sampled_from(texts))

    def join(self, *kinds: str) -> str:
        """The kind of a join: of the query's first, what is wanted; of others, what is drawn."""
        kind, self._join = self._join or self.one(*kinds), None
        return kind

    def number(self, least: int, most: int) -> int:
        return self._draw(st.integers(least, most))

    def chance(self, of: int) -> bool:
        return self.number(1, of) == of

    def _expression(self, scope: Scope, room: int) -> Expression:
        calls = max(self.number(1, min(4, room)) for _ in range(2))
        leaves: list[Expression] = []
        while calls > 0:
            nested = calls > 1 and self.chance(4)
            leaves.append(self._asking(scope, nested))
            calls -= 1 + nested
            self._left -= 1 + nested
        leaves += [self._cheap(scope) for _ in range(self.number(0, 2))]
        return self._combine(self._draw(st.permutations(leaves)))

    def _cheap(self, scope: Scope) -> Cheap:
        return Cheap(self.one(*scope.cheap))

    def _combine(self, leaves: list[Expression]) -> Expression:
        """A tree over the leaves, in their order."""
        if len(leaves) == 1:
            wrapper = self.one("", "", "", "not", "is null")
            return Node(wrapper, (leaves[0],)) if wrapper else leaves[0]
        operators = ["and", "and", "or", "case", "if", "coalesce", "nullif"]
        operator = self.one(*operators)
        if operator == "case":
            parts = leaves if len(leaves) % 2 else [*leaves, Cheap("false")]
            return Node("case", tuple(parts))
        if operator == "if":
            third = self._combine(leaves[2:]) if len(leaves) > 2 else Cheap("null")
            return Node("if", (leaves[0], leaves[1], third))
        cut = self.number(1, len(leaves) - 1)
        node = Node(operator, (self._combine(leaves[:cut]), self._combine(leaves[cut:])))
        return Node("not", (node,)) if self.chance(6) else node

    def _asking(self, scope: Scope, nested: bool) -> Asks:
        text = self.one(*scope.texts)
        if nested:
            return self._judge(self._classify(text)) if self.chance(2) else Asks(self._classify(self._classify(text)), " = 'x'")
        kind = self.one("judge", "judge", "judge", "judge", "pair", "pair", "pair", "classify", "classify", "constant")
        if kind == "pair" and len(scope.texts) > 1:
            return self._pair(scope)
        if kind == "classify":
            return Asks(self._classify(text), self.one(" = 'late'", " = 'x'", " is not null"))
        return self._constant() if kind == "constant" else self._judge(text)

    def _judge(self, document: str | Call) -> Asks:
        form = self.one("prompt", "prompt", "short", "score", "threshold", "bare")
        if form == "bare" and not str(document).startswith(
            "'"
        ):  # a literal alone is a constant prompt to us, a document to the oracle
            return Asks(Call(("judge", "{0}"), "AI_FILTER(", (document,), ")"))
        template = self.one(*_JUDGE)
        question = ("judge", template)
        if form == "short" and template.endswith(" {0}"):
            return Asks(Call(question, f"AI_FILTER('{template.removesuffix(' {0}')}', ", (document,), ")"))
        name, after, test = "AI_FILTER", "))", ""
        if form == "score":
            name, test = "AI_SCORE", self.one(" > 0.5", " <= 0.7")
        elif form == "threshold":
            after = "), {'threshold': 0.3})"
        return Asks(Call(question, f"{name}(PROMPT('{template}', ", (document,), after), test)

    def _pair(self, scope: Scope) -> Asks:
        first = self.one(*scope.texts)
        second = self.one(*(text for text in scope.texts if text != first))
        template = self.one(*_PAIR)
        sides = {text in T.texts for text in (first, second)}
        name = "AI_JOIN" if len(sides) == 2 and self.chance(2) else "AI_FILTER"
        return Asks(Call(("judge", template), f"{name}(PROMPT('{template}', ", (first, second), "))"))

    def _classify(self, document: str | Call) -> Call:
        labels = self.one(*_LABELS)
        return Call(("classify", "{0}", labels), "AI_CLASSIFY(", (document,), f", {labels})")

    def _constant(self) -> Asks:
        template = self.one("Is the sky blue?", "Is ''one'' a number?")
        return Asks(Call(("judge", template), f"AI_FILTER(PROMPT('{template}'", (), "))"))

    # FROM clauses

    def alone(self) -> Scope:
        """Table t: itself, or behind a view or a subquery."""
        return replace(T, source=f"from {self.one('t', 't', 't', 'v t', '(select * from t) t')}")

    def scope(self, base: Scope | None = None, names: tuple[str, str] = ("u", "w"), asks_in_on: bool = False) -> Scope:
        """One table (t by default) alone or joined with u, and sometimes with u again. `asks_in_on`: the first ON asks."""
        first = base or self.alone()
        kind = self.join(*(OUTER_AND_INNER if asks_in_on else JOINS))
        scope = first if kind == "none" else self._joined(first, kind, names[0], asks_in_on)
        if kind not in ("none", "cross") and self.chance(5):
            scope = self._joined(scope, self.one(*JOINS[1:]), names[1], False)
        return scope

    def filtered(self, scope: Scope | None = None) -> Scope:
        """A scope whose WHERE, if it has one, is done."""
        scope = scope or self.scope()
        where = self.maybe(scope)
        if where is None:
            return scope
        return replace(
            scope, source=f"{scope.source} where {where.sql}", sites=(*scope.sites, scope.site("where", where, True))
        )

    def _joined(self, scope: Scope, kind: str, name: str, must: bool) -> Scope:
        table = name if name == "u" else f"u {name}"
        both = replace(
            scope,
            source=f"{scope.source} cross join {table}",
            texts=(*scope.texts, f"{name}.c"),
            cheap=(f"{name}.uid > 2", f"{name}.c is null", *scope.cheap),
            keys=(*scope.keys, f"{name}.uid"),
            joined=(*scope.joined, (kind, f" cross join {table}")),
        )
        if kind == "cross":
            return both
        sites = scope.sites
        if kind == "asof":  # its ON holds keys alone
            on = f"{scope.key} = {name}.k and {scope.keys[0]} >= {name}.uid"
            join = f" asof {self.one('', 'left ')}join {table} on {on}"
        else:
            condition, asked = self._on(both, must, f"{scope.key} = {name}.k", f"{scope.keys[0]} >= {name}.uid")
            sites = (*sites, both.site("on", condition, True)) if asked else sites
            join = f" {'' if kind == 'inner' else f'{kind} '}join {table} on {condition.sql}"
        seen = scope if kind in ("semi", "anti") else both
        return replace(seen, source=f"{scope.source}{join}", joined=(*scope.joined, (kind, join)), sites=sites)

    def _on(self, pairs: Scope, must: bool, *keys: str) -> tuple[Expression, bool]:
        """A condition of a join, and whether it asks or may hold more than keys."""
        # DuckDB itself fails on some subqueries in the ON of an outer or semi join.
        plain = replace(pairs, cheap=tuple(c for c in pairs.cheap if c not in SUBQUERIES))
        asked = self.ask(plain) if must else self.maybe(plain)
        equality = Cheap(self.one(keys[0], *keys))
        parts = [part for part in (None if self.chance(4) else equality, asked) if part] or [equality]
        return (parts[0] if len(parts) == 1 else Node("and", tuple(parts))), asked is not None

    def grouped(self) -> Scope:
        """A scope grouped by t.k."""
        scope = self.filtered()
        return replace(
            scope,
            source=f"{scope.source} group by t.k",
            texts=("max(t.a)", "min(t.b)", "max(t.k)::varchar"),
            cheap=("count(*) > 1", "min(t.id) < 4", "t.k is null", "t.k = 1", "max(t.a) is not null"),
            keys=("t.k",),
        )


PLAIN = ("t.id < 5", "t.k = 1", "t.k is null", "(t.id * 7) % 11 = 3", "t.a is not null", "null", "t.b = 'x'")
SUBQUERIES = ("t.k in (select x.k from u x)", "exists (select 1 from u x where x.k = t.k)")

T = Scope("from t", ("t.a", "t.b", "left(t.a, 4)", "t.d"), (*PLAIN, *SUBQUERIES), ("t.id",))


def table_u(name: str) -> Scope:
    """Table u under a name, for inner queries."""
    return Scope(
        f"from u {name}",
        (f"{name}.c",),
        (f"{name}.uid < 4", f"{name}.k = 1", f"{name}.c is not null", "null"),
        (f"{name}.uid",),
        f"{name}.k",
    )
