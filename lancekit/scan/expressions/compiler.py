"""Syntax to a tree of Arrow kernels, bound to a schema.

Each kind of piece has one entry in ``_RULES``.  The type of an expression is found by running it
on no rows, so that types are never derived twice.  Imported only when text has to be compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial, reduce
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lancekit.format.arrow_parts import unit_and_zone
from lancekit.scan.expressions.calls import array, call_function, cast_number
from lancekit.scan.expressions.columns import COLUMN_RULES
from lancekit.scan.expressions.kernels.casts import DIGITS, cast, decimal, try_cast
from lancekit.scan.expressions.kernels.function import Function
from lancekit.scan.expressions.kernels.operators import (
    COMPARISONS,
    Value,
    add,
    align,
    concat,
    divide,
    family,
    modulo,
    multiply,
    subtract,
)
from lancekit.scan.expressions.kernels.scalars import scalar_of
from lancekit.scan.expressions.kernels.sizes import joined
from lancekit.scan.expressions.kernels.text import like
from lancekit.scan.expressions.literals import exact_moment, moment, natural, negated
from lancekit.scan.expressions.membership import among, items_of
from lancekit.scan.expressions.parser import parse
from lancekit.scan.expressions.scope import FAILURES, Node, Scope, constant
from lancekit.scan.expressions.syntax import Syntax

__all__ = ["Compiled", "compile_sql"]


# ---- literals


def _literal(tree: Syntax, _scope: Scope) -> Node:
    return constant(natural(tree.value), tree.value)


def _negate(tree: Syntax, scope: Scope) -> Node:
    node = scope.compile(tree.parts[0])
    if node.literal and type(node.literal[0]) in (int, Decimal):
        value = negated(node.literal[0])
        return constant(natural(value), value)
    return scope.call("-", pc.negate_checked, [node])


# ---- casts


_TYPES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "tinyint unsigned": pa.uint8(),
    "smallint unsigned": pa.uint16(),
    "int unsigned": pa.uint32(),
    "uint": pa.uint32(),
    "bigint unsigned": pa.uint64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
}


_SIZE = re.compile(r"-?[0-9]{1,9}")

#: units of timestamps by the digits of their seconds' fraction
_FRACTIONS: Mapping[str, str] = {"0": "s", "3": "ms", "6": "us", "9": "ns"}


def _target(tree: Syntax, scope: Scope) -> pa.DataType:
    name, sizes, text = tree.value
    if name == "decimal" and not sizes:
        return pa.decimal128(38, 10)
    if name == "decimal" and all(map(_SIZE.fullmatch, sizes)):
        kind = decimal(*map(int, sizes)) if len(sizes) <= 2 else None
        if kind is None:
            hint = f"decimal(p, s) has at most {DIGITS} digits in all, p, and s behind the point."
            raise scope.fail(tree, f"there is no {text}.", hint)
        return kind
    if len(sizes) == 1 and name == "timestamp" and sizes[0] in _FRACTIONS:
        return pa.timestamp(_FRACTIONS[sizes[0]])
    if sizes or name not in _TYPES:
        raise scope.fail(tree, f"there is no cast to {text}.")
    return _TYPES[name]


def _has_offset(text: str, kind: pa.DataType) -> bool:
    """Tell whether a timestamp's text ends in ``Z`` or in an offset such as ``-05:00``."""
    return (
        pt.is_timestamp(kind) and re.search(r":\d\d.*(Z|z|[+-]\d\d(:?\d\d)?)\s*$", text) is not None
    )


def _cast(tree: Syntax, scope: Scope) -> Node:
    node, kind = scope.compile(tree.parts[0]), _target(tree, scope)
    tries = tree.kind == "TRY_CAST"
    if (exact := cast_number(node, kind, tree, scope, tries=tries)) is not None:
        return exact
    if tries:
        return scope.call("TRY_CAST", lambda value: try_cast(value, kind), [node], tree)
    if node.literal and isinstance(node.literal[0], str):
        return constant(_read(tree, node.literal[0], kind, scope))
    done = scope.call(f"CAST to {kind}", lambda value: cast(value, kind), [node], tree)
    return replace(done, cast_of=node)


def _read(tree: Syntax, text: str, kind: pa.DataType, scope: Scope) -> pa.Scalar:
    """Read the text of a literal such as DATE '2020-01-31'."""
    try:
        if family(kind) != "moment":
            return cast(scalar_of(text), kind)
        zoned = pa.timestamp(unit_and_zone(kind)[0], "UTC") if _has_offset(text, kind) else kind
        # CAST(... AS timestamp(6)) cuts finer digits off, TIMESTAMP '...' keeps them
        return (moment if tree.value.sizes else exact_moment)(text, zoned)
    except FAILURES as error:
        name = "date" if pt.is_date(kind) else "timestamp" if pt.is_timestamp(kind) else str(kind)
        hint = "Write DATE '2020-01-31' or TIMESTAMP '2020-01-31 12:00:00'."
        is_moment = family(kind) == "moment"
        raise scope.fail(tree, f"{text!r} is not a {name}.", hint if is_moment else "") from error


# ---- operators


def _compare(scope: Scope, label: str, left: Node, right: Node, *, plain: bool = False) -> Node:
    if left.literal and right.literal:
        for node in (left, right):
            (value,) = node.literal
            if isinstance(value, str) and value in scope.fields:
                raise scope.fail(
                    node,
                    f"{value!r} in quotes is text, not the column of that name.",
                    f"Write `{value}` in backticks.",
                )
        if {type(left.literal[0]), type(right.literal[0])} > {str}:
            left, right = _beside_text(scope, left, right), _beside_text(scope, right, left)
    left, right = _before_cast(left, right), _before_cast(right, left)
    if label in ("=", "<>"):
        left, right = _before_written(left, right)
        right, left = _before_written(right, left)
    left, right = scope.pair(left, right, plain=plain)
    scope.same_family(label, [left, right])
    return scope.call(label, COMPARISONS[label], [left, right])


def _beside_text(scope: Scope, node: Node, other: Node) -> Node:
    """Read a literal in quotes as what the literal beside it is."""
    if not isinstance(node.literal[0], str):
        return node
    return scope.beside(node, replace(other, literal=()))


#: how a cast writes whole numbers of at most 64 bits
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,19}")


def _before_cast(node: Node, other: Node) -> Node:
    """Take the integers that were cast to be compared with a whole number, if it is one of them.

    So does the reference: a number that the cast would refuse is none that is asked for.
    """
    inner, literal = node.cast_of, other.literal
    if inner is None or not literal or type(literal[0]) is not int:
        return node
    whole = pt.is_integer(inner.type) and (pt.is_integer(node.type) or pt.is_decimal(node.type))
    held = whole and all(_holds(kind, literal[0]) for kind in (inner.type, node.type))
    return inner if held else node


def _before_written(node: Node, other: Node) -> tuple[Node, Node]:
    """Compare integers that were written out with the one number that is written like the text."""
    inner, literal = node.cast_of, other.literal
    if inner is None or not literal or not isinstance(literal[0], str):
        return node, other
    if not (
        pt.is_integer(inner.type) and pt.is_string(node.type) and _NUMBER.fullmatch(literal[0])
    ):
        return node, other
    number = int(literal[0])
    if not _holds(inner.type, number):
        return node, other
    return inner, replace(constant(natural(number), number), position=other.position)


def _holds(kind: pa.DataType, number: int) -> bool:
    try:
        cast(natural(number), kind)
    except pa.ArrowInvalid:
        return False
    return True


def _comparison(tree: Syntax, scope: Scope) -> Node:
    left, right = map(scope.compile, tree.parts)
    return _compare(scope, tree.kind, left, right, plain=id(tree) in scope.plain)


def _is_fraction(node: Node, other: Node) -> bool:
    """Tell whether a fraction stands beside an integer: they compute as doubles."""
    is_fraction = bool(node.literal) and isinstance(node.literal[0], Decimal)
    return is_fraction and pt.is_integer(other.type)


def _adds(node: Node) -> bool:
    """Tell whether values are of a kind that only its own can be added to."""
    return family(node.type) not in ("moment", "duration") and not pt.is_date32(node.type)


_Rule: TypeAlias = Callable[[Syntax, Scope], Node]


def _arithmetic(kernel: Callable[[Value, Value], Value]) -> _Rule:
    def rule(tree: Syntax, scope: Scope) -> Node:
        left, right = map(scope.compile, tree.parts)
        dated = pt.is_date(left.type) or pt.is_date(right.type)
        if not (dated or _is_fraction(left, right) or _is_fraction(right, left)):
            left, right = scope.pair(left, right, plain=id(tree) in scope.plain)
        if _adds(left) and _adds(right):
            scope.same_family(tree.kind, [left, right])
        return scope.call(tree.kind, lambda a, b: kernel(*align(a, b)), [left, right])

    return rule


def _shift(kernel: Callable[[Value, Value], Value]) -> _Rule:
    def rule(tree: Syntax, scope: Scope) -> Node:
        left, right = map(scope.compile, tree.parts)
        args = scope.pair(left, right, plain=id(tree) in scope.plain)
        return scope.call(tree.kind, kernel, args, tree)

    return rule


def _kleene(kernel: Callable[[Value, Value], Value]) -> _Rule:
    def rule(tree: Syntax, scope: Scope) -> Node:
        nodes = [scope.boolean(part, tree.kind) for part in tree.parts]
        return scope.call(tree.kind, lambda *values: reduce(kernel, values), nodes)

    return rule


def _not(tree: Syntax, scope: Scope) -> Node:
    return scope.call("NOT", pc.invert, [scope.boolean(tree.parts[0], "NOT")])


def _is_null(tree: Syntax, scope: Scope) -> Node:
    return scope.call("IS NULL", pc.is_null, [scope.compile(tree.parts[0]).as_stored])


def _is(wanted: bool) -> _Rule:
    def told(value: Value) -> Value:
        return pc.fill_null(value if wanted else pc.invert(value), False)

    return lambda tree, scope: scope.call(
        "IS TRUE", told, [scope.boolean(tree.parts[0], "IS TRUE")]
    )


def _in(tree: Syntax, scope: Scope) -> Node:
    node = scope.compile(tree.parts[0])
    plain = id(tree) in scope.plain and tree.parts[0].is_column
    members, others = items_of(scope, tree)
    parts = []
    if node.literal or (node.cast_of and (others or members.folded)):  # literals matter one by one
        parts = [_compare(scope, "=", node, item, plain=plain) for item in members.nodes()]
    elif members:
        parts = [among(scope, node, members, tree, plain=plain)]
    parts += [_compare(scope, "=", node, item, plain=plain) for item in others]
    return scope.call("IN", lambda *found: reduce(pc.or_kleene, found), parts)


def _not_in(tree: Syntax, scope: Scope) -> Node:
    return scope.call("NOT", pc.invert, [_in(tree, scope)])


def _between(tree: Syntax, scope: Scope) -> Node:
    node, low, high = map(scope.compile, tree.parts)
    plain = id(tree) in scope.plain and bool(node.field)
    low = _compare(scope, ">=", node, low, plain=plain)
    high = _compare(scope, "<=", node, high, plain=plain)
    return scope.call("BETWEEN", pc.and_kleene, [low, high], tree)


def _like(tree: Syntax, scope: Scope) -> Node:
    args = scope.pair(*map(scope.compile, tree.parts))
    for node in args:
        if family(node.type) not in ("text", "null"):
            raise scope.fail(node, f"LIKE needs text, but {node.field or 'a side'} is {node.type}.")
    ignore_case, escape = tree.kind == "ILIKE", tree.value
    return scope.call("LIKE", lambda v, p: like(v, p, ignore_case=ignore_case, escape=escape), args)


_CONCAT = Function(concat, ("",), 2, 2, size=joined)


def _concat(tree: Syntax, scope: Scope) -> Node:
    return scope.call("||", partial(_CONCAT.run, "||"), [*map(scope.compile, tree.parts)])


_RULES: Mapping[str, _Rule] = {
    **COLUMN_RULES,
    "literal": _literal,
    "list": array,
    "NEGATE": _negate,
    "CAST": _cast,
    "TRY_CAST": _cast,
    "AND": _kleene(pc.and_kleene),
    "OR": _kleene(pc.or_kleene),
    "NOT": _not,
    **dict.fromkeys(COMPARISONS, _comparison),
    "IS NULL": _is_null,
    "IS TRUE": _is(True),
    "IS FALSE": _is(False),
    "IN": _in,
    "NOT IN": _not_in,
    "BETWEEN": _between,
    "LIKE": _like,
    "ILIKE": _like,
    "+": _arithmetic(add),
    "-": _arithmetic(subtract),
    "*": _arithmetic(multiply),
    "/": _arithmetic(divide),
    "%": _arithmetic(modulo),
    "<<": _shift(pc.shift_left),
    ">>": _shift(pc.shift_right),
    "||": _concat,
    "call": call_function,
}


def _plain_conditions(tree: Syntax) -> frozenset[int]:
    """Return the ids of conditions that only AND, OR and parentheses are around."""
    waiting, found = [tree], list[int]()
    while waiting:
        piece = waiting.pop()
        if piece.kind in ("AND", "OR"):
            waiting += piece.parts
        else:
            found.append(id(piece))
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Compiled:
    """The tree of a text, what it was compiled with, and to what."""

    tree: Syntax
    scope: Scope
    node: Node


def compile_sql(sql: str, schema: pa.Schema, now: int) -> Compiled:
    """Compile the text of an expression for a schema, at a time in nanoseconds since 1970."""
    tree = parse(sql)
    fields = {field.name: field.type for field in schema}
    scope = Scope(sql, fields, _RULES, _plain_conditions(tree), now)
    node = scope.compile(tree)
    return Compiled(tree, scope, node if node.field else node.as_stored)
