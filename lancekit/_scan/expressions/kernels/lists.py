"""Functions of lists and of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial, reduce

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import scalar_of
from lancekit._casts import nearest
from lancekit._scan.expressions.kernels.casts import cast
from lancekit._scan.expressions.kernels.function import Function, constant_of, per_value, unary
from lancekit._scan.expressions.kernels.operators import COMPARISONS, Value, as_array


def _equal(items: pa.Array, wanted: Value) -> pa.Array:
    """Tell which items are what is wanted; null is nothing."""
    return pc.fill_null(as_array(COMPARISONS["="](items, wanted), len(items)), False)


def _array_has(lists: pa.Array, item: Value) -> Value:
    """Tell for each list whether it holds the item: look at all elements, then per list."""
    if isinstance(item, pa.Scalar) and not item.is_valid:
        return scalar_of(None, pa.bool_())
    parents = ak.list_parents(lists)
    wanted = item if isinstance(item, pa.Scalar) else ak.take(item, parents)
    hits = _equal(pc.list_flatten(lists), wanted)
    found = np.zeros(len(lists), bool)
    found[ak.filter(parents, hits).to_numpy()] = True
    known = pc.and_(pc.is_valid(lists), pc.is_valid(item))
    return pc.if_else(known, pa.array(found), scalar_of(None, pa.bool_()))


def _array_has_any(lists: pa.Array, items: Value) -> Value:
    hits = [_array_has(lists, item) for item in _items(items)]
    return reduce(pc.or_, hits, _where_valid(lists, False))


def _array_has_all(lists: pa.Array, items: Value) -> Value:
    hits = [_array_has(lists, item) for item in _items(items)]
    return reduce(pc.and_, hits, _where_valid(lists, True))


def _where_valid(lists: pa.Array, value: bool) -> Value:
    return pc.if_else(pc.is_valid(lists), value, scalar_of(None, pa.bool_()))


def _items(items: Value) -> list[pa.Scalar]:
    if not isinstance(items, pa.Scalar):
        raise pa.ArrowNotImplementedError("the items have to be constants")
    return list(items.values or ()) if isinstance(items, pa.ListScalar) else []


def array_element(lists: pa.Array, place: Value) -> Value:
    """Return an element of each list: counted from 1, or from the end by negative numbers.

    It is null where a list has no such element.
    """
    if not pt.is_integer(place.type):
        raise pa.ArrowNotImplementedError("the place has to be a whole number")
    if isinstance(place, pa.Scalar):
        wanted = np.full(len(lists), place.as_py() or 0)
    else:
        wanted = pc.fill_null(pc.cast(place, pa.int64()), 0).to_numpy()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    at = starts + np.where(wanted > 0, wanted - 1, lengths + wanted)
    missing = (lengths < np.abs(wanted)) | (wanted == 0)
    return ak.take(pc.list_flatten(lists), pa.array(np.where(missing, 0, at), mask=missing))


def _array_length(lists: pa.Array, dimension: Value | None = None) -> Value:
    if dimension is not None and constant_of(dimension) != 1:
        raise pa.ArrowNotImplementedError("only the first dimension has a length")
    return pc.cast(pc.list_value_length(lists), pa.uint64())


def _array_position(lists: pa.Array, item: Value) -> Value:
    """Return the place of an item's first occurrence, null if there is none."""
    parents = ak.list_parents(lists).to_numpy()
    wanted = item if isinstance(item, pa.Scalar) else ak.take(item, parents)
    hits = np.flatnonzero(_equal(pc.list_flatten(lists), wanted).to_numpy(zero_copy_only=False))
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    rows, first = np.unique(parents[hits], return_index=True)
    places = np.zeros(len(lists), np.uint64)
    places[rows] = hits[first] - (np.cumsum(lengths) - lengths)[rows] + 1
    return pa.array(places, mask=places == 0)


def _of_each(name: str, lists: pa.Array) -> Value:
    """Return the least or the greatest item of each list ("min", "max"), null for one without any.

    NaN is greater than every number, as in comparisons.
    """
    rows, items = ak.list_parents(lists), pc.list_flatten(lists)
    if not pt.is_floating(items.type):
        return _grouped(name, len(lists), rows, items)
    is_nan = pc.fill_null(pc.is_nan(items), False)
    number = pc.invert(is_nan)
    found = _grouped(name, len(lists), ak.filter(rows, number), ak.filter(items, number))
    holds_nan = np.zeros(len(lists), bool)
    holds_nan[ak.filter(rows, is_nan).to_numpy()] = True
    answers = pa.array(holds_nan)
    if name == "min":
        answers = pc.and_(answers, pc.is_null(found))
    return pc.if_else(answers, scalar_of(float("nan"), items.type), found)


def _grouped(name: str, count: int, rows: pa.Array, items: pa.Array) -> pa.Array:
    """Aggregate the items of each row, null for a row without any."""
    results = pa.table([rows, items], ["row", "item"]).group_by("row").aggregate([("item", name)])
    every = pa.array(np.arange(count), results["row"].type)
    places = pc.index_in(every, value_set=ak.combine_chunks(results["row"]))
    return ak.take(ak.combine_chunks(results[f"item_{name}"]), places)


def _array_to_string(lists: pa.Array, separator: Value, missing: Value | None = None) -> Value:
    items = cast(pc.list_flatten(lists), pa.string())
    parents = ak.list_parents(lists)
    if missing is not None:
        items = pc.fill_null(items, constant_of(missing))
    kept = pc.is_valid(items)
    counts = np.bincount(ak.filter(parents, kept).to_numpy(), minlength=len(lists))
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
    texts = pc.binary_join(pa.ListArray.from_arrays(offsets, ak.filter(items, kept)), separator)
    return pc.if_else(pc.is_valid(lists), texts, scalar_of(None, pa.string()))


def _is_empty(lists: pa.Array) -> Value:
    return pc.equal(pc.list_value_length(lists), 0)


_HAS = Function(_array_has, ("list", ""), 2, 2)
_HAS_ANY = Function(_array_has_any, ("list", "list"), 2, 2)
_HAS_ALL = Function(_array_has_all, ("list", "list"), 2, 2)
_EMPTY = unary(_is_empty, "list")
_LENGTH = Function(_array_length, ("list", "number"), 1, 2)
_POSITION = Function(_array_position, ("list", ""), 2, 2)
_MAX = unary(partial(_of_each, "max"), "list")
_JOIN = Function(_array_to_string, ("list", "text"), 2, 3)

LIST_FUNCTIONS: Mapping[str, Function] = {
    "array_has": _HAS,
    "array_contains": _HAS,
    "list_has": _HAS,
    "list_contains": _HAS,
    "array_has_any": _HAS_ANY,
    "list_has_any": _HAS_ANY,
    "arrays_overlap": _HAS_ANY,
    "array_has_all": _HAS_ALL,
    "list_has_all": _HAS_ALL,
    "empty": _EMPTY,
    "array_empty": _EMPTY,
    "list_empty": _EMPTY,
    "array_length": _LENGTH,
    "list_length": _LENGTH,
    "cardinality": unary(_array_length, "list"),
    "array_position": _POSITION,
    "list_position": _POSITION,
    "array_indexof": _POSITION,
    "list_indexof": _POSITION,
    "array_min": unary(partial(_of_each, "min"), "list"),
    "array_max": _MAX,
    "list_max": _MAX,
    "array_to_string": _JOIN,
    "list_to_string": _JOIN,
    "array_join": _JOIN,
    "list_join": _JOIN,
}

# ---- functions of numbers


def _double(value: Value) -> Value:
    """Compute with doubles, or with single floats where such are given."""
    return value if pt.is_floating(value.type) else nearest(value, pa.float64())


def _of_double(kernel: Callable[..., Value], count: int = 1) -> Function:
    return Function(lambda *v: kernel(*map(_double, v)), ("number",), count, count)


def _isnan(value: Value) -> Value:
    return pc.is_nan(_double(value))


def _iszero(value: Value) -> Value:
    return pc.equal(_double(value), 0.0)


def _nanvl(value: Value, other: Value) -> Value:
    return pc.if_else(pc.is_nan(value), _double(other), value)


#: no double has more, on either side of the point; Arrow would multiply by ten so many times
_MOST_DIGITS = 400


def _round(value: Value, digits: Value | None = None, *, mode: str) -> Value:
    places = 0 if digits is None else constant_of(digits)
    if not isinstance(places, int):
        raise pa.ArrowNotImplementedError("the number of digits is a whole number")
    places = max(-_MOST_DIGITS, min(places, _MOST_DIGITS))
    if pt.is_decimal128(value.type):
        kind = pa.decimal128(value.type.precision, max(0, min(places, value.type.scale)))
        wide = pc.cast(value, pa.decimal128(38, value.type.scale))
        return pc.cast(pc.round(wide, places, round_mode=mode), kind)
    return pc.round(_double(value), places, round_mode=mode)


def _log(value: Value, other: Value | None = None) -> Value:
    """Return the logarithm to the base 10, or to the base that stands first."""
    if other is None:
        return pc.log10(_double(value))
    return pc.logb(_double(other), _double(value))


def _cbrt(value: Value) -> Value:
    root = pc.power(pc.abs(_double(value)), 1 / 3)
    # a power is off by a little, and the root of a cube is a whole number
    whole = pc.round(root)
    root = pc.if_else(
        pc.equal(pc.multiply(whole, pc.multiply(whole, whole)), pc.abs(value)), whole, root
    )
    return pc.multiply(root, pc.cast(pc.sign(value), root.type))


def _power(value: Value, exponent: Value) -> Value:
    return pc.power(_double(value), _double(exponent))


_LAST_FACTORIAL = 20


def _factorial(number: int) -> int:
    if number > _LAST_FACTORIAL:
        raise OverflowError(f"the factorial of {number} has more than 64 bits")
    return math.factorial(number)


_POWER = Function(_power, ("number",), 2, 2)

NUMBER_FUNCTIONS: Mapping[str, Function] = {
    "abs": unary(pc.abs_checked, "number"),
    "signum": unary(lambda v: pc.cast(pc.sign(_double(v)), _double(v).type), "number"),
    "round": Function(partial(_round, mode="half_towards_infinity"), ("number",), 1, 2),
    "trunc": Function(partial(_round, mode="towards_zero"), ("number",), 1, 2),
    "floor": unary(pc.floor, "number"),
    "ceil": unary(pc.ceil, "number"),
    "power": _POWER,
    "pow": _POWER,
    "sqrt": _of_double(pc.sqrt),
    "cbrt": _of_double(_cbrt),
    "exp": _of_double(pc.exp),
    "ln": _of_double(pc.ln),
    "log": Function(_log, ("number",), 1, 2),
    "log2": _of_double(pc.log2),
    "log10": _of_double(pc.log10),
    **{
        name: _of_double(getattr(pc, name))
        for name in (
            *("sin", "cos", "tan", "asin", "acos", "atan"),
            *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        )
    },
    "atan2": _of_double(pc.atan2, 2),
    "cot": _of_double(lambda v: pc.divide(1.0, pc.tan(v))),
    "degrees": _of_double(lambda v: pc.multiply(v, 180 / math.pi)),
    "radians": _of_double(lambda v: pc.multiply(v, math.pi / 180)),
    "pi": Function(lambda: scalar_of(math.pi), (), 0, 0),
    "gcd": Function(per_value(math.gcd, pa.int64()), ("number",), 2, 2),
    "lcm": Function(per_value(math.lcm, pa.int64()), ("number",), 2, 2),
    "factorial": unary(per_value(_factorial, pa.int64()), "number"),
    "isnan": unary(_isnan, "number"),
    "iszero": unary(_iszero, "number"),
    "nanvl": Function(_nanvl, ("number",), 2, 2),
}
