"""Syntax tree to a tree of Arrow kernels, bound to a schema.

Each sort of node has one entry in ``_RULES``.  The type of an expression is found by running it
on no rows, so that types are never derived twice.  Imported only when text has to be compiled.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt
from sqlglot import exp

from lancekit.scan._columns import COLUMN_RULES, pick_part
from lancekit.scan._functions import FUNCTIONS, Function, like
from lancekit.scan._kernels import (
    COMPARISONS,
    Value,
    align,
    cast,
    concat,
    divide,
    family,
    modulo,
    subtract,
)
from lancekit.scan._literals import moment, natural
from lancekit.scan._scope import Node, Scope, beside, constant, pair, same_family
from lancekit.scan._sql import parse

__all__ = ["compile_sql"]


# ---- literals


def _literal(tree: exp.Literal, _scope: Scope) -> Node:
    if tree.is_string:
        value: Any = tree.this
    else:
        value = int(tree.this) if tree.this.isdigit() else Decimal(tree.this)
    return constant(natural(value), value)


def _hex(tree: exp.HexString, scope: Scope) -> Node:
    try:
        value = bytes.fromhex(tree.this)
    except ValueError as error:
        raise scope.fail(f"X'{tree.this}' is not a sequence of bytes in hex.") from error
    return constant(pa.scalar(value), value)


def _negate(tree: exp.Neg, scope: Scope) -> Node:
    node = scope.compile(tree.this)
    if node.literal and isinstance(node.literal[0], int | Decimal):
        value = -node.literal[0]
        return constant(natural(value), value)
    return scope.call("-", pc.negate_checked, [node])


_TYPES: Mapping[Any, pa.DataType] = {
    exp.DataType.Type.BOOLEAN: pa.bool_(),
    exp.DataType.Type.TINYINT: pa.int8(),
    exp.DataType.Type.SMALLINT: pa.int16(),
    exp.DataType.Type.INT: pa.int32(),
    exp.DataType.Type.BIGINT: pa.int64(),
    exp.DataType.Type.UTINYINT: pa.uint8(),
    exp.DataType.Type.USMALLINT: pa.uint16(),
    exp.DataType.Type.UINT: pa.uint32(),
    exp.DataType.Type.UBIGINT: pa.uint64(),
    exp.DataType.Type.FLOAT: pa.float32(),
    exp.DataType.Type.DOUBLE: pa.float64(),
    exp.DataType.Type.TEXT: pa.string(),
    exp.DataType.Type.VARCHAR: pa.string(),
    exp.DataType.Type.BINARY: pa.binary(),
    exp.DataType.Type.DATE: pa.date32(),
    exp.DataType.Type.TIMESTAMP: pa.timestamp("us"),
    exp.DataType.Type.DATETIME: pa.timestamp("us"),
}


def _target(tree: Any, scope: Scope) -> pa.DataType:
    sizes = [int(size.name) for size in tree.expressions]
    if tree.this == exp.DataType.Type.DECIMAL:
        return pa.decimal128(*(sizes or [38, 10]))
    if sizes and tree.this == exp.DataType.Type.TIMESTAMP:
        return pa.timestamp({0: "s", 3: "ms", 6: "us", 9: "ns"}.get(sizes[0], "us"))
    if tree.this not in _TYPES:
        raise scope.fail(f"there is no cast to {tree.sql()}.")
    return _TYPES[tree.this]


def _has_offset(text: str, kind: pa.DataType) -> bool:
    """Tell whether a timestamp's text ends in ``Z`` or in an offset such as ``-05:00``."""
    return (
        pt.is_timestamp(kind) and re.search(r":\d\d.*(Z|z|[+-]\d\d(:?\d\d)?)\s*$", text) is not None
    )


def _cast(tree: exp.Cast, scope: Scope) -> Node:
    node, kind = scope.compile(tree.this), _target(tree.to, scope)
    if node.literal and isinstance(node.literal[0], str) and family(kind) == "moment":
        text = node.literal[0]
        target = pa.timestamp(kind.unit, "UTC") if _has_offset(text, kind) else kind
        try:
            return constant(moment(text, target))
        except pa.ArrowInvalid as error:
            raise scope.fail(
                f"{text!r} is not a {'date' if pt.is_date(kind) else 'timestamp'}.",
                "Write DATE '2020-01-31' or TIMESTAMP '2020-01-31 12:00:00'.",
            ) from error
    return scope.call(f"CAST to {kind}", lambda value: cast(value, kind), [node])


def _array(tree: exp.Array, scope: Scope) -> Node:
    items = [scope.compile(item) for item in tree.expressions]
    if not all(item.literal for item in items):
        raise scope.fail("a list may hold only literals.")
    return constant(pa.scalar([natural(i.literal[0]).as_py() for i in items]))


# ---- operators


def _compare(scope: Scope, label: str, left: Node, right: Node) -> Node:
    if left.literal and right.literal:
        for value in (*left.literal, *right.literal):
            if isinstance(value, str) and value in scope.fields:
                raise scope.fail(
                    f"{value!r} in quotes is text, not the column of that name.",
                    f"Write `{value}` in backticks.",
                )
    left, right = pair(left, right)
    same_family(scope, label, [left, right])
    return scope.call(label, COMPARISONS[label], [left, right])


def _comparison(label: str) -> Callable[[Any, Scope], Node]:
    return lambda tree, scope: _compare(
        scope, label, scope.compile(tree.this), scope.compile(tree.expression)
    )


def _is_fraction(node: Node, other: Node) -> bool:
    """Tell whether a fraction stands beside an integer: they compute as doubles."""
    fraction = bool(node.literal) and isinstance(node.literal[0], Decimal)
    return fraction and pt.is_integer(other.type)


def _arithmetic(
    label: str, kernel: Callable[[Value, Value], Value]
) -> Callable[[Any, Scope], Node]:
    def rule(tree: Any, scope: Scope) -> Node:
        left, right = scope.compile(tree.this), scope.compile(tree.expression)
        if not (_is_fraction(left, right) or _is_fraction(right, left)):
            left, right = pair(left, right)
        same_family(scope, label, [left, right])
        return scope.call(label, lambda a, b: kernel(*align(a, b)), [left, right])

    return rule


def _kleene(label: str, kernel: Callable[[Value, Value], Value]) -> Callable[[Any, Scope], Node]:
    def rule(tree: Any, scope: Scope) -> Node:
        # A chain of a thousand conditions is as deep a tree: flat, it needs no recursion.
        nodes = [scope.boolean(part, label) for part in tree.flatten()]
        return scope.call(label, lambda *values: reduce(kernel, values), nodes)

    return rule


def _not(tree: exp.Not, scope: Scope) -> Node:
    return scope.call("NOT", pc.invert, [scope.boolean(tree.this, "NOT")])


def _is(tree: exp.Is, scope: Scope) -> Node:
    if isinstance(tree.expression, exp.Null):
        return scope.call("IS NULL", pc.is_null, [scope.compile(tree.this)])
    if not isinstance(tree.expression, exp.Boolean):
        raise scope.fail(f"{tree.sql()!r}: IS takes NULL, TRUE or FALSE.")
    wanted = bool(tree.expression.this)
    node = scope.boolean(tree.this, "IS TRUE")
    return scope.call(
        "IS TRUE",
        lambda v: pc.fill_null(v if wanted else pc.invert(v), False),
        [node],
    )


def _in(tree: exp.In, scope: Scope) -> Node:
    if not tree.expressions:
        raise scope.fail(f"{tree.sql()!r}: IN takes a list of values in parentheses.")
    node = scope.compile(tree.this)
    items = [beside(scope.compile(item), node) for item in tree.expressions]
    if not (node.field and all(item.literal for item in items)):
        parts = [_compare(scope, "=", node, item) for item in items]
        return scope.call("IN", lambda *found: reduce(pc.or_kleene, found), parts)
    values = [item.example for item in items if item.literal[0] is not None]
    found = pa.array([v.as_py() for v in values], _common(values, node.type))
    missing = pa.scalar(None if len(values) < len(items) else False, pa.bool_())

    def run(value: Value) -> Value:
        left, right = align(value, found)
        if pt.is_floating(left.type):
            left, right = pc.add(left, 0.0), pc.add(right, 0.0)  # one zero
        hit = pc.is_in(left, value_set=right)
        hit = pc.if_else(hit, True, missing)
        return pc.if_else(pc.is_valid(value), hit, pa.scalar(None, pa.bool_()))

    return scope.call("IN", run, [node])


def _common(values: Sequence[pa.Scalar], kind: pa.DataType) -> pa.DataType:
    """Return the column's type, or for decimals one that holds every item exactly."""
    if not pt.is_decimal(kind) or all(v.type == kind for v in values):
        return kind
    scale = max(kind.scale, *(v.type.scale for v in values))
    whole = max(kind.precision - kind.scale, *(v.type.precision - v.type.scale for v in values))
    return pa.decimal256(whole + scale, scale)


def _between(tree: exp.Between, scope: Scope) -> Node:
    node = scope.compile(tree.this)
    low = _compare(scope, ">=", node, scope.compile(tree.args["low"]))
    high = _compare(scope, "<=", node, scope.compile(tree.args["high"]))
    return scope.call("BETWEEN", pc.and_kleene, [low, high])


def _like_with(scope: Scope, tree: Any, escape: str) -> Node:
    args = pair(scope.compile(tree.this), scope.compile(tree.expression))
    for node in args:
        if family(node.type) not in ("text", "null"):
            raise scope.fail(f"LIKE needs text, but {node.field or 'a side'} is {node.type}.")
    ignore_case = isinstance(tree, exp.ILike)
    found = scope.call(
        "LIKE", lambda v, p: like(v, p, ignore_case=ignore_case, escape=escape), args
    )
    # NOT LIKE is a flag of the node in newer releases of sqlglot, a Not around it in older ones.
    return scope.call("NOT", pc.invert, [found]) if tree.args.get("negate") else found


def _escape(tree: exp.Escape, scope: Scope) -> Node:
    escape = tree.expression
    one = isinstance(escape, exp.Literal) and escape.is_string and len(escape.this) == 1
    if not one or not isinstance(tree.this, exp.Like | exp.ILike):
        raise scope.fail("ESCAPE takes one character, after a LIKE.")
    return _like_with(scope, tree.this, escape.this)


def _concat(tree: exp.DPipe, scope: Scope) -> Node:
    return scope.call("||", concat, [scope.compile(tree.this), scope.compile(tree.expression)])


def _case(tree: exp.Case, scope: Scope) -> Node:
    if tree.this is not None:
        raise scope.fail("CASE takes conditions: CASE WHEN a = 1 THEN ... END.")
    ifs = tree.args["ifs"]
    conditions = [scope.boolean(branch.this, "CASE WHEN") for branch in ifs]
    default = tree.args.get("default") or exp.Null()
    results = _one_type(
        scope, "CASE", [scope.compile(t) for t in (*(b.args["true"] for b in ifs), default)]
    )

    def run(*values: Value) -> Value:
        tests, chosen = values[: len(ifs)], values[len(ifs) :]
        result = chosen[-1]
        for test, value in zip(reversed(tests), reversed(chosen[:-1]), strict=True):
            result = pc.if_else(pc.fill_null(test, False), value, result)
        return result

    return scope.call("CASE", run, [*conditions, *results])


# ---- functions


def _one_type(scope: Scope, label: str, nodes: Sequence[Node]) -> list[Node]:
    typed = next((n for n in nodes if n.field), None)
    if typed is not None:
        nodes = [beside(n, typed) for n in nodes]
    same_family(scope, label, nodes)
    return list(nodes)


def _function(tree: exp.Anonymous, scope: Scope) -> Node:
    name = str(tree.this).lower()
    if name in _BY_SYNTAX:
        return _BY_SYNTAX[name](tree, scope)
    function = FUNCTIONS.get(name)
    if function is None:
        close = difflib.get_close_matches(name, FUNCTIONS, 3, 0.6)
        hint = f"Did you mean {' or '.join(close)}?" if close else ""
        raise scope.fail(f"there is no function {name!r}.", hint, function=name)
    args = [scope.compile(arg) for arg in tree.expressions]
    _check_arguments(scope, name, function, args)
    if function.same:
        args = _one_type(scope, name, args)
    elif len(args) == 2 and family(args[0].type) == "list":
        item = Node(
            run=args[0].run,
            example=pa.array([], args[0].type.value_type),
            field=args[0].field,
        )
        args = [args[0], beside(args[1], item)]
    return scope.call(name, function.kernel, args)


# functions that do the same as a piece of syntax
_BY_SYNTAX: Mapping[str, Callable[[Any, Scope], Node]] = {
    "make_array": _array,
    "get_field": lambda tree, scope: pick_part(tree, tree.expressions, scope),
    "array_element": lambda tree, scope: pick_part(tree, tree.expressions, scope),
}


def _check_arguments(scope: Scope, name: str, function: Function, args: list[Node]) -> None:
    if not function.least <= len(args) <= function.most:
        raise scope.fail(
            f"{name} takes {function.least} to {function.most} arguments, not {len(args)}."
        )
    for i, arg in enumerate(args):
        wanted = function.families[min(i, len(function.families) - 1)]
        if i < len(function.families) and wanted and family(arg.type) not in (wanted, "null"):
            raise scope.fail(
                f"{name} takes a {wanted}, but {arg.field or 'the argument'} is {arg.type}."
            )


_RULES: Mapping[type, Callable[[Any, Scope], Node]] = {
    **COLUMN_RULES,
    exp.Literal: _literal,
    exp.HexString: _hex,
    exp.Boolean: lambda tree, _scope: constant(pa.scalar(tree.this), tree.this),
    exp.Null: lambda _tree, _scope: constant(pa.scalar(None), None),
    exp.Array: _array,
    exp.Paren: lambda tree, scope: scope.compile(tree.this),
    exp.Neg: _negate,
    exp.Cast: _cast,
    exp.And: _kleene("AND", pc.and_kleene),
    exp.Or: _kleene("OR", pc.or_kleene),
    exp.Not: _not,
    exp.EQ: _comparison("="),
    exp.NEQ: _comparison("<>"),
    exp.GT: _comparison(">"),
    exp.GTE: _comparison(">="),
    exp.LT: _comparison("<"),
    exp.LTE: _comparison("<="),
    exp.NullSafeEQ: _comparison("IS NOT DISTINCT FROM"),
    exp.NullSafeNEQ: _comparison("IS DISTINCT FROM"),
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: lambda tree, scope: _like_with(scope, tree, "\\"),
    exp.ILike: lambda tree, scope: _like_with(scope, tree, "\\"),
    exp.Escape: _escape,
    exp.Add: _arithmetic("+", pc.add_checked),
    exp.Sub: _arithmetic("-", subtract),
    exp.Mul: _arithmetic("*", pc.multiply_checked),
    exp.Div: _arithmetic("/", divide),
    exp.Mod: _arithmetic("%", modulo),
    exp.DPipe: _concat,
    exp.Case: _case,
    exp.Anonymous: _function,
}


def compile_sql(sql: str, schema: pa.Schema) -> Node:
    """Compile the text of an expression for a schema."""
    fields = {field.name: field.type for field in schema}
    return Scope(sql, fields, _RULES).compile(parse(sql))
