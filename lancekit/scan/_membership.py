"""Which values are among many: ``IN`` a list of literals, looked up as sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lancekit.scan._kernels import COMPARISONS, Value, align
from lancekit.scan._scope import Node, Scope, constant

__all__ = ["among"]


def among(
    scope: Scope,
    node: Node,
    values: Sequence[Any],
    places: Sequence[int],
    tree: Any,
    *,
    plain: bool,
) -> Node:
    """Tell where an expression is one of some literals, which have places in the text.

    As ``=`` with each of them, joined by ``OR``, tells it.
    """
    present = [value for value in values if value is not None]
    sets = _sets(scope, node, values, places, plain=plain) if present else []
    for some in sets:
        scope.same_family("=", [node, constant(some[0])])
    missing = pa.scalar(None if len(present) < len(values) else False, pa.bool_())

    def run(value: Value) -> Value:
        found: Value = reduce(pc.or_, [_is_in(value, some) for some in sets], pa.scalar(False))
        return pc.if_else(
            pc.is_valid(value), pc.if_else(found, True, missing), pa.scalar(None, pa.bool_())
        )

    return scope.call("IN", run, [node], tree)


def _sets(
    scope: Scope, node: Node, values: Sequence[Any], places: Sequence[int], *, plain: bool
) -> list[pa.Array]:
    """Return the literals as arrays, one for each type that they take beside the expression."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) == 1:
        whole = _at_once(kinds.pop(), [v for v in values if v is not None], node.type, plain=plain)
        if whole is not None:
            return [whole]
    by_type: dict[pa.DataType, list[pa.Scalar]] = {}
    for value, place in zip(values, places, strict=True):
        if value is not None:
            literal = Node(run=_never, example=pa.scalar(None), literal=(value,), position=place)
            given = scope.beside(literal, node, plain=plain).example
            by_type.setdefault(given.type, []).append(given)
    return [pa.array(scalars, kind) for kind, scalars in by_type.items()]


def _never(_rows: object) -> Value:
    raise AssertionError("the literals of a list are not computed one by one")


def _at_once(kind: type, values: list[Any], beside: pa.DataType, *, plain: bool) -> pa.Array | None:
    """Return what literals are beside a type, for the common types; as if taken one by one."""
    make = _AT_ONCE.get((kind, _family(beside), plain))
    try:
        return make(values, beside) if make is not None else None
    except (pa.ArrowInvalid, OverflowError):
        return None  # one of them does not fit: which, is told when each is looked at


def _family(kind: pa.DataType) -> str:
    tests = (pt.is_integer, "integer"), (pt.is_floating, "float"), (pt.is_string, "text")
    return next((name for test, name in tests if test(kind)), "")


def _as_given(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind)


def _as_doubles(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(list(map(float, values)), pa.float64()).cast(kind)


def _as_bigint(values: list[Any], _kind: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int64())


# (type of the literals, family beside them, whether they have to be of its type): how they are read
_AT_ONCE: dict[tuple[type, str, bool], Callable[[list[Any], pa.DataType], pa.Array]] = {
    (int, "integer", True): _as_given,
    (int, "integer", False): _as_bigint,
    (int, "float", True): _as_doubles,
    (int, "float", False): _as_bigint,
    (Decimal, "float", True): _as_doubles,
    (Decimal, "float", False): lambda values, _kind: _as_doubles(values, pa.float64()),
    (str, "text", True): _as_given,
    (str, "text", False): _as_given,
}


# ---- looking up


def _is_in(value: Value, some: pa.Array) -> Value:
    """Tell where a value equals one of some others."""
    left, right = _alike(*align(value, some))
    if left.type != right.type:  # what Arrow compares, and has no sets of
        return reduce(pc.or_, [COMPARISONS["="](value, other) for other in some])
    if pt.is_floating(left.type):
        left, right = pc.add(left, 0.0), pc.add(right, 0.0)  # one zero
    if isinstance(left, pa.Scalar) or not pt.is_integer(left.type) or left.type.bit_width < 16:
        return pc.is_in(left, value_set=right)
    # NumPy looks whole numbers up in a table; what it finds for nulls does not matter
    return pa.array(np.isin(pc.fill_null(left, 0).to_numpy(), right.to_numpy()))


def _alike(left: Value, right: pa.Array) -> tuple[Value, pa.Array]:
    """Bring both to one type, where one holds the values of both."""
    kinds = left.type, right.type
    if kinds[0] == kinds[1]:
        return left, right
    for test, common in ((pt.is_integer, pa.int64()), (pt.is_floating, pa.float64())):
        if all(map(test, kinds)):
            return pc.cast(left, common), right.cast(common)
    if all(map(pt.is_decimal, kinds)):
        scale = max(kind.scale for kind in kinds)
        whole = max(kind.precision - kind.scale for kind in kinds)
        common = pa.decimal256(whole + scale, scale)
        return pc.cast(left, common), right.cast(common)
    if pt.is_string(kinds[1]) and pt.is_large_string(kinds[0]):
        return left, right.cast(kinds[0])
    return left, right
