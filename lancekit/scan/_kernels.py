"""What the operators of the filter language do, over Arrow arrays and scalars.

Everywhere null in gives null out (``AND`` and ``OR`` are Kleene's).  Floats are ordered as Lance
readers order them: NaN equals itself and is greater than every number; the two zeros are equal.
Integer arithmetic that overflows is an error, not a wrapped number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

__all__ = [
    "COMPARISONS",
    "Value",
    "align",
    "cast",
    "concat",
    "divide",
    "family",
    "modulo",
    "plain",
    "subtract",
]

Value = Any  # pa.Array or pa.Scalar

_FAMILIES: tuple[tuple[str, tuple[Callable[[Any], bool], ...]], ...] = (
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


def family(kind: pa.DataType) -> str:
    """Return the family of types that compare with each other; else the type's own text."""
    return next((name for name, tests in _FAMILIES if any(t(kind) for t in tests)), str(kind))


def plain(values: pa.Array) -> pa.Array:
    """Bring a column to a type that Arrow has kernels for: no dictionary, view or extension."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    kind = values.type
    if pt.is_dictionary(kind):
        return plain(values.dictionary_decode())
    if pt.is_string_view(kind):
        return values.cast(pa.string())
    if pt.is_binary_view(kind):
        return values.cast(pa.binary())
    return values.cast(pa.float32()) if pt.is_float16(kind) else values


# ---- comparisons


def _in_zone(value: Value, zone: str) -> Value:
    """Read a naive timestamp as local time of a zone, and a date as midnight UTC.

    So does the reference.
    """
    if pt.is_timestamp(value.type) and value.type.tz:
        return value
    if pt.is_date(value.type):
        return pc.cast(pc.cast(value, pa.timestamp("us")), pa.timestamp("us", zone))
    unit = value.type.unit if pt.is_timestamp(value.type) else "us"
    naive = pc.cast(value, pa.timestamp(unit))
    return pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="earliest")


def align(left: Value, right: Value) -> tuple[Value, Value]:
    """Bring two values of one family to types that Arrow compares and adds exactly."""
    kinds = left.type, right.type
    zones = [k.tz for k in kinds if pt.is_timestamp(k) and k.tz]
    if zones:
        return _in_zone(left, zones[0]), _in_zone(right, zones[0])
    if any(map(pt.is_decimal, kinds)) and any(map(pt.is_floating, kinds)):
        return pc.cast(left, pa.float64()), pc.cast(right, pa.float64())
    if any(map(pt.is_uint64, kinds)) and any(map(pt.is_signed_integer, kinds)):
        return pc.cast(left, pa.decimal128(20)), pc.cast(right, pa.decimal128(20))
    return left, right


def _nan(value: Value) -> Value:
    if pt.is_floating(value.type):
        return pc.is_nan(value)
    return pc.and_not(pc.is_valid(value), pc.is_valid(value))


def _orders_nan(left: Value, right: Value) -> bool:
    return any(map(pt.is_floating, (left.type, right.type)))


def _equal(left: Value, right: Value) -> Value:
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
    return test(*align(left, right))


def _distinct(left: Value, right: Value) -> Value:
    """Compare with null as a value of its own."""
    unequal = pc.invert(_compare(_equal, left, right))
    one_null = pc.xor(pc.is_null(left), pc.is_null(right))
    return pc.coalesce(unequal, one_null)


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


# ---- arithmetic and casts


def divide(left: Value, right: Value) -> Value:
    """Divide integers toward zero (by zero: an error), floats as IEEE 754 does."""
    floats = pt.is_floating(left.type) or pt.is_floating(right.type)
    return pc.divide(left, right) if floats else pc.divide_checked(left, right)


def subtract(left: Value, right: Value) -> Value:
    """Subtract; two dates give the days between them."""
    if pt.is_date32(left.type) and pt.is_date32(right.type):
        left, right = (pc.cast(pc.cast(v, pa.int32()), pa.int64()) for v in (left, right))
    return pc.subtract_checked(left, right)


def _numpy(value: Value) -> Any:
    if isinstance(value, pa.Scalar):
        return np.nan if value.as_py() is None else value.as_py()
    return value.to_numpy(zero_copy_only=False)


def modulo(left: Value, right: Value) -> Value:
    """Take the remainder with the sign of the left side."""
    kinds = pa.scalar(0, left.type), pa.scalar(0, right.type)
    kind = pc.add(*kinds).type
    if pt.is_decimal(kind):
        raise pa.ArrowNotImplementedError("there is no remainder of decimals")
    left, right = pc.cast(left, kind), pc.cast(right, kind)
    if pt.is_integer(kind):
        whole = pc.multiply(pc.divide_checked(left, right), right)
        return pc.subtract(left, whole)
    with np.errstate(invalid="ignore"):
        rest = np.fmod(_numpy(left), _numpy(right))
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return pa.scalar(rest, kind)
    valid = pc.and_(pc.is_valid(left), pc.is_valid(right))
    return pc.if_else(valid, pa.array(np.atleast_1d(rest), kind), pa.scalar(None, kind))


def _moment_text(value: Value) -> Value:
    """Write a timestamp in ISO 8601, with no more digits of the second than it has."""
    text = pc.strftime(value, format="%Y-%m-%dT%H:%M:%S")
    for zeros, kept in ((r"\.0+$", ""), (r"(\.\d{3})(000)+$", r"\1"), (r"(\.\d{6})000$", r"\1")):
        text = pc.replace_substring_regex(text, pattern=zeros, replacement=kept)
    if not value.type.tz:
        return text
    offset = pc.strftime(value, format="%Ez")
    return pc.binary_join_element_wise(text, offset, "")


def _float_text(value: Value) -> Value:
    text = pc.cast(value, pa.string())
    whole = pc.replace_substring_regex(text, pattern=r"^(-?\d+)$", replacement=r"\1.0")
    return pc.replace_substring(whole, pattern="nan", replacement="NaN")


def cast(value: Value, kind: pa.DataType) -> Value:
    """Cast as SQL does: fractions are cut off, a number too large for the type is an error."""
    if pt.is_string(kind) and pt.is_timestamp(value.type):
        return _moment_text(value)
    if pt.is_string(kind) and pt.is_floating(value.type):
        return _float_text(value)
    if pt.is_floating(value.type) and pt.is_integer(kind):
        value = pc.trunc(value)
    if pt.is_integer(value.type) and pt.is_decimal(kind):
        value = pc.cast(value, pa.decimal128(20))  # a narrower one is refused by type alone
    strict = pt.is_integer(kind) or pt.is_decimal(kind) or family(value.type) == "text"
    return pc.cast(value, kind, safe=strict)


def concat(*values: Value) -> Value:
    """Join texts; other values are written out first."""
    texts = [v if family(v.type) == "text" else pc.cast(v, pa.string()) for v in values]
    if any(pt.is_large_string(t.type) for t in texts):
        texts = [pc.cast(t, pa.large_string()) for t in texts]
    return pc.binary_join_element_wise(*texts, pa.scalar("", texts[0].type))
