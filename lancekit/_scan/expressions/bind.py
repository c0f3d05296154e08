"""Binding of syntax trees to a schema.

Each kind of syntax node has one entry in ``_RULES``. The type of an expression is found by running
it on no rows, so that types are never derived twice. Imported only when text is bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import NoReturn, TypeAlias

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import scalar_of
from lancekit._format.arrow_parts import unit_and_zone
from lancekit._scan.expressions.columns import COLUMN_RULES
from lancekit._scan.expressions.evaluate import FAILURES, value_of
from lancekit._scan.expressions.kernels.casts import DIGITS, cast, decimal
from lancekit._scan.expressions.kernels.operators import COMPARISONS, Value, family
from lancekit._scan.expressions.literals import at_once, exact_moment, moment, natural, negated
from lancekit._scan.expressions.nodes import InList, Place
from lancekit._scan.expressions.scope import Bound, Scope, cast_number, constant
from lancekit._scan.expressions.syntax import Syntax
from lancekit.errors import PredicateError

# ---- literals


def _negate(tree: Syntax, scope: Scope) -> Bound:
    node = scope.compile(tree.parts[0])
    if node.literal and type(node.literal[0]) in (int, Decimal):
        value = negated(node.literal[0])
        return constant(natural(value), value)
    return scope.call("NEGATE", [node], label="-")


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

#: units of timestamps by the number of fraction digits
_FRACTIONS: Mapping[str, str] = {"0": "s", "3": "ms", "6": "us", "9": "ns"}


def _target(tree: Syntax, scope: Scope) -> pa.DataType:
    """Return the type that a cast names."""
    name, sizes, text = tree.value
    if name == "decimal" and not sizes:
        return pa.decimal128(38, 10)
    if name == "decimal" and all(map(_SIZE.fullmatch, sizes)):
        kind = decimal(*map(int, sizes)) if len(sizes) <= 2 else None
        if kind is None:
            hint = f"decimal(p, s) has at most p = {DIGITS} digits, s of them behind the point."
            raise scope.fail(tree, f"there is no {text}.", hint)
        return kind
    if len(sizes) == 1 and name == "timestamp" and sizes[0] in _FRACTIONS:
        return pa.timestamp(_FRACTIONS[sizes[0]])
    if sizes or name not in _TYPES:
        raise scope.fail(tree, f"there is no cast to {text}.")
    return _TYPES[name]


def _cast(tree: Syntax, scope: Scope) -> Bound:
    node, kind = scope.compile(tree.parts[0]), _target(tree, scope)
    tries = tree.kind == "TRY_CAST"
    if (exact := cast_number(node, kind, tree, scope, tries=tries)) is not None:
        return exact
    if tries:
        return scope.call("TRY_CAST", [node], tree, options=(kind,))
    if node.literal and isinstance(node.literal[0], str):
        return constant(_read(tree, node.literal[0], kind, scope))
    done = scope.call("CAST", [node], tree, options=(kind,), label=f"CAST to {kind}")
    return replace(done, cast_of=node)


def _read(tree: Syntax, text: str, kind: pa.DataType, scope: Scope) -> pa.Scalar:
    """Parse the text of a typed literal such as DATE '2020-01-31'."""
    try:
        if family(kind) != "moment":
            return cast(scalar_of(text), kind)
        has_offset = pt.is_timestamp(kind) and re.search(
            r":\d\d.*(Z|z|[+-]\d\d(:?\d\d)?)\s*$", text
        )
        zoned = pa.timestamp(unit_and_zone(kind)[0], "UTC") if has_offset else kind
        # CAST(... AS timestamp(6)) cuts finer digits off, TIMESTAMP '...' keeps them
        return (moment if tree.value.sizes else exact_moment)(text, zoned)
    except FAILURES as error:
        name = "date" if pt.is_date(kind) else "timestamp" if pt.is_timestamp(kind) else str(kind)
        hint = "Write DATE '2020-01-31' or TIMESTAMP '2020-01-31 12:00:00'."
        is_moment = family(kind) == "moment"
        raise scope.fail(tree, f"{text!r} is not a {name}.", hint if is_moment else "") from error


# ---- operators


def _compare(scope: Scope, label: str, left: Bound, right: Bound, *, strict: bool = False) -> Bound:
    """Bind a comparison, after literals are coerced and needless casts are unwrapped."""
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
            left, right = _coerced_text(scope, left, right), _coerced_text(scope, right, left)
    left, right = _before_cast(left, right), _before_cast(right, left)
    if label in ("=", "<>"):
        left, right = _before_written(left, right)
        right, left = _before_written(right, left)
    left, right = scope.pair(left, right, strict=strict)
    scope.same_family(label, [left, right])
    return scope.call(label, [left, right])


def _coerced_text(scope: Scope, node: Bound, other: Bound) -> Bound:
    """Coerce a text literal to the type of the other literal."""
    if not isinstance(node.literal[0], str):
        return node
    return scope.coerce(node, replace(other, literal=()))


#: how a cast to text writes integers of at most 64 bits
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,19}")


def _before_cast(node: Bound, other: Bound) -> Bound:
    """Unwrap a cast of integers that is compared with an integer literal that both types hold.

    The reference does the same, so a value that the cast would refuse is not an error.
    """
    inner, literal = node.cast_of, other.literal
    if inner is None or not literal or type(literal[0]) is not int:
        return node
    whole = pt.is_integer(inner.type) and (pt.is_integer(node.type) or pt.is_decimal(node.type))
    both_hold = whole and all(_holds(kind, literal[0]) for kind in (inner.type, node.type))
    return inner if both_hold else node


def _before_written(node: Bound, other: Bound) -> tuple[Bound, Bound]:
    """Unwrap a cast of integers to text that is compared with the text of an integer."""
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


def _comparison(tree: Syntax, scope: Scope) -> Bound:
    left, right = map(scope.compile, tree.parts)
    return _compare(scope, tree.kind, left, right, strict=id(tree) in scope.strict)


def _is_fraction(node: Bound, other: Bound) -> bool:
    """Return True for a fraction literal beside an integer: both are computed as doubles."""
    is_fraction = bool(node.literal) and isinstance(node.literal[0], Decimal)
    return is_fraction and pt.is_integer(other.type)


def _adds(node: Bound) -> bool:
    """Return True if both operands must have one type family: not for dates and durations."""
    return family(node.type) not in ("moment", "duration") and not pt.is_date32(node.type)


_Rule: TypeAlias = Callable[[Syntax, Scope], Bound]


def _arithmetic(tree: Syntax, scope: Scope) -> Bound:
    left, right = map(scope.compile, tree.parts)
    dated = pt.is_date(left.type) or pt.is_date(right.type)
    if not (dated or _is_fraction(left, right) or _is_fraction(right, left)):
        left, right = scope.pair(left, right, strict=id(tree) in scope.strict)
    if _adds(left) and _adds(right):
        scope.same_family(tree.kind, [left, right])
    return scope.call(tree.kind, [left, right])


def _shift(tree: Syntax, scope: Scope) -> Bound:
    left, right = map(scope.compile, tree.parts)
    return scope.call(tree.kind, scope.pair(left, right, strict=id(tree) in scope.strict), tree)


def _logical(tree: Syntax, scope: Scope) -> Bound:
    return scope.call(tree.kind, [scope.boolean(part, tree.kind) for part in tree.parts])


def _is(tree: Syntax, scope: Scope) -> Bound:
    return scope.call(tree.kind, [scope.boolean(tree.parts[0], "IS TRUE")], label="IS TRUE")


def _in(tree: Syntax, scope: Scope) -> Bound:
    node = scope.compile(tree.parts[0])
    strict = tree.parts[0].is_column and _is_strict(tree, node, scope)
    members, others = _items_of(scope, tree)
    parts = []
    if node.literal or (node.cast_of and (others or members.folded)):  # one comparison per literal
        parts = [_compare(scope, "=", node, item, strict=strict) for item in members.nodes()]
    elif members:
        parts = [_among(scope, node, members, tree, strict=strict)]
    parts += [_compare(scope, "=", node, item, strict=strict) for item in others]
    return scope.call("OR", parts, label="IN") if len(parts) > 1 else parts[0]


def _between(tree: Syntax, scope: Scope) -> Bound:
    node, low, high = map(scope.compile, tree.parts)
    strict = bool(node.field) and _is_strict(tree, node, scope)
    low = _compare(scope, ">=", node, low, strict=strict)
    high = _compare(scope, "<=", node, high, strict=strict)
    return scope.call("AND", [low, high], tree, label="BETWEEN")


def _like(tree: Syntax, scope: Scope) -> Bound:
    args = scope.pair(*map(scope.compile, tree.parts))
    for node in args:
        if family(node.type) not in ("text", "null"):
            raise scope.fail(node, f"LIKE needs text, but {node.field or 'a side'} is {node.type}.")
    return scope.call("LIKE", args, options=(tree.kind == "ILIKE", tree.value))


def _call(tree: Syntax, scope: Scope) -> Bound:
    from lancekit._scan.expressions.calls import call_function  # loads all functions

    return call_function(tree, scope)


def _list(tree: Syntax, scope: Scope) -> Bound:
    from lancekit._scan.expressions.calls import array  # loads all functions

    return array(tree, scope)


_RULES: Mapping[str, _Rule] = {
    **COLUMN_RULES,
    "literal": lambda tree, _scope: constant(natural(tree.value), tree.value),
    "list": _list,
    "NEGATE": _negate,
    "CAST": _cast,
    "TRY_CAST": _cast,
    **dict.fromkeys(("AND", "OR", "NOT"), _logical),
    **dict.fromkeys(COMPARISONS, _comparison),
    "IS NULL": lambda tree, scope: scope.call("IS NULL", [scope.compile(tree.parts[0]).as_stored]),
    "IS TRUE": _is,
    "IS FALSE": _is,
    "IN": _in,
    "NOT IN": lambda tree, scope: scope.call("NOT", [_in(tree, scope)]),
    "BETWEEN": _between,
    "LIKE": _like,
    "ILIKE": _like,
    **dict.fromkeys(("+", "-", "*", "/", "%"), _arithmetic),
    **dict.fromkeys(("<<", ">>"), _shift),
    "||": lambda tree, scope: scope.call("||", [*map(scope.compile, tree.parts)]),
    "call": _call,
}


def _is_strict(tree: Syntax, node: Bound, scope: Scope) -> bool:
    """Return True if members or ends must be values of the type; after NOT, only floats."""
    found = scope.strict.get(id(tree))
    return found is True or (found is False and pt.is_floating(node.type))


def _strict_conditions(tree: Syntax) -> dict[int, bool]:
    """Return the ids of the conditions that are joined by AND and OR only (see `Scope`)."""
    waiting, found = [tree], dict[int, bool]()
    while waiting:
        piece = waiting.pop()
        if piece.kind in ("AND", "OR"):
            waiting += piece.parts
            continue
        found[id(piece)] = True
        if piece.kind == "NOT" and piece.start == piece.parts[0].start:  # x NOT IN, not: NOT x IN
            found[id(piece.parts[0])] = False
    return found


def bind(tree: Syntax, sql: str, schema: pa.Schema, now: int) -> Bound:
    """Bind a syntax tree to a schema, at a time in nanoseconds since 1970."""
    fields = {field.name: field.type for field in schema}
    scope = Scope(sql, fields, _RULES, _strict_conditions(tree), now)
    found = scope.compile(tree)
    return found if found.field else found.as_stored


# ---- ``IN`` lists of literals, looked up as sets

#: in shorter lists, computed constants are compared one by one
_FEW = 16


@dataclass(slots=True)
class _Members:
    """The items of a list: literals with positions in the text, and computed constants by type."""

    values: list[object] = field(default_factory=list)
    places: Iterable[int] = ()
    folded: list[pa.Array] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.values or self.folded)

    @property
    def has_null(self) -> bool:
        """True if an item is null."""
        return None in self.values or any(ak.null_count(array) for array in self.folded)

    def nodes(self) -> Iterator[Bound]:
        """Yield each item as a bound constant."""
        for value, place in zip(self.values, self.places, strict=True):
            yield replace(constant(natural(value), value), position=place)
        for array in self.folded:
            yield from map(constant, array)


def _items_of(scope: Scope, tree: Syntax) -> tuple[_Members, list[Bound]]:
    """Return the constant items of a list, and the other items as bound nodes."""
    if tree.value is not None:
        return _Members(tree.value.values, tree.value.places), []
    nodes = [scope.compile(item) for item in tree.parts[1:]]
    literals = [node for node in nodes if node.literal]
    members = _Members([node.literal[0] for node in literals], [node.position for node in literals])
    others = [node for node in nodes if not node.literal]
    return members, others if len(others) < _FEW else _folded(members, others)


def _folded(members: _Members, nodes: Sequence[Bound]) -> list[Bound]:
    """Add constant expressions to the members, and return the remaining nodes."""
    others = list[Bound]()
    by_type: dict[pa.DataType, list[pa.Scalar]] = {}
    for node in nodes:
        value = None if node.columns else _computed(node)
        if value is None:
            others.append(node)
        else:
            by_type.setdefault(value.type, []).append(value)
    members.folded += [pa.array(values, kind) for kind, values in by_type.items()]
    return others


def _computed(node: Bound) -> pa.Scalar | None:
    try:
        value = value_of(node.expr, _never)
    except PredicateError:  # raised again when rows are evaluated
        return None
    return value if isinstance(value, pa.Scalar) and value.type == node.type else None


def _among(scope: Scope, node: Bound, members: _Members, tree: Syntax, *, strict: bool) -> Bound:
    """Bind an ``IN`` list: the result of ``=`` with each item, joined by ``OR``."""
    sets = tuple(_sets_of(scope, node, members, strict=strict))
    at = Place(scope.sql, tree.at)
    expr = InList(pa.bool_(), node.expr, sets, members.has_null, at=at)
    return scope.tried(expr, [node], "IN")


def _sets_of(scope: Scope, node: Bound, members: _Members, *, strict: bool) -> list[pa.Array]:
    """Return the members without nulls, as arrays coerced to the type of an expression."""
    for array in members.folded:
        scope.same_family("=", [node, constant(array[0])])
    sets = [some for array in members.folded if len(some := ak.drop_null(array))]
    if any(value is not None for value in members.values):
        sets += _sets(scope, node, members.values, members.places, strict=strict)
    for some in sets:
        scope.same_family("=", [node, constant(some[0])])
    return sets


def _sets(
    scope: Scope, node: Bound, values: Sequence[object], places: Iterable[int], *, strict: bool
) -> list[pa.Array]:
    """Return the literals as arrays, one for each type that they are coerced to."""
    kind = node.compared_type if strict else node.type
    whole = at_once([value for value in values if value is not None], kind, strict=strict)
    if whole is not None:
        return [whole]
    by_type: dict[pa.DataType, list[Value]] = {}
    for value, place in zip(values, places, strict=True):
        if value is not None:
            literal = replace(constant(natural(value), value), position=place)
            given = scope.coerce(literal, node, strict=strict).example
            by_type.setdefault(given.type, []).append(given)
    return [pa.array(scalars, type_) for type_, scalars in by_type.items()]


def _never(_argument: object) -> NoReturn:
    raise AssertionError("list elements read no column")
