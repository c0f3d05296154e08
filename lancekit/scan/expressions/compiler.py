"""Syntax tree to a tree of Arrow kernels, bound to a schema.

Each sort of node has one entry in ``_RULES``.  The type of an expression is found by running it
on no rows, so that types are never derived twice.  Imported only when text has to be compiled, with
the kernels of all functions.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lancekit.errors import PredicateError
from lancekit.format.arrow_parts import unit_and_zone
from lancekit.scan.expressions.calls import array, call_function, cast_number
from lancekit.scan.expressions.columns import COLUMN_RULES
from lancekit.scan.expressions.gathered import chain, is_plain_name, items_of, plain_conditions
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
from lancekit.scan.expressions.literals import (
    exact_moment,
    moment,
    moments,
    natural,
    naturals,
    negated,
    number,
)
from lancekit.scan.expressions.membership import Members, among
from lancekit.scan.expressions.scope import FAILURES, Node, Scope, Unlike, constant
from lancekit.scan.expressions.simple import parse_simple
from lancekit.scan.expressions.syntax import gathered_in, kind_of, listed_in, slot_of

__all__ = ["Compiled", "compile_sql"]


# ---- literals


def _literal(tree: Any, scope: Scope) -> Node:
    if gathered := gathered_in(tree):
        return chain(tree, gathered, scope)
    if slot := slot_of(tree):
        return scope.vary(naturals(slot.values), slot)
    if tree.is_string:
        value: Any = tree.this
    else:
        value = number(tree.this)
    return constant(natural(value), value)


def _hex(tree: Any, scope: Scope) -> Node:
    if slot := slot_of(tree):
        return scope.vary(naturals(slot.values), slot)
    try:
        value = bytes.fromhex(tree.this)
    except ValueError as error:
        raise scope.fail(tree, f"X'{tree.this}' is not a sequence of bytes in hex.") from error
    return constant(scalar_of(value), value)


def _negate(tree: Any, scope: Scope) -> Node:
    node = scope.compile(tree.this)
    if node.literal and isinstance(node.literal[0], int | Decimal):
        value = negated(node.literal[0])
        return constant(natural(value), value)
    if node.many and isinstance(node.many.values[0], int | Decimal):
        slot = replace(node.many, values=tuple(map(negated, node.many.values)))
        return scope.vary(naturals(slot.values), slot)
    return scope.call("-", pc.negate_checked, [node])


_TYPES: Mapping[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINT": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "DATETIME": pa.timestamp("us"),
}


_SIZE = re.compile(r"-?[0-9]{1,9}")

_MOMENTS = frozenset({"TIMESTAMP", "DATETIME"})
#: units of timestamps by the digits of their seconds' fraction
_FRACTIONS: Mapping[str, str] = {"0": "s", "3": "ms", "6": "us", "9": "ns"}


def _target(whole: Any, scope: Scope) -> pa.DataType:
    tree = whole.to
    name = str(getattr(tree.this, "value", ""))
    sizes = [size.name for size in tree.expressions]
    if name == "DECIMAL" and not sizes:
        return pa.decimal128(38, 10)
    if name == "DECIMAL" and all(map(_SIZE.fullmatch, sizes)):
        kind = decimal(*map(int, sizes)) if len(sizes) <= 2 else None
        if kind is None:
            hint = f"decimal(p, s) has at most {DIGITS} digits in all, p, and s behind the point."
            raise scope.fail(whole, f"there is no {tree.sql()}.", hint)
        return kind
    if len(sizes) == 1 and name in _MOMENTS and sizes[0] in _FRACTIONS:
        return pa.timestamp(_FRACTIONS[sizes[0]])
    if sizes or name not in _TYPES:
        raise scope.fail(whole, f"there is no cast to {tree.sql()}.")
    return _TYPES[name]


def _has_offset(text: str, kind: pa.DataType) -> bool:
    """Tell whether a timestamp's text ends in ``Z`` or in an offset such as ``-05:00``."""
    return (
        pt.is_timestamp(kind) and re.search(r":\d\d.*(Z|z|[+-]\d\d(:?\d\d)?)\s*$", text) is not None
    )


def _cast(tree: Any, scope: Scope) -> Node:
    node, kind = scope.compile(tree.this), _target(tree, scope)
    if (exact := cast_number(node, kind, tree, scope)) is not None:
        return exact
    if kind_of(tree) == "trycast":
        return scope.call("TRY_CAST", lambda value: try_cast(value, kind), [node], tree)
    if node.literal and isinstance(node.literal[0], str):
        return constant(_read(tree, node.literal[0], kind, scope))
    if node.many and isinstance(node.many.values[0], str):
        return scope.vary(_read_all(tree, node.many.values, kind, scope))
    done = scope.call(f"CAST to {kind}", lambda value: cast(value, kind), [node], tree)
    return replace(done, cast_of=node)


def _read(tree: Any, text: str, kind: pa.DataType, scope: Scope) -> pa.Scalar:
    """Read the text of a literal such as DATE '2020-01-31'."""
    try:
        if family(kind) != "moment":
            return cast(scalar_of(text), kind)
        zoned = pa.timestamp(unit_and_zone(kind)[0], "UTC") if _has_offset(text, kind) else kind
        # CAST(... AS timestamp(6)) cuts finer digits off, TIMESTAMP '...' keeps them
        return (moment if tree.to.expressions else exact_moment)(text, zoned)
    except FAILURES as error:
        name = "date" if pt.is_date(kind) else "timestamp" if pt.is_timestamp(kind) else str(kind)
        hint = "Write DATE '2020-01-31' or TIMESTAMP '2020-01-31 12:00:00'."
        is_moment = family(kind) == "moment"
        raise scope.fail(tree, f"{text!r} is not a {name}.", hint if is_moment else "") from error


def _read_all(tree: Any, texts: Sequence[str], kind: pa.DataType, scope: Scope) -> pa.Array:
    try:
        found = moments(texts, kind) if family(kind) == "moment" else cast(pa.array(texts), kind)
    except FAILURES:
        found = None
    return scope.alike(_read(tree, t, kind, scope) for t in texts) if found is None else found


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
    for one, other in ((left, right), (right, left)):
        if one.many and (other.literal or other.many or other.cast_of):
            raise Unlike
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


def _comparison(label: str) -> Callable[[Any, Scope], Node]:
    return lambda tree, scope: _compare(
        scope,
        label,
        scope.compile(tree.this),
        scope.compile(tree.expression),
        plain=id(tree) in scope.plain,
    )


def _is_fraction(node: Node, other: Node) -> bool:
    """Tell whether a fraction stands beside an integer: they compute as doubles."""
    written = node.many.values if node.many else node.literal
    return bool(written) and isinstance(written[0], Decimal) and pt.is_integer(other.type)


def _adds(node: Node) -> bool:
    """Tell whether values are of a kind that only its own can be added to."""
    return family(node.type) not in ("moment", "duration") and not pt.is_date32(node.type)


def _arithmetic(
    label: str, kernel: Callable[[Value, Value], Value]
) -> Callable[[Any, Scope], Node]:
    def rule(tree: Any, scope: Scope) -> Node:
        left, right = scope.compile(tree.this), scope.compile(tree.expression)
        dated = pt.is_date(left.type) or pt.is_date(right.type)
        if not (dated or _is_fraction(left, right) or _is_fraction(right, left)):
            left, right = scope.pair(left, right, plain=id(tree) in scope.plain)
        if _adds(left) and _adds(right):
            scope.same_family(label, [left, right])
        return scope.call(label, lambda a, b: kernel(*align(a, b)), [left, right])

    return rule


def _shift(label: str, kernel: Callable[[Value, Value], Value]) -> Callable[[Any, Scope], Node]:
    def rule(tree: Any, scope: Scope) -> Node:
        left, right = scope.compile(tree.this), scope.compile(tree.expression)
        args = scope.pair(left, right, plain=id(tree) in scope.plain)
        return scope.call(label, kernel, args, tree)

    return rule


def _kleene(label: str, kernel: Callable[[Value, Value], Value]) -> Callable[[Any, Scope], Node]:
    def rule(tree: Any, scope: Scope) -> Node:
        # A chain of a thousand conditions is as deep a tree: flat, it needs no recursion.
        nodes = [scope.boolean(part, label) for part in tree.flatten()]
        return scope.call(label, lambda *values: reduce(kernel, values), nodes)

    return rule


def _not(tree: Any, scope: Scope) -> Node:
    return scope.call("NOT", pc.invert, [scope.boolean(tree.this, "NOT")])


def _is(tree: Any, scope: Scope) -> Node:
    if kind_of(tree.expression) == "null":
        return scope.call("IS NULL", pc.is_null, [scope.compile(tree.this).as_stored])
    if kind_of(tree.expression) != "boolean":
        raise scope.fail(tree, f"{tree.sql()!r}: IS takes NULL, TRUE or FALSE.")
    wanted = bool(tree.expression.this)
    node = scope.boolean(tree.this, "IS TRUE")
    return scope.call(
        "IS TRUE",
        lambda v: pc.fill_null(v if wanted else pc.invert(v), False),
        [node],
    )


def _in(tree: Any, scope: Scope) -> Node:
    if not tree.expressions:
        raise scope.fail(tree, f"{tree.sql()!r}: IN takes a list of values in parentheses.")
    node = scope.compile(tree.this)
    plain = id(tree) in scope.plain and is_plain_name(tree.this)
    listed = listed_in(tree)
    if listed is not None:
        members, others = Members(listed.values, listed.places), list[Node]()
    else:
        members, others = items_of(scope, tree)
    parts = []
    if (
        node.literal or node.many or (node.cast_of and (others or members.folded))
    ):  # literals matter one by one
        parts = [_compare(scope, "=", node, item, plain=plain) for item in members.nodes()]
    elif members:
        parts = [among(scope, node, members, tree, plain=plain)]
    parts += [_compare(scope, "=", node, item, plain=plain) for item in others]
    return scope.call("IN", lambda *found: reduce(pc.or_kleene, found), parts)


def _between(tree: Any, scope: Scope) -> Node:
    node = scope.compile(tree.this)
    plain = id(tree) in scope.plain and bool(node.field)
    low = _compare(scope, ">=", node, scope.compile(tree.args["low"]), plain=plain)
    high = _compare(scope, "<=", node, scope.compile(tree.args["high"]), plain=plain)
    return scope.call("BETWEEN", pc.and_kleene, [low, high], tree)


def _like_with(scope: Scope, tree: Any, escape: str) -> Node:
    args = scope.pair(scope.compile(tree.this), scope.compile(tree.expression))
    for node in args:
        if family(node.type) not in ("text", "null"):
            raise scope.fail(node, f"LIKE needs text, but {node.field or 'a side'} is {node.type}.")
    ignore_case = kind_of(tree) == "ilike"
    found = scope.call(
        "LIKE", lambda v, p: like(v, p, ignore_case=ignore_case, escape=escape), args
    )
    # NOT LIKE is a flag of the node in newer releases of sqlglot, a Not around it in older ones.
    return scope.call("NOT", pc.invert, [found]) if tree.args.get("negate") else found


def _escape(tree: Any, scope: Scope) -> Node:
    escape = tree.expression
    one = kind_of(escape) == "literal" and escape.is_string and len(escape.this) == 1
    if not one or kind_of(tree.this) not in ("like", "ilike"):
        raise scope.fail(tree, "ESCAPE takes one character, after a LIKE.")
    return _like_with(scope, tree.this, escape.this)


_CONCAT = Function(concat, ("",), 2, 2, size=joined)


def _concat(tree: Any, scope: Scope) -> Node:
    sides = [scope.compile(tree.this), scope.compile(tree.expression)]
    return scope.call("||", partial(_CONCAT.run, "||"), sides)


_RULES: Mapping[str, Callable[[Any, Scope], Node]] = {
    **COLUMN_RULES,
    "literal": _literal,
    "hexstring": _hex,
    "boolean": lambda tree, _scope: constant(scalar_of(tree.this), tree.this),
    "null": lambda _tree, _scope: constant(scalar_of(None), None),
    "array": array,
    "paren": lambda tree, scope: scope.compile(tree.this),
    "neg": _negate,
    "cast": _cast,
    "trycast": _cast,
    "and": _kleene("AND", pc.and_kleene),
    "or": _kleene("OR", pc.or_kleene),
    "not": _not,
    "eq": _comparison("="),
    "neq": _comparison("<>"),
    "gt": _comparison(">"),
    "gte": _comparison(">="),
    "lt": _comparison("<"),
    "lte": _comparison("<="),
    "nullsafeeq": _comparison("IS NOT DISTINCT FROM"),
    "nullsafeneq": _comparison("IS DISTINCT FROM"),
    "is": _is,
    "in": _in,
    "between": _between,
    "like": lambda tree, scope: _like_with(scope, tree, "\\"),
    "ilike": lambda tree, scope: _like_with(scope, tree, "\\"),
    "escape": _escape,
    "add": _arithmetic("+", add),
    "sub": _arithmetic("-", subtract),
    "mul": _arithmetic("*", multiply),
    "div": _arithmetic("/", divide),
    "mod": _arithmetic("%", modulo),
    "bitwiseleftshift": _shift("<<", pc.shift_left),
    "bitwiserightshift": _shift(">>", pc.shift_right),
    "dpipe": _concat,
    "anonymous": call_function,
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """The tree of a text, what it was compiled with, and to what."""

    tree: Any
    scope: Scope
    node: Node


def compile_sql(sql: str, schema: pa.Schema, now: int) -> Compiled:
    """Compile the text of an expression for a schema, at a time in nanoseconds since 1970."""
    simple = parse_simple(sql)
    if simple is not None:
        with contextlib.suppress(PredicateError):  # the error comes below: it may quote the text
            return _compiled(sql, simple, schema, now)
    from lancekit.scan.expressions.parser import parse  # loads sqlglot

    return _compiled(sql, parse(sql), schema, now)


def _compiled(sql: str, tree: Any, schema: pa.Schema, now: int) -> Compiled:
    fields = {field.name: field.type for field in schema}
    scope = Scope(sql, fields, _RULES, plain_conditions(tree), now)
    node = scope.compile(tree)
    return Compiled(tree, scope, node if node.field else node.as_stored)
