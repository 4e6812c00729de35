"""Snowflake's VARIANT as JSON: a text in it counts by its value, and LATERAL FLATTEN is a join with json_each.

DuckDB casts the JSON `"billing"` to a text with its quotes, and refuses to compare it with 'billing'; Snowflake gives and
compares the bare text. What is known to be JSON is read with `->>`; a column that may be is asked for its type.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlglot
from sqlglot import exp

from quail_engine.sql.dialects.vendor import Text, VendorCall, function

_Test = Callable[[exp.Expr], bool]
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Like, exp.ILike, exp.NullSafeEQ)
_FLATTEN = """
SELECT NULL AS seq,
  CASE WHEN NOT fullkey LIKE '$[%' THEN "key" END AS "key",
  LTRIM(SUBSTRING(fullkey, 2), '.') AS path,
  CASE WHEN fullkey LIKE '$[%' THEN CAST("key" AS BIGINT) END AS index,
  "value"
FROM JSON_EACH(TO_JSON(quail_input))
"""


def text_by_value(tree: exp.Expr, returns_object: Callable[[exp.Expr], bool]) -> None:
    """Rewrites where a VARIANT is taken for a text, a number or a list."""
    _arrays(tree)
    names = _flattened(tree) | _aliases(tree, returns_object)

    def variant(node: exp.Expr) -> bool:
        """Whether a node is surely JSON."""
        node = node.unnest()
        return isinstance(node, (exp.JSONExtract, exp.ParseJSON)) or _extracts(node) or returns_object(node)

    def maybe(node: exp.Expr) -> bool:
        return (isinstance(node, exp.Column) and node.name.lower() in names) or _element(node)

    _brackets(tree, variant)
    _casts(tree, variant)
    _comparisons(tree, variant, maybe)
    for node in list(tree.find_all(exp.DPipe, exp.Concat, VendorCall)):
        _texts_in(node, variant, maybe)
    _lists(tree, lambda node: variant(node) or maybe(node))


def _arrays(tree: exp.Expr) -> None:
    """ARRAY and OBJECT are JSON too, of a list or a struct that is none yet as of a VARIANT."""
    for cast in list(tree.find_all(exp.Cast)):
        if cast.to.is_type("array", "object") and not cast.to.expressions:
            cast.replace(function("to_json", cast.this.copy()))


def _brackets(tree: exp.Expr, variant: _Test) -> None:
    """`object['key']` and `array[0]` by a path."""
    for bracket in reversed(list(tree.find_all(exp.Bracket))):  # inner ones first
        if variant(bracket.this) and len(bracket.expressions) == 1 and isinstance(bracket.expressions[0], exp.Literal):
            key = bracket.expressions[0]
            path = f'$."{key.name}"' if key.is_string else f"$[{key.name}]"
            bracket.replace(function("json_extract", bracket.this.copy(), exp.Literal.string(path)))
        elif _element(bracket) and bracket.expressions[0].is_int:
            # DuckDB counts the elements of JSON from 0 and those of a list from 1, and only DuckDB knows which it is.
            at = bracket.expressions[0]
            number = exp.Case(ifs=[exp.If(this=_is_json(bracket.this), true=at)], default=at + 1)
            bracket.replace(exp.Bracket(this=bracket.this.copy(), expressions=[number], offset=1))


def _element(node: exp.Expr) -> bool:
    """Whether a node is an element of a column, or of an element of one."""
    inside = isinstance(node, exp.Bracket) and len(node.expressions) == 1
    return inside and (isinstance(node.this, exp.Column) or _element(node.this))


def _casts(tree: exp.Expr, variant: _Test) -> None:
    for cast in list(tree.find_all(exp.Cast)):
        if not cast.to.is_type(*exp.DataType.TEXT_TYPES):
            continue
        if variant(cast.this):
            cast.replace(_bare(cast.this))
        elif isinstance(cast.this, exp.Column) or _element(cast.this):
            cast.replace(_by_type(cast.this))


def _comparisons(tree: exp.Expr, variant: _Test, maybe: _Test) -> None:
    """A VARIANT beside a number counts as a number, beside anything else as a text."""
    for node in list(tree.find_all(*_COMPARISONS)):
        sides = [node.this, *([node.expression] if "expression" in node.arg_types and node.expression else node.expressions)]
        for number, side in enumerate(sides):
            others = sides[1:] if number == 0 else sides[:1]
            if not isinstance(side, exp.Expr) or not (variant(side) or maybe(side)):
                continue
            if any(isinstance(other, exp.Literal) and not other.is_string for other in others):
                side.replace(exp.cast(side.copy(), "double"))
            elif not any(isinstance(other, exp.Boolean) for other in others):
                side.replace(_by_type(side) if maybe(side) else _bare(side))


def _texts_in(node: exp.Expr, variant: _Test, maybe: _Test) -> None:
    """What is put together, or asked about, is text."""
    operands = node.expressions if not isinstance(node, exp.DPipe) else [node.this, node.expression]
    for operand in [*operands, *(a for o in operands if o.name.upper() == "PROMPT" for a in o.expressions)]:
        if variant(operand):
            operand.replace(_bare(operand))
        elif maybe(operand):
            operand.replace(_by_type(operand))


def _lists(tree: exp.Expr, variant: _Test) -> None:
    """Array functions over a VARIANT."""
    for node in list(tree.find_all(exp.ArraySize, exp.ArrayToString, exp.ArrayContains)):
        sought = node.args.get("expression")
        if isinstance(node, exp.ArrayContains) and isinstance(sought, exp.Cast) and sought.to.is_type("variant"):
            node.set("expression", sought.this.copy())  # which Snowflake asks for, and which says nothing here
        if isinstance(node, exp.ArraySize) and isinstance(node.this, exp.Column):
            node.replace(function("json_array_length", function("to_json", node.this.copy())))
        elif variant(node.this):
            if isinstance(node, exp.ArraySize):
                node.replace(function("json_array_length", node.this.copy()))
            else:
                node.this.replace(exp.cast(node.this.copy(), "varchar[]"))


def _extracts(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name in ("json_extract", "to_json")


def _bare(node: exp.Expr) -> exp.Expr:
    """The text of what is surely JSON."""
    node = node.unnest()
    if isinstance(node, exp.JSONExtract):
        return exp.JSONExtractScalar(this=node.this.copy(), expression=node.expression.copy())
    return function("json_extract_string", node.copy(), exp.Literal.string("$"))


def _by_type(column: exp.Expr) -> exp.Expr:
    """The text of a column of any type; DuckDB knows the type when it binds, and keeps one branch."""
    json = function("json_extract_string", exp.cast(column.copy(), "json"), exp.Literal.string("$"))
    return exp.Case(ifs=[exp.If(this=_is_json(column), true=json)], default=exp.cast(column.copy(), "varchar"))


def _is_json(column: exp.Expr) -> exp.Expr:
    return exp.EQ(this=function("typeof", column.copy()), expression=exp.Literal.string("JSON"))


def _aliases(tree: exp.Expr, returns_object: Callable[[exp.Expr], bool]) -> set[str]:
    """Names that a query of the statement gives to a VARIANT."""
    return {
        alias.alias.lower()
        for alias in tree.find_all(exp.Alias)
        if isinstance(alias.this, exp.JSONExtract) or _extracts(alias.this) or returns_object(alias.this)
    }


def _flattened(tree: exp.Expr) -> set[str]:
    return {"value"} if tree.find(exp.Explode) else set()


def flatten_as_join(tree: exp.Expr, text: Text) -> None:
    """LATERAL FLATTEN and TABLE(FLATTEN) as a lateral join with the elements of a list or an object."""
    for explode in list(tree.find_all(exp.Explode)):
        around = explode.parent
        if not isinstance(around, (exp.Lateral, exp.TableFromRows)):
            raise text.error(explode, "FLATTEN stands in FROM.", "FROM t, LATERAL FLATTEN(input => t.tags) f")
        given = {a.name.lower(): a.expression for a in [explode.this, *explode.expressions] if isinstance(a, exp.Kwarg)}
        if unknown := given.keys() - {"input", "outer"}:
            raise text.error(around, f"FLATTEN's argument {min(unknown)} has no counterpart in DuckDB.", "FLATTEN(input => …)")
        source = given.get("input", explode.this)
        query = sqlglot.parse_one(_FLATTEN, dialect="duckdb")
        assert isinstance(query, exp.Select), "the template above"
        if source.find(VendorCall) is None:
            query = query.select(exp.alias_(exp.column("quail_input"), "this"))
        for column in list(query.find_all(exp.Column)):
            if column.name == "quail_input":
                column.replace(source.copy())
        alias = around.args.get("alias")
        name = exp.TableAlias(this=alias.this.copy()) if alias is not None and alias.this else None
        lateral = exp.Lateral(this=exp.Subquery(this=query), alias=name)
        outer = isinstance(given.get("outer"), exp.Boolean) and given["outer"].this
        join = around.parent
        around.replace(lateral)
        if isinstance(join, exp.Join):
            if outer:
                join.set("side", "LEFT")
            if join.side and not join.args.get("on"):
                join.set("on", exp.true())
            elif not join.side and not join.args.get("on"):
                join.set("kind", "CROSS")
