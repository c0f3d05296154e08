"""Kernels of the filter language's operators, over Arrow arrays and scalars.

A null operand gives null (``AND`` and ``OR`` are Kleene's). Floats are ordered as in Lance readers:
NaN equals itself and is greater than every number, and the two zeros are equal. Overflow of integer
arithmetic is an error, not a wrapped number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import scalar_of
from lancekit._casts import cut, nearest
from lancekit._format.arrow_parts import decimal_size, with_leaves
from lancekit._scan.expressions.kernels.moments import (
    exact_pair,
    in_column_unit,
    in_common_unit,
    in_common_zone,
)

#: a column, or a constant for all its rows
Value: TypeAlias = pa.Array | pa.Scalar

_FAMILIES: tuple[tuple[str, tuple[Callable[[pa.DataType], bool], ...]], ...] = (
    ("number", (pt.is_integer, pt.is_floating, pt.is_decimal)),
    ("text", (pt.is_string, pt.is_large_string)),
    ("bytes", (pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary)),
    ("boolean", (pt.is_boolean,)),
    ("moment", (pt.is_date, pt.is_timestamp)),
    ("time", (pt.is_time,)),
    ("duration", (pt.is_duration,)),
    ("list", (pt.is_list, pt.is_large_list, pt.is_fixed_size_list)),
    ("null", (pt.is_null,)),
)


@lru_cache(maxsize=256)
def family(kind: pa.DataType) -> str:
    """Return a type's family, whose types compare with each other; else the type's text."""
    return next((name for name, tests in _FAMILIES if any(t(kind) for t in tests)), str(kind))


def plain(values: pa.Array) -> pa.Array:
    """Convert values to a type that Arrow has kernels for: no dictionary, view or extension.

    Items of lists and fields of structs are converted, too.
    """
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    kind = values.type
    if isinstance(values, pa.DictionaryArray):
        return plain(values.dictionary_decode())
    if pt.is_string_view(kind):
        return pc.cast(values, pa.string())
    if pt.is_binary_view(kind):
        return pc.cast(values, pa.binary())
    if pt.is_nested(kind):
        return with_leaves(values, lambda part, _: plain(part))
    return pc.cast(values, pa.float32()) if pt.is_float16(kind) else values


# ---- comparisons


def _as_double(value: Value) -> Value:
    double: Value = nearest(value, pa.float64())
    return double


def align(left: Value, right: Value) -> tuple[Value, Value]:
    """Coerce two values to types that Arrow compares and adds, as in the reference.

    Timestamps get the unit of a column if one side is a constant, else the coarser of their units.
    Integers and floats become doubles, text and bytes become bytes.
    """
    kinds = left.type, right.type
    if kinds[0] == kinds[1]:
        return left, right
    if all(family(kind) == "moment" for kind in kinds):
        left, right = in_column_unit(*in_common_zone(left, right))
    if all(map(pt.is_timestamp, (left.type, right.type))):
        return in_common_unit(left, right)
    if any(map(pt.is_floating, kinds)) and any(pt.is_decimal(k) or pt.is_integer(k) for k in kinds):
        return _as_double(left), _as_double(right)
    if any(map(pt.is_uint64, kinds)) and any(map(pt.is_signed_integer, kinds)):
        return pc.cast(left, pa.decimal128(20)), pc.cast(right, pa.decimal128(20))
    if {family(k) for k in kinds} == {"text", "bytes"}:
        return pc.cast(left, pa.large_binary()), pc.cast(right, pa.large_binary())
    return left, right


#: digits of a decimal of 128 bits
_DIGITS = 38


def _nan(value: Value) -> Value:
    if pt.is_floating(value.type):
        return pc.is_nan(value)
    return pc.and_not(pc.is_valid(value), pc.is_valid(value))


def _orders_nan(left: Value, right: Value) -> bool:
    return any(map(pt.is_floating, (left.type, right.type)))


def as_array(value: Value, count: int) -> pa.Array:
    """Return a value as an array of a number of rows."""
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, count) if count else pa.nulls(0, value.type)
    return value


def _same(left: pa.Array, right: pa.Array) -> NDArray[np.bool_]:
    """Return a mask of the rows where two arrays are equal, with nulls equal, as a NumPy array."""
    found = as_array(pc.invert(_distinct(left, right)), len(left))
    return found.to_numpy(zero_copy_only=False).astype(bool)


def _equal_nested(left: Value, right: Value) -> Value:
    """Compare lists and structs by their parts; two null parts are equal."""
    if isinstance(left, pa.Array):
        return _equal_arrays(left, as_array(right, len(left)))
    if isinstance(right, pa.Array):
        return _equal_arrays(as_array(left, len(right)), right)
    return _equal_arrays(as_array(left, 1), as_array(right, 1))[0]


def _equal_arrays(left: pa.Array, right: pa.Array) -> pa.Array:
    if isinstance(left, pa.StructArray) and isinstance(right, pa.StructArray):
        parts = zip(left.flatten(), right.flatten(), strict=True)
        same = np.logical_and.reduce([_same(*pair) for pair in parts], initial=True)
    else:
        lengths = [pc.fill_null(pc.list_value_length(v), -1).to_numpy() for v in (left, right)]
        same = lengths[0] == lengths[1]
        longs = np.flatnonzero(same & (lengths[0] > 0))
        if len(longs):
            found = _same(*(pc.list_flatten(ak.take(v, longs)) for v in (left, right)))
            starts = np.concatenate(([0], np.cumsum(lengths[0][longs])[:-1]))
            same[longs] = np.logical_and.reduceat(found, starts)
    known = pc.and_(pc.is_valid(left), pc.is_valid(right))
    return pc.if_else(
        known, pa.array(np.broadcast_to(same, len(left))), scalar_of(None, pa.bool_())
    )


def _is_nested(kind: pa.DataType) -> bool:
    return pt.is_struct(kind) or family(kind) == "list"


def _equal(left: Value, right: Value) -> Value:
    if _is_nested(left.type) and _is_nested(right.type):
        return _equal_nested(left, right)
    same = pc.equal(left, right)
    if not _orders_nan(left, right):
        return same
    return pc.or_(same, pc.and_(_nan(left), _nan(right)))


def _greater(left: Value, right: Value) -> Value:
    greater = pc.greater(left, right)
    if not _orders_nan(left, right):
        return greater
    return pc.or_(greater, pc.and_not(_nan(left), _nan(right)))


def _greater_equal(left: Value, right: Value) -> Value:
    at_least = pc.greater_equal(left, right)
    return pc.or_(at_least, _nan(left)) if _orders_nan(left, right) else at_least


def _compare(test: Callable[[Value, Value], Value], left: Value, right: Value) -> Value:
    if left.type != right.type and all(family(v.type) == "moment" for v in (left, right)):
        left, right = exact_pair(left, right)
    left, right = align(left, right)
    if pt.is_decimal128(left.type) and pt.is_decimal128(right.type):
        left, right = _comparable(left, right)
    return test(left, right)


def _comparable(left: Value, right: Value) -> tuple[Value, Value]:
    """Widen decimals to hold the digits of both, before and after the point."""
    sizes = [decimal_size(kind) for kind in (left.type, right.type)]
    if max(p - s for p, s in sizes) + max(s for _, s in sizes) <= _DIGITS:
        return left, right
    wide = [pc.cast(v, pa.decimal256(*decimal_size(v.type))) for v in (left, right)]
    return wide[0], wide[1]


def _distinct(left: Value, right: Value) -> Value:
    """Return where two values differ; null is a value that equals itself."""
    unequal = pc.invert(_compare(_equal, left, right))
    one_null = pc.xor(pc.is_null(left), pc.is_null(right))
    different: Value = pc.coalesce(unequal, one_null)
    return different


COMPARISONS: Mapping[str, Callable[[Value, Value], Value]] = {
    "=": partial(_compare, _equal),
    "<>": lambda left, right: pc.invert(_compare(_equal, left, right)),
    ">": partial(_compare, _greater),
    ">=": partial(_compare, _greater_equal),
    "<": lambda left, right: _compare(_greater, right, left),
    "<=": lambda left, right: _compare(_greater_equal, right, left),
    "IS DISTINCT FROM": _distinct,
    "IS NOT DISTINCT FROM": lambda left, right: pc.invert(_distinct(left, right)),
}


# ---- arithmetic


def divide(left: Value, right: Value) -> Value:
    """Divide integers toward zero (by zero: an error), floats as in IEEE 754."""
    if pt.is_floating(left.type) or pt.is_floating(right.type):
        return pc.divide(left, right)
    if pt.is_decimal128(left.type) and pt.is_decimal128(right.type):
        return _divide_decimals(left, right)
    return pc.divide_checked(left, right)


def _divide_decimals(left: Value, right: Value) -> Value:
    """Divide to four digits more than the left side has; further digits are cut off."""
    (digits, places), (divisor_digits, divisor_places) = map(decimal_size, (left.type, right.type))
    scale = min(_DIGITS, places + 4)
    precision = min(_DIGITS, digits - places + divisor_places + scale)
    # Arrow's result has the fraction digits of the left side plus the digits of the right side
    right = pc.cast(right, pa.decimal256(max(4, divisor_digits), divisor_places))
    exact = pc.divide_checked(pc.cast(left, pa.decimal256(digits, places)), right)
    cut = pc.round(exact, scale, round_mode="towards_zero")
    return pc.cast(cut, pa.decimal128(precision, scale))


def add(left: Value, right: Value) -> Value:
    """Add numbers, days to a date, or a duration to a moment."""
    if pt.is_integer(left.type) and pt.is_date32(right.type):
        left, right = right, left
    if pt.is_date32(left.type) and pt.is_integer(right.type):
        return _later(left, right, pc.add_checked)
    if pt.is_timestamp(left.type) and pt.is_duration(right.type):
        right = cut(right, pa.duration(left.type.unit))
    return wide(pc.add_checked, left, right)


def _later(date: Value, days: Value, kernel: Callable[[Value, Value], Value]) -> Value:
    moved = kernel(pc.cast(date, pa.int32()), pc.cast(days, pa.int32()))
    return pc.cast(moved, pa.date32())


def wide(kernel: Callable[[Value, Value], Value], left: Value, right: Value) -> Value:
    """Apply a kernel to decimals whose exact result may need more digits than their type has."""
    kinds = left.type, right.type
    if not all(map(pt.is_decimal128, kinds)) or sum(decimal_size(k)[0] for k in kinds) < _DIGITS:
        return kernel(left, right)
    left, right = (pc.cast(v, pa.decimal256(*decimal_size(v.type))) for v in (left, right))
    result = kernel(left, right)
    precision, scale = decimal_size(result.type)
    return pc.cast(result, pa.decimal128(min(precision, _DIGITS), scale))


def subtract(left: Value, right: Value) -> Value:
    """Subtract; two dates give the days between them."""
    if pt.is_date32(left.type) and pt.is_date32(right.type):
        left, right = (pc.cast(pc.cast(v, pa.int32()), pa.int64()) for v in (left, right))
    if pt.is_date32(left.type) and pt.is_integer(right.type):
        return _later(left, right, pc.subtract_checked)
    if pt.is_timestamp(left.type) and pt.is_duration(right.type):
        right = cut(right, pa.duration(left.type.unit))
    return wide(pc.subtract_checked, left, right)


def multiply(left: Value, right: Value) -> Value:
    """Multiply numbers."""
    return wide(pc.multiply_checked, left, right)


def _numpy(value: Value) -> ArrayLike:
    if isinstance(value, pa.Scalar):
        return np.nan if value.as_py() is None else value.as_py()
    return value.to_numpy(zero_copy_only=False)


def _decimal_rest(left: Value, right: Value) -> Value:
    left, right = (
        pc.cast(v, pa.decimal128(20)) if pt.is_integer(v.type) else v for v in (left, right)
    )
    (digits, places), (divisor_digits, divisor_places) = map(decimal_size, (left.type, right.type))
    scale = max(places, divisor_places)
    kind = pa.decimal128(min(digits - places, divisor_digits - divisor_places) + scale, scale)
    left, right = (pc.cast(v, pa.decimal256(*decimal_size(v.type))) for v in (left, right))
    times = pc.round(pc.divide_checked(left, right), 0, round_mode="towards_zero")
    times = pc.cast(times, pa.decimal256(digits - places + divisor_places, 0))
    return pc.cast(pc.subtract_checked(left, pc.multiply_checked(times, right)), kind)


def modulo(left: Value, right: Value) -> Value:
    """Return the remainder, with the sign of the left side."""
    kinds = scalar_of(0, left.type), scalar_of(0, right.type)
    kind = pc.add(*kinds).type
    if pt.is_decimal128(left.type) or pt.is_decimal128(right.type):
        return _decimal_rest(left, right)
    left, right = pc.cast(left, kind), pc.cast(right, kind)
    if pt.is_integer(kind):
        if isinstance(left, pa.Array) and isinstance(right, pa.Scalar):
            divisor = right.as_py()
            if divisor is not None and divisor > 0:
                return _rest_of_all(left, divisor)
        return pc.subtract(left, pc.multiply(pc.divide_checked(left, right), right))
    with np.errstate(invalid="ignore"):
        rest = np.fmod(_numpy(left), _numpy(right))
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return scalar_of(rest, kind)
    valid = pc.and_(pc.is_valid(left), pc.is_valid(right))
    return pc.if_else(valid, pa.array(np.atleast_1d(rest), kind), scalar_of(None, kind))


def shift(kernel: Callable[[Value, Value], Value], left: Value, right: Value) -> Value:
    """Shift by the lowest bits of a count, as processors do, in two steps.

    Arrow returns the value unchanged if the count has the sign's bit or is beyond all bits.
    """
    kind = pc.bit_wise_or(pa.nulls(0, left.type), pa.nulls(0, right.type)).type
    if any(map(pt.is_uint64, (left.type, right.type))):  # Arrow chooses int64
        kind = pa.uint64()
    left, right = pc.cast(left, kind), pc.cast(right, kind)
    count = pc.bit_wise_and(right, scalar_of(kind.bit_width - 1, kind))
    half = pc.shift_right(count, scalar_of(1, kind))
    return kernel(kernel(left, half), pc.subtract(count, half))


def _rest_of_all(values: pa.Array, divisor: int) -> pa.Array:
    """Return the remainders by one positive number, which NumPy computes without divisions."""
    numbers = pc.fill_null(values, 0).to_numpy()
    rest = np.floor_divide(numbers, divisor)
    rest *= divisor
    np.subtract(numbers, rest, out=rest)
    if len(numbers) and numbers.min() < 0:  # the remainder of negative numbers is positive here
        rest[(numbers < 0) & (rest > 0)] -= divisor
    found = pa.array(rest, values.type)
    if not ak.null_count(values):
        return found
    return pc.if_else(pc.is_valid(values), found, scalar_of(None, values.type))


def concat(*values: Value) -> Value:
    """Concatenate texts; other values are first converted to text."""
    texts = [v if family(v.type) == "text" else pc.cast(v, pa.string()) for v in values]
    if any(pt.is_large_string(t.type) for t in texts):
        texts = [pc.cast(t, pa.large_string()) for t in texts]
    joined: Value = pc.binary_join_element_wise(*texts, scalar_of("", texts[0].type))
    return joined
