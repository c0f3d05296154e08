"""Binding of expressions: from a syntax tree to a typed `Expr`.

Each type of node has an entry in ``_RULES``, and each function an entry in `functions`.  A node
without an entry raises an error with its position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from lancekit._statements.dialect import spelled_tree
from lancekit._statements.functions import AGGREGATES, OPERATORS, TRUNCATED, apply, call
from lancekit._statements.literals import (
    cast,
    coerce,
    constant,
    is_constant,
    negated,
    number,
    target,
)
from lancekit._statements.scope import Scope, start_of
from lancekit._statements.tree import Expr, Query, family

BOOL = pa.bool_()
#: binds one type of node
Rule: TypeAlias = Callable[[exp.Expression, Scope], Expr]

#: syntax that is not supported: its keywords, and a hint
_REFUSED: Mapping[type, tuple[str, str]] = {
    exp.IgnoreNulls: (
        "IGNORE NULLS",
        "Aggregates ignore nulls without it. For lag, lead and other window functions, remove the "
        "nulls in a subquery: FROM (SELECT * FROM t WHERE x IS NOT NULL).",
    ),
    exp.BitwiseAnd: ("&", "Write AND in place of &."),
    exp.BitwiseOr: ("|", "Write OR in place of |."),
    exp.BitwiseNot: ("~", "Write NOT in place of ~."),
    exp.RespectNulls: ("RESPECT NULLS", "Leave it out: window functions count nulls without it."),
}


def compile_expression(tree: exp.Expression, scope: Scope) -> Expr:
    """Bind a syntax tree to the names in scope, and return the typed expression.

    Raises PredicateError: the syntax is not supported, or its names or types do not fit.
    """
    rule = _RULES.get(type(tree))
    if rule is None:
        what, hint = _REFUSED.get(type(tree), (_shown(tree), ""))
        raise scope.text.fail(tree, f"{what} is not supported:", hint)
    scope.text.only(tree, "this", "expression", "expressions", *_MORE.get(type(tree), ()))
    return replace(rule(tree, scope), place=start_of(tree))


def condition(tree: exp.Expression, scope: Scope, what: str) -> Expr:
    """Bind a condition; raise if its type is not boolean or null."""
    found = compile_expression(tree, scope)
    if family(found.kind) not in ("condition", "null"):
        raise scope.text.fail(tree, f"{what} needs a condition, but this gives {found.kind}:")
    return found


def parameter(tree: exp.Expression, scope: Scope) -> Any:
    """Return the value of a parameter ``$name``."""
    name = tree.name
    names = scope.text.names
    for place in (names.given, names.at_hand):
        if name in place:
            return place[name]
    raise scope.text.fail(
        tree, f"the parameter ${name} has no value:", f"Pass it: lk.sql(..., {name}=...)."
    )


def _shown(tree: exp.Expression) -> str:
    text = spelled_tree(tree)
    return f"{text[:60]!r}{'...' if len(text) > 60 else ''} ({type(tree).__name__})"


# ---- constants and columns


def _literal(tree: exp.Expression, scope: Scope) -> Expr:
    value = tree.this if tree.is_string else number(tree.this)
    found = None if value is None and not tree.is_string else constant(value)
    if found is None:
        raise scope.text.fail(tree, f"{tree.this[:60]} is out of range for a bigint:")
    return found


def _parameter(tree: exp.Expression, scope: Scope) -> Expr:
    value = parameter(tree, scope)
    found = constant(value)
    if found is None:
        hint = "Pass numbers, text, bytes, booleans, dates and times, or a list behind IN."
        raise scope.text.fail(
            tree, f"${tree.name} is a {type(value).__name__}, which is not a SQL value:", hint
        )
    return found


def _hex(tree: exp.Expression, scope: Scope) -> Expr:
    try:
        return Expr("literal", (), pa.binary(), bytes.fromhex(tree.this))
    except ValueError as error:
        raise scope.text.fail(tree, f"X'{tree.this}' is not a sequence of bytes:") from error


def _column(tree: exp.Expression, scope: Scope) -> Expr:
    found, rest = scope.column(tree)
    for part in rest:
        found = _field(found, part, scope)
    return found


def _dot(tree: exp.Expression, scope: Scope) -> Expr:
    return _field(compile_expression(tree.this, scope), tree.expression, scope)


def _field(whole: Expr, part: exp.Expression, scope: Scope) -> Expr:
    kind = whole.kind
    fields = {one.name: one.type for one in kind} if pt.is_struct(kind) else {}
    names = [one.name for one in kind] if pt.is_struct(kind) else []
    found = [name for name in names if name == part.name] or [
        name for name in names if name.lower() == part.name.lower()
    ]
    if len(found) != 1 or len({name.lower() for name in names}) < len(names):
        raise scope.text.fail(part, f"{kind} has no field {part.name!r}:")
    return Expr("field", (whole,), fields[found[0]], found[0])


def _negative(tree: exp.Expression, scope: Scope) -> Expr:
    if isinstance(tree.this, exp.Literal) and not tree.this.is_string:
        value = number(tree.this.this)
        if value is not None and (found := constant(negated(value))):
            return found
    inner = compile_expression(tree.this, scope)
    if is_constant(inner) and type(inner.value) in (int, Decimal):
        return constant(negated(inner.value)) or _operator("negative", [inner], tree, scope)
    return _operator("negative", [inner], tree, scope)


# ---- operators


def _operator(name: str, args: Sequence[Expr], tree: exp.Expression, scope: Scope) -> Expr:
    return apply(name, OPERATORS[name], args, tree, scope)


def _two(name: str) -> Rule:
    return lambda tree, scope: _operator(
        name,
        [compile_expression(tree.this, scope), compile_expression(tree.expression, scope)],
        tree,
        scope,
    )


def _joined(name: str) -> Rule:
    # sqlglot nests a chain of conditions: it is made flat, since recursion limits its length
    return lambda tree, scope: Expr(
        name, tuple(condition(part, scope, name.upper()) for part in tree.flatten()), BOOL
    )


def _is(tree: exp.Expression, scope: Scope) -> Expr:
    if isinstance(tree.expression, exp.Null):
        return _operator("is null", [compile_expression(tree.this, scope)], tree, scope)
    if not isinstance(tree.expression, exp.Boolean):
        raise scope.text.fail(tree, "IS takes NULL, TRUE or FALSE:")
    name = "is true" if tree.expression.this else "is false"
    return _operator(name, [condition(tree.this, scope, "IS TRUE")], tree, scope)


def _in(tree: exp.Expression, scope: Scope) -> Expr:
    value = compile_expression(tree.this, scope)
    if query := tree.args.get("query"):
        found = scope.text.query(query.this if isinstance(query, exp.Subquery) else query, scope)
        if len(found.outputs) != 1:
            raise scope.text.fail(query, "IN needs a subquery with one column:")
        return _among_query(value, found, tree, scope)
    items = list[Expr]()
    for one in tree.expressions:
        items += _listed(one, scope) or [compile_expression(one, scope)]
    if not items:
        raise scope.text.fail(tree, "IN needs a list of values in parentheses:")
    return Expr("in", tuple(coerce([value, *items], "IN", tree, scope)), BOOL)


def _listed(tree: exp.Expression, scope: Scope) -> list[Expr]:
    """Return the constants of a list parameter; empty for anything else."""
    if not isinstance(tree, exp.Parameter):
        return []
    value = parameter(tree, scope)
    if hasattr(value, "tolist"):
        value = value.tolist()  # an array
    if not isinstance(value, list | tuple | set | frozenset):
        return []
    found = [constant(one, start_of(tree)) for one in value]
    if None in found or not found:
        raise scope.text.fail(tree, f"${tree.name} is not a list of SQL values:")
    return [one for one in found if one is not None]


def _among_query(value: Expr, query: Query, tree: exp.Expression, scope: Scope) -> Expr:
    kind = query.outputs[0].expr.kind
    column = Expr("column", (), kind)  # stands for the query's column
    one, other = coerce([value, column], "IN", tree, scope)
    if other is not column:
        hint = "Add a CAST in the subquery."
        raise scope.text.fail(tree, f"IN compares {value.kind} with a subquery of {kind}:", hint)
    return Expr("in query", (one,), BOOL, query)


def _exists(tree: exp.Expression, scope: Scope) -> Expr:
    return Expr("exists", (), BOOL, scope.text.query(tree.this, scope))


def _subquery(tree: exp.Expression, scope: Scope) -> Expr:
    found = scope.text.query(tree.this, scope)
    if len(found.outputs) != 1:
        raise scope.text.fail(tree, "a scalar subquery must have one column:")
    return Expr("query", (), found.outputs[0].expr.kind, found)


def _between(tree: exp.Expression, scope: Scope) -> Expr:
    value, low, high = (
        compile_expression(part, scope) for part in (tree.this, tree.args["low"], tree.args["high"])
    )
    return Expr(
        "and",
        (_operator(">=", [value, low], tree, scope), _operator("<=", [value, high], tree, scope)),
        BOOL,
    )


def _like(tree: exp.Expression, scope: Scope) -> Expr:
    sides = [compile_expression(side, scope) for side in (tree.this, tree.expression)]
    pattern = sides[1]
    if not is_constant(pattern) or not isinstance(pattern.value, str | None):
        raise scope.text.fail(pattern, "the pattern of LIKE must be a constant:")
    if _has_needless_escape(pattern.value or ""):
        hint = "Use a backslash only before %, _ or another backslash."
        raise scope.text.fail(pattern, "the pattern has an unnecessary escape:", hint)
    if isinstance(tree, exp.ILike):
        sides = [call("lower", [side], tree, scope) for side in sides]
    found = _operator("like", sides, tree, scope)
    return Expr("not", (found,), BOOL) if tree.args.get("negate") else found


def _has_needless_escape(pattern: str) -> bool:
    """Return True if a backslash of a pattern precedes a character that needs no escape."""
    rest = iter(pattern)
    return any(one == "\\" and next(rest, "") not in ("%", "_", "\\") for one in rest)


def _case(tree: exp.Expression, scope: Scope) -> Expr:
    conditions, values = list[Expr](), list[Expr]()
    for branch in tree.args["ifs"]:
        if tree.this is not None:
            pair = [compile_expression(one, scope) for one in (tree.this, branch.this)]
            conditions.append(_operator("=", pair, branch, scope))
        else:
            conditions.append(condition(branch.this, scope, "WHEN"))
        values.append(compile_expression(branch.args["true"], scope))
    last = tree.args.get("default")
    values.append(compile_expression(last, scope) if last is not None else Expr("literal"))
    values = coerce(values, "CASE", tree, scope)
    pairs = [part for pair in zip(conditions, values[:-1], strict=True) for part in pair]
    return Expr("case", (*pairs, values[-1]), values[-1].kind)


def _cast(tree: exp.Expression, scope: Scope) -> Expr:
    return cast(compile_expression(tree.this, scope), target(tree, scope), tree, scope)


# ---- functions


def _extract(tree: exp.Expression, scope: Scope) -> Expr:
    return call(tree.this.name.lower(), [compile_expression(tree.expression, scope)], tree, scope)


def _call(tree: exp.Expression, scope: Scope) -> Expr:
    name = str(tree.this).lower()
    if name == "date_trunc":
        unit = tree.expressions[0] if len(tree.expressions) == 2 else None
        if not isinstance(unit, exp.Literal) or unit.this.lower() not in TRUNCATED:
            raise scope.text.fail(
                tree, "date_trunc takes a unit in quotes and a timestamp:", ", ".join(TRUNCATED)
            )
        args = [compile_expression(tree.expressions[1], scope)]
        unit_name = unit.this.lower()
        return apply(f"date_trunc {unit_name}", TRUNCATED[unit_name], args, tree, scope)
    distinct = len(tree.expressions) == 1 and isinstance(tree.expressions[0], exp.Distinct)
    given = tree.expressions[0].expressions if distinct else tree.expressions
    if len(given) == 1 and isinstance(given[0], exp.Star):
        if name != "count" or distinct:
            raise scope.text.fail(tree, f"* is only for count, not for {name}:")
        given = []
    if name == "date_part" and len(given) == 2 and isinstance(given[0], exp.Literal):
        name, given = str(given[0].this).lower(), given[1:]  # the text of .year() of lk.col
    args = [compile_expression(one, _inside(name, tree, scope)) for one in given]
    return call(name, args, tree, scope, distinct=distinct)


def _inside(name: str, tree: exp.Expression, scope: Scope) -> Scope:
    if name not in AGGREGATES:
        return scope
    if not scope.aggregates:
        raise scope.text.fail(tree, f"{name} is an aggregate, which cannot be used here:")
    return replace(scope, aggregates=False, windows=False)


def _filtered(tree: exp.Expression, scope: Scope) -> Expr:
    found = compile_expression(tree.this, scope)
    if found.op != "aggregate":
        raise scope.text.fail(tree, "FILTER must follow an aggregate:")
    inner = replace(scope, aggregates=False, windows=False)
    where = condition(tree.expression.this, inner, "FILTER")
    name, distinct, _ = found.value
    return replace(found, args=(*found.args, where), value=(name, distinct, True))


def _window(tree: exp.Expression, scope: Scope) -> Expr:
    if not scope.windows:
        raise scope.text.fail(tree, "OVER is only supported in the columns of a query:")
    inner = replace(scope, aggregates=True, windows=False)
    function = compile_expression(tree.this, inner)
    if function.op not in ("aggregate", "window function"):
        raise scope.text.fail(tree, "OVER must follow an aggregate or a window function:")
    parts = [compile_expression(one, inner) for one in tree.args.get("partition_by") or ()]
    order = tree.args.get("order")
    sorts = order.expressions if order is not None else []
    if function.op == "window function" and not sorts:
        raise scope.text.fail(tree, "this function needs an ORDER BY in its OVER:")
    by = [compile_expression(one.this, inner) for one in sorts]
    how = tuple((bool(one.args.get("desc")), bool(one.args.get("nulls_first"))) for one in sorts)
    return Expr("window", (function, *parts, *by), function.kind, (len(parts), how))


_MORE: Mapping[type, tuple[str, ...]] = {
    exp.Literal: ("is_string",),
    exp.Column: ("table", "db", "catalog"),
    exp.Cast: ("to",),
    exp.TryCast: ("to", "safe"),
    exp.In: ("query",),
    exp.Between: ("low", "high"),
    exp.Like: ("negate",),
    exp.ILike: ("negate",),
    exp.Case: ("ifs", "default"),
    exp.Div: ("safe",),
    exp.DPipe: ("safe",),
    exp.Window: ("partition_by", "order", "over"),
}
_RULES: Mapping[type, Rule] = {
    exp.Literal: _literal,
    exp.HexString: _hex,
    exp.Boolean: lambda tree, _: Expr("literal", (), BOOL, bool(tree.this)),
    exp.Null: lambda _tree, _scope: Expr("literal"),
    exp.Parameter: _parameter,
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Paren: lambda tree, scope: compile_expression(tree.this, scope),
    exp.Neg: _negative,
    exp.Add: _two("+"),
    exp.Sub: _two("-"),
    exp.Mul: _two("*"),
    exp.Div: _two("/"),
    exp.IntDiv: _two("div"),
    exp.Mod: _two("%"),
    exp.DPipe: _two("||"),
    exp.EQ: _two("="),
    exp.NEQ: _two("<>"),
    exp.LT: _two("<"),
    exp.LTE: _two("<="),
    exp.GT: _two(">"),
    exp.GTE: _two(">="),
    exp.NullSafeEQ: _two("same"),
    exp.NullSafeNEQ: lambda tree, scope: Expr("not", (_two("same")(tree, scope),), BOOL),
    exp.And: _joined("and"),
    exp.Or: _joined("or"),
    exp.Not: lambda tree, scope: Expr("not", (condition(tree.this, scope, "NOT"),), BOOL),
    exp.Is: _is,
    exp.In: _in,
    exp.Exists: _exists,
    exp.Subquery: _subquery,
    exp.Between: _between,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Extract: _extract,
    exp.Anonymous: _call,
    exp.Filter: _filtered,
    exp.Window: _window,
}
