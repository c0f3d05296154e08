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
    """Return a mask of the items that equal a value; null equals nothing."""
    return pc.fill_null(as_array(COMPARISONS["="](items, wanted), len(items)), False)


def _array_has(lists: pa.Array, item: Value) -> Value:
    """Return a mask of the lists that contain an item: compares all items at once."""
    if isinstance(item, pa.Scalar) and not item.is_valid:
        return scalar_of(None, pa.bool_())
    parents = ak.list_parents(lists)
    wanted = item if isinstance(item, pa.Scalar) else ak.take(item, parents)
    hits = _equal(pc.list_flatten(lists), wanted)
    found = np.zeros(len(lists), bool)
    found[ak.filter(parents, hits).to_numpy()] = True
    known = pc.and_(pc.is_valid(lists), pc.is_valid(item))
    return pc.if_else(known, pa.array(found), scalar_of(None, pa.bool_()))


def _has_items(
    put_together: Callable[..., Value], start: bool, lists: pa.Array, items: Value
) -> Value:
    hits = [_array_has(lists, item) for item in _items(items)]
    none: Value = pc.if_else(pc.is_valid(lists), start, scalar_of(None, pa.bool_()))
    return reduce(put_together, hits, none)


def _items(items: Value) -> list[pa.Scalar]:
    if not isinstance(items, pa.Scalar):
        raise pa.ArrowNotImplementedError("the items must be constants")
    return list(items.values or ()) if isinstance(items, pa.ListScalar) else []


def array_element(lists: pa.Array, place: Value) -> Value:
    """Return an element of each list, counted from 1, or from the end by negative numbers.

    It is null where a list has no such element.
    """
    if not pt.is_integer(place.type):
        raise pa.ArrowNotImplementedError("the index must be an integer")
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
    """Return the position of an item's first occurrence, from 1 on; null without one."""
    parents = ak.list_parents(lists).to_numpy()
    wanted = item if isinstance(item, pa.Scalar) else ak.take(item, parents)
    hits = np.flatnonzero(_equal(pc.list_flatten(lists), wanted).to_numpy(zero_copy_only=False))
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    rows, first = np.unique(parents[hits], return_index=True)
    places = np.zeros(len(lists), np.uint64)
    places[rows] = hits[first] - (np.cumsum(lengths) - lengths)[rows] + 1
    return pa.array(places, mask=places == 0)


def _of_each(name: str, lists: pa.Array) -> Value:
    """Return the least or the greatest item of each list ("min", "max"); null for an empty list.

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
    """Aggregate the items of each row; null for a row without items."""
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


LIST_FUNCTIONS: Mapping[str, Function] = {
    **dict.fromkeys(
        ("array_has", "array_contains", "list_has", "list_contains"),
        Function(_array_has, ("list", ""), 2, 2),
    ),
    **dict.fromkeys(
        ("array_has_any", "list_has_any", "arrays_overlap"),
        Function(partial(_has_items, pc.or_, False), ("list", "list"), 2, 2),
    ),
    **dict.fromkeys(
        ("array_has_all", "list_has_all"),
        Function(partial(_has_items, pc.and_, True), ("list", "list"), 2, 2),
    ),
    **dict.fromkeys(
        ("empty", "array_empty", "list_empty"),
        unary(lambda lists: pc.equal(pc.list_value_length(lists), 0), "list"),
    ),
    **dict.fromkeys(
        ("array_length", "list_length"), Function(_array_length, ("list", "number"), 1, 2)
    ),
    "cardinality": unary(_array_length, "list"),
    **dict.fromkeys(
        ("array_position", "list_position", "array_indexof", "list_indexof"),
        Function(_array_position, ("list", ""), 2, 2),
    ),
    "array_min": unary(partial(_of_each, "min"), "list"),
    **dict.fromkeys(("array_max", "list_max"), unary(partial(_of_each, "max"), "list")),
    **dict.fromkeys(
        ("array_to_string", "list_to_string", "array_join", "list_join"),
        Function(_array_to_string, ("list", "text"), 2, 3),
    ),
}

# ---- functions of numbers


def _double(value: Value) -> Value:
    """Return values as doubles; floats of other sizes stay."""
    return value if pt.is_floating(value.type) else nearest(value, pa.float64())


def _of_double(kernel: Callable[..., Value], count: int = 1) -> Function:
    return Function(lambda *v: kernel(*map(_double, v)), ("number",), count, count)


#: no double has more digits on either side of the point; Arrow multiplies by ten for each digit
_MOST_DIGITS = 400


def _round(value: Value, digits: Value | None = None, *, mode: str) -> Value:
    places = 0 if digits is None else constant_of(digits)
    if not isinstance(places, int):
        raise pa.ArrowNotImplementedError("the number of digits must be an integer")
    places = max(-_MOST_DIGITS, min(places, _MOST_DIGITS))
    if pt.is_decimal128(value.type):
        kind = pa.decimal128(value.type.precision, max(0, min(places, value.type.scale)))
        wide = pc.cast(value, pa.decimal128(38, value.type.scale))
        return pc.cast(pc.round(wide, places, round_mode=mode), kind)
    return pc.round(_double(value), places, round_mode=mode)


def _log(value: Value, other: Value | None = None) -> Value:
    """Return the logarithm to the base 10, or to the base in the first argument."""
    if other is None:
        return pc.log10(_double(value))
    return pc.logb(_double(other), _double(value))


def _cbrt(value: Value) -> Value:
    root = pc.power(pc.abs(_double(value)), 1 / 3)
    # the power is inexact, but the root of a cube is an integer
    whole = pc.round(root)
    root = pc.if_else(
        pc.equal(pc.multiply(whole, pc.multiply(whole, whole)), pc.abs(value)), whole, root
    )
    return pc.multiply(root, pc.cast(pc.sign(value), root.type))


_LAST_FACTORIAL = 20


def _factorial(number: int) -> int:
    if number > _LAST_FACTORIAL:
        raise OverflowError(f"the factorial of {number} has more than 64 bits")
    return math.factorial(number)


NUMBER_FUNCTIONS: Mapping[str, Function] = {
    "abs": unary(pc.abs_checked, "number"),
    "signum": unary(lambda v: pc.cast(pc.sign(_double(v)), _double(v).type), "number"),
    "round": Function(partial(_round, mode="half_towards_infinity"), ("number",), 1, 2),
    "trunc": Function(partial(_round, mode="towards_zero"), ("number",), 1, 2),
    "floor": unary(pc.floor, "number"),
    "ceil": unary(pc.ceil, "number"),
    **dict.fromkeys(("power", "pow"), _of_double(pc.power, 2)),
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
    "isnan": _of_double(pc.is_nan),
    "iszero": _of_double(lambda v: pc.equal(v, 0.0)),
    "nanvl": Function(
        lambda v, other: pc.if_else(pc.is_nan(v), _double(other), v), ("number",), 2, 2
    ),
}
