"""Casts of the filter language: ``CAST``, which fails, and ``TRY_CAST``, which gives null."""

from __future__ import annotations

import re
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lancekit import arrow_kernels as ak
from lancekit.format.arrow_parts import decimal_size, flattened, item_field, unit_and_zone, unit_of
from lancekit.scan.expressions.kernels.operators import Value, family
from lancekit.scan.expressions.kernels.scalars import scalar_of

__all__ = ["DIGITS", "arrow_type", "cast", "decimal", "try_cast"]

#: of a decimal
DIGITS = 38

#: beginnings of these words are truth values, as far as no other word begins like them
_TRUE = ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1")
_FALSE = ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0")

#: from here on numbers are written with an exponent, by Arrow and in the language
_EXPONENT_OF_ARROW, _EXPONENT = 1e10, 1e16

_WHOLE_NUMBER = r"^[+-]?\d+$"


# ---- to text


def _seconds_text(value: Value, form: str) -> Value:
    """Write a moment in ISO 8601, with no more digits of the second than it has."""
    text = pc.strftime(value, format=form)
    for zeros, kept in ((r"\.0+$", ""), (r"(\.\d{3})(000)+$", r"\1"), (r"(\.\d{6})000$", r"\1")):
        text = pc.replace_substring_regex(text, pattern=zeros, replacement=kept)
    return text


def _moment_text(value: Value) -> Value:
    text = _seconds_text(value, "%Y-%m-%dT%H:%M:%S")
    _, zone = unit_and_zone(value.type)
    if not zone:
        return text
    offset = pc.strftime(value, format="%Ez")
    if zone.upper() in ("UTC", "Z"):
        offset = pc.replace_substring(offset, pattern="+00:00", replacement="Z")
    joined: Value = pc.binary_join_element_wise(text, offset, "")
    return joined


def _time_text(value: Value) -> Value:
    unit = unit_of(value.type)
    as_integer = pc.cast(pc.cast(value, pa.int32() if unit in ("s", "ms") else pa.int64()), "int64")
    return _seconds_text(pc.cast(as_integer, pa.timestamp(unit)), "%H:%M:%S")


def _float_text(value: Value) -> Value:
    text = pc.cast(value, pa.string())
    if isinstance(value, pa.Array) and isinstance(text, pa.Array):
        size = pc.abs(value)
        long = pc.and_kleene(pc.greater_equal(size, _EXPONENT_OF_ARROW), pc.less(size, _EXPONENT))
        if pc.any(long).as_py():
            digits = pa.array(map(repr, ak.filter(value, long).to_pylist()), pa.string())
            text = pc.replace_with_mask(text, pc.fill_null(long, False), digits)
    whole = pc.replace_substring_regex(text, pattern=r"^(-?\d+)$", replacement=r"\1.0")
    powers = pc.replace_substring_regex(whole, pattern=r"e\+?(-?)0*(\d)", replacement=r"e\1\2")
    return pc.replace_substring(powers, pattern="nan", replacement="NaN")


def _list_text(value: Value) -> Value:
    if isinstance(value, pa.Scalar):
        value = pa.array([value.as_py()], value.type)
    items = pc.coalesce(cast(pc.list_flatten(value), pa.string()), "")
    offsets = np.concatenate(([0], np.cumsum(pc.fill_null(pc.list_value_length(value), 0))))
    texts = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)
    joined = pc.binary_join_element_wise("[", pc.binary_join(texts, ", "), "]", "")
    return pc.if_else(pc.is_valid(value), joined, scalar_of(None, pa.string()))


def _text(value: Value) -> Value:
    kind = value.type
    if pt.is_timestamp(kind):
        return _moment_text(value)
    if pt.is_date64(kind):
        return _moment_text(pc.cast(value, pa.timestamp("ms")))
    if pt.is_time(kind):
        return _time_text(value)
    if pt.is_floating(kind):
        return _float_text(value)
    if pt.is_list(kind):
        return _list_text(value)
    return pc.cast(value, pa.string())


# ---- from text, and between numbers


def _truth(value: Value) -> Value:
    """Read truth values; what is none gives null."""
    words = pc.utf8_lower(pc.utf8_trim_whitespace(value))
    true, false = (pc.is_in(words, value_set=pa.array(v, words.type)) for v in (_TRUE, _FALSE))
    known = pc.and_(pc.is_valid(words), pc.or_(true, false))
    return pc.if_else(known, true, scalar_of(None, pa.bool_()))


def _check_nulls(before: Value, after: Value, kind: pa.DataType) -> None:
    bad = None
    if isinstance(before, pa.Array):
        lost = pc.and_(pc.is_valid(before), pc.is_null(after))
        bad = ak.filter(before, lost)[0].as_py() if pc.any(lost).as_py() else None
    elif isinstance(after, pa.Scalar) and not after.is_valid:
        bad = before.as_py()
    if bad is not None:
        raise pa.ArrowInvalid(f"{bad!r} is not a value of type {kind}")


def _from_decimal(value: Value, kind: pa.DataType) -> Value:
    """Cut fractions off for integers; round them for decimals of a smaller scale."""
    if pt.is_decimal128(value.type):
        value = pc.cast(value, pa.decimal128(38, decimal_size(value.type)[1]))
    if pt.is_integer(kind):
        return pc.cast(pc.trunc(value), kind)
    digits = decimal_size(kind)[1]
    if digits < decimal_size(value.type)[1]:
        value = pc.round(value, ndigits=digits, round_mode="half_towards_infinity")
    return pc.cast(value, kind)


def _with_items(value: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast the items of lists one by one, as values of columns are."""
    if pt.is_fixed_size_list(value.type):
        value = pc.cast(value, pa.list_(item_field(value.type)))
    lengths = pc.fill_null(pc.list_value_length(value), 0)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int64())
    items = cast(flattened(value), kind)
    return pa.LargeListArray.from_arrays(offsets, items, mask=value.is_null())


def _lists(value: Value, kind: pa.DataType) -> Value:
    if pt.is_null(value.type):
        return scalar_of(None, kind) if isinstance(value, pa.Scalar) else pa.nulls(len(value), kind)
    item = item_field(kind).type
    if _is_list(value.type) and item_field(value.type).type != item:
        if isinstance(value, pa.Scalar):
            return pc.cast(_with_items(pa.array([value.as_py()], value.type), item)[0], kind)
        value = _with_items(value, item)
    return pc.cast(value, kind)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))


@overload
def cast(value: pa.Array, kind: pa.DataType) -> pa.Array: ...
@overload
def cast(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar: ...
def cast(value: Value, kind: pa.DataType) -> Value:
    """Cast as SQL does: fractions are cut off, what does not fit the type is an error."""
    source = value.type
    if source == kind:
        return value
    if _is_list(kind):
        return _lists(value, kind)
    if pt.is_string(kind):
        return _text(value)
    if pt.is_boolean(kind) and family(source) == "text":
        result = _truth(value)
        _check_nulls(value, result, kind)
        return result
    if pt.is_time(kind) and family(source) == "text":
        value = pc.cast(
            pc.binary_join_element_wise("1970-01-01", pc.cast(value, "string"), " "),
            pa.timestamp(kind.unit),
        )
    if pt.is_decimal(source) and (pt.is_integer(kind) or pt.is_decimal(kind)):
        return _from_decimal(value, kind)
    if pt.is_floating(source) and pt.is_integer(kind):
        value = pc.trunc(value)
    if pt.is_integer(source):
        if pt.is_decimal(kind):
            value = pc.cast(value, pa.decimal128(20))  # a narrower one is refused by type alone
        elif pt.is_date32(kind):
            value = pc.cast(value, pa.int32())
    if pt.is_date32(source) and pt.is_integer(kind):
        value = pc.cast(value, pa.int32())
    strict = pt.is_integer(kind) or pt.is_decimal(kind) or family(source) in ("text", "bytes")
    return pc.cast(value, kind, safe=strict)


def try_cast(value: Value, kind: pa.DataType) -> Value:
    """Cast what can be cast, and give null for the rest."""
    try:
        return cast(value, kind)
    except pa.ArrowInvalid:
        if isinstance(value, pa.Scalar):
            return scalar_of(None, kind)
    source = value.type
    if family(source) == "text" and pt.is_boolean(kind):
        return _truth(value)
    if family(source) == "text" and pt.is_integer(kind):
        numbers = pc.match_substring_regex(value, _WHOLE_NUMBER)
        value = pc.if_else(numbers, value, scalar_of(None, source))
    distinct = pc.unique(value)
    results = ak.concat_arrays([pa.nulls(0, kind), *_halves(distinct, kind)])
    return ak.take(results, pc.index_in(value, value_set=distinct))


def _halves(values: pa.Array, kind: pa.DataType) -> list[pa.Array]:
    """Cast parts of an array, ever smaller ones where a value of theirs does not fit."""
    try:
        return [cast(values, kind)]
    except pa.ArrowInvalid:
        if len(values) == 1:
            return [pa.nulls(1, kind)]
    middle = len(values) // 2
    return [*_halves(values[:middle], kind), *_halves(values[middle:], kind)]


# ---- the names of Arrow's types, as arrow_cast takes them

#: the most items that a list of one size may have
_MOST_ITEMS = 2**31 - 1
#: the most bytes that each value of one size may have: so many are made even of nulls
_MOST_BYTES = 1 << 12
_UNITS = {"Second": "s", "Millisecond": "ms", "Microsecond": "us", "Nanosecond": "ns"}
_PLAIN = {
    "Boolean": pa.bool_(),
    "Float16": pa.float16(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "Utf8": pa.string(),
    "LargeUtf8": pa.large_string(),
    "Utf8View": pa.string(),
    "Binary": pa.binary(),
    "LargeBinary": pa.large_binary(),
    "Date32": pa.date32(),
    "Date64": pa.date64(),
    **{f"Int{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
}


_LIST = re.compile(r"(List|LargeList|FixedSizeList)\((?:(\d+)[,x])?(nullable|non-null)?(.+)\)")


def _list_type(name: str, size: str | None, nullable: bool, items: str) -> pa.DataType | None:
    kind = arrow_type(items)
    if kind is None or (size is None) == (name == "FixedSizeList") or int(size or 0) > _MOST_ITEMS:
        return None
    item = pa.field("item", kind, nullable)
    if size is not None:
        return pa.list_(item, int(size))
    return pa.list_(item) if name == "List" else pa.large_list(item)


def _are_numbers(*texts: str) -> bool:
    return all(re.fullmatch(r"-?[0-9]{1,9}", text) for text in texts)


def decimal(precision: int, scale: int = 0) -> pa.DataType | None:
    """Return the type of decimals with so many digits, if there is one."""
    return pa.decimal128(precision, scale) if 0 < precision <= DIGITS >= abs(scale) else None


def arrow_type(text: str) -> pa.DataType | None:
    """Return the type of a name such as ``Timestamp(Second, Some("UTC"))``, if it is one.

    Examples
    --------
    >>> arrow_type("FixedSizeList(2, Float32)"), arrow_type("List(Text)")
    (FixedSizeListType(fixed_size_list<item: float>[2]), None)
    """
    text = re.sub(r"\s", "", text)
    if found := _LIST.fullmatch(text):
        name, size, nullable, items = found.groups()
        return _list_type(name, size, nullable != "non-null", items)
    name, _, rest = text.partition("(")
    args = rest.rstrip(")").split(",") if rest else []
    match name, args:
        case _, []:
            return _PLAIN.get(name)
        case "Timestamp", [unit, zone] if unit in _UNITS:
            named = re.fullmatch(r'Some\("(.*)"', zone)
            return pa.timestamp(_UNITS[unit], named[1] if named else None)
        case "FixedSizeBinary", [size] if _are_numbers(size):
            return pa.binary(int(size)) if 0 <= int(size) <= _MOST_BYTES else None
        case "Duration", [unit] if unit in _UNITS:
            return pa.duration(_UNITS[unit])
        case "Time32", [unit] if unit in ("Second", "Millisecond"):
            return pa.time32(_UNITS[unit])
        case "Time64", [unit] if unit in ("Microsecond", "Nanosecond"):
            return pa.time64(_UNITS[unit])
        case "Decimal128", [precision, scale] if _are_numbers(precision, scale):
            return decimal(int(precision), int(scale))
        case "Decimal256", [precision, scale] if _are_numbers(precision, scale):
            fits = 0 < int(precision) <= 2 * DIGITS >= abs(int(scale))
            return pa.decimal256(int(precision), int(scale)) if fits else None
    return None
