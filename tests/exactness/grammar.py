"""Draws the parts of a query: calls, expressions over them, and FROM clauses with every kind of join."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from bound import Rows, Site
from expressions import Asks, Call, Cheap, Expression, Node

MOST_CALLS = 4

JOINS = ("none", "inner", "left", "right", "full", "semi", "anti", "cross")

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
    join: str = "none"
    sites: tuple[Site, ...] = ()  # the calls in it

    @property
    def shown(self) -> str:
        return ", ".join(self.keys)

    def site(self, position: str, expression: Expression, drops: bool = False) -> Site:
        return Site(position, expression, Rows(self.source), self.join, drops)


class Writer:
    """Writes a query of one to four calls. What has to ask is reserved its share before the rest is drawn."""

    def __init__(self, random: Random, reserved: int) -> None:
        self._random = random
        self._left = random.randint(max(2, reserved), MOST_CALLS) if random.randrange(6) else reserved
        self._reserved = reserved

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
        return self._random.choice(texts)

    def _chance(self, of: int) -> bool:
        return self._random.randrange(of) == 0

    def _expression(self, scope: Scope, room: int) -> Expression:
        calls = max(self._random.randint(1, min(4, room)) for _ in range(2))
        leaves: list[Expression] = []
        while calls > 0:
            nested = calls > 1 and self._chance(4)
            leaves.append(self._asking(scope, nested))
            calls -= 1 + nested
            self._left -= 1 + nested
        leaves += [self._cheap(scope) for _ in range(self._random.randint(0, 2))]
        self._random.shuffle(leaves)
        return self._combine(leaves)

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
        cut = self._random.randint(1, len(leaves) - 1)
        node = Node(operator, (self._combine(leaves[:cut]), self._combine(leaves[cut:])))
        return Node("not", (node,)) if self._chance(6) else node

    def _asking(self, scope: Scope, nested: bool) -> Asks:
        text = self.one(*scope.texts)
        if nested:
            return (
                self._judge(self._classify(text)) if self._chance(2) else Asks(self._classify(self._classify(text)), " = 'x'")
            )
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
        sides = {text in scope.texts[:3] for text in (first, second)}  # t's texts stand first
        name = "AI_JOIN" if len(sides) == 2 and self._chance(2) else "AI_FILTER"
        return Asks(Call(("judge", template), f"{name}(PROMPT('{template}', ", (first, second), "))"))

    def _classify(self, document: str | Call) -> Call:
        labels = self.one(*_LABELS)
        return Call(("classify", "{0}", labels), "AI_CLASSIFY(", (document,), f", {labels})")

    def _constant(self) -> Asks:
        template = self.one("Is the sky blue?", "Is ''one'' a number?")
        return Asks(Call(("judge", template), f"AI_FILTER(PROMPT('{template}'", (), "))"))

    # FROM clauses

    def scope(self, asks_in_on: bool = False) -> Scope:
        """Table t alone or joined with u, and sometimes with u again, as w. `asks_in_on`: the first ON asks."""
        kind = self.one(*JOINS[1:-1]) if asks_in_on else self.one(*JOINS)
        scope = T if kind == "none" else self._joined(T, kind, "u", asks_in_on)
        if kind not in ("none", "cross") and self._chance(5):
            scope = self._joined(scope, self.one("inner", "left", "right", "full", "semi", "anti"), "w", False)
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
            join=kind,
        )
        if kind == "cross":
            return both
        # DuckDB itself fails on some subqueries in the ON of an outer or semi join.
        plain = replace(both, cheap=tuple(c for c in both.cheap if c not in SUBQUERIES))
        asked = self.ask(plain) if must else self.maybe(plain)
        equality = Cheap(self.one(f"t.k = {name}.k", f"t.k = {name}.k", f"t.id >= {name}.uid"))
        condition = self._on([part for part in (equality if not self._chance(4) else None, asked) if part] or [equality])
        sites = (*scope.sites, *([both.site("on", condition, True)] if asked is not None else []))
        word = {"inner": "join"}.get(kind, f"{kind} join")
        seen = scope if kind in ("semi", "anti") else both
        return replace(seen, source=f"{scope.source} {word} {table} on {condition.sql}", join=kind, sites=sites)

    def _on(self, parts: list[Expression]) -> Expression:
        return parts[0] if len(parts) == 1 else Node("and", tuple(parts))

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

T = Scope("from t", ("t.a", "t.b", "left(t.a, 4)"), (*PLAIN, *SUBQUERIES), ("t.id",))


def table_u(name: str) -> Scope:
    """Table u under a name, for inner queries."""
    return Scope(
        f"from u {name}",
        (f"{name}.c",),
        (f"{name}.uid < 4", f"{name}.k = 1", f"{name}.c is not null", "null"),
        (f"{name}.uid",),
    )
