"""Casts of the filter language: ``CAST``, which fails, and ``TRY_CAST``, which gives null.

The table of `lancekit._casts` defines the result of each cast.
"""

from __future__ import annotations

import math
import re
from typing import overload

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import scalar_of
from lancekit._casts import (
    Digits,
    check_local,
    cut,
    family_of,
    has_rules,
    nearest,
    rounded,
    rule_of,
)
from lancekit._format.arrow_parts import (
    decimal_size,
    flattened,
    item_field,
    unit_and_zone,
    unit_of,
    with_leaves,
)
from lancekit._scan.expressions.kernels.operators import Value
from lancekit._scan.expressions.kernels.reading import WHOLE_NUMBER, read_text, truth

#: digits of a decimal
DIGITS = 38


def _round(value: Value, kind: pa.DataType) -> Value:
    """Round numbers to the scale of a decimal type, halves away from zero."""
    scale = decimal_size(kind)[1]
    if pt.is_floating(value.type):
        double = nearest(value, pa.float64())  # other types have no room for the digits
        return pc.cast(pc.round(double, scale, round_mode="half_towards_infinity"), kind)
    found: Value = ak.cast_decimals(rounded(value, scale, "half_towards_infinity"), kind)
    return found


def _cut_off(value: Value, kind: pa.DataType) -> Value:
    """Cast to a type with fewer digits; the rest is cut off."""
    if pt.is_floating(value.type):
        wide = pc.cast(value, pa.float32()) if pt.is_float16(value.type) else value
        return pc.cast(pc.trunc(wide), kind)
    if pt.is_decimal(value.type):
        whole: Value = ak.cast_decimals(rounded(value, 0, "towards_zero"), pa.decimal128(DIGITS))
        return pc.cast(whole, kind)
    zones = [unit_and_zone(k)[1] for k in (value.type, kind) if pt.is_timestamp(k)]
    if len(zones) == 2 and zones[1] and not zones[0]:
        return _local(cut(value, pa.timestamp(unit_of(kind))), kind)
    shorter: Value = cut(value, kind)
    return shorter


def _local(value: Value, kind: pa.DataType) -> Value:
    """Convert a timestamp without a zone as local time in a type's zone, as in the reference."""
    zone = unit_and_zone(kind)[1] or "UTC"
    return pc.assume_timezone(value, zone, ambiguous="earliest", nonexistent="earliest")


def _keep(value: Value, kind: pa.DataType) -> Value:
    """Cast without rounding; fail for a value that the type cannot hold."""
    source = value.type
    if pt.is_integer(source) and pt.is_decimal(kind):
        wide = pc.cast(value, pa.decimal128(20))  # a narrower one is refused by type alone
        found: Value = ak.cast_decimals(wide, kind)
        return found
    if pt.is_boolean(source) and pt.is_float16(kind):
        value = pc.cast(value, pa.float32())
    elif pt.is_date(source):  # to a timestamp
        unit, zone = unit_and_zone(kind)
        moment = cut(value, pa.timestamp(unit))
        return _local(moment, kind) if zone else moment
    return pc.cast(value, kind)


# ---- counts of temporal types

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _count(value: Value) -> Value:
    """Return a date, timestamp, time or duration as the count of its unit."""
    narrow = pt.is_date32(value.type) or pt.is_time32(value.type)
    return pc.cast(pc.cast(value, pa.int32()), pa.int64()) if narrow else pc.cast(value, pa.int64())


def _counted(value: Value, kind: pa.DataType) -> Value:
    """Return counts of a unit as a temporal type."""
    if pt.is_time(kind):
        day = 86_400 * _PER_SECOND[unit_of(kind)]
        beyond = pc.or_(pc.less(value, 0), pc.greater_equal(value, day))
        if pc.any(_as_array(beyond)).as_py():
            raise pa.ArrowInvalid(f"a number is not a time of day of type {kind}")
    narrow = pt.is_date32(kind) or pt.is_time32(kind)
    return pc.cast(pc.cast(value, pa.int32()) if narrow else value, kind)


def _as_array(value: Value) -> pa.Array:
    return pa.array([value.as_py()], value.type) if isinstance(value, pa.Scalar) else value


# ---- lists


def _with_items(value: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast the items of lists one by one, like values of columns."""
    if pt.is_fixed_size_list(value.type):
        value = pc.cast(value, pa.list_(item_field(value.type)))
    lengths = pc.fill_null(pc.list_value_length(value), 0)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int64())
    items = cast(flattened(value), kind)
    return pa.LargeListArray.from_arrays(offsets, items, mask=pc.is_null(value))


def _lists(value: Value, kind: pa.DataType) -> Value:
    item = item_field(kind).type
    if item_field(value.type).type != item:
        if isinstance(value, pa.Scalar):
            return pc.cast(_with_items(_as_array(value), item)[0], kind)
        value = _with_items(value, item)
    return pc.cast(value, kind)


# ---- the cast


@overload
def cast(value: pa.Array, kind: pa.DataType) -> pa.Array: ...
@overload
def cast(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar: ...
def cast(value: Value, kind: pa.DataType) -> Value:
    """Cast by the table of `lancekit._casts`.

    A value that does not fit is an ``ArrowInvalid``; a cast that does not exist is an
    ``ArrowNotImplementedError``.
    """
    source = value.type
    if source == kind:
        return value
    if pt.is_null(source):
        return scalar_of(None, kind) if isinstance(value, pa.Scalar) else pa.nulls(len(value), kind)
    if pt.is_dictionary(kind):
        return pc.cast(cast(value, kind.value_type), kind)
    rule = rule_of(source, kind)
    if rule is None and not (has_rules(source) and has_rules(kind)):
        return pc.cast(value, kind)  # part by part as Arrow does, which refuses lossy casts
    if rule is None:
        raise pa.ArrowNotImplementedError(f"there is no cast from {source} to {kind}")
    if rule.source == rule.target == "list":
        return _lists(value, kind)
    if pt.is_date64(kind) and pt.is_integer(source) and source.bit_width == 32:
        return cast(cast(value, pa.date32()), kind)  # days, as in the reference
    if rule.via is not None and rule.source in ("integer", "float", "decimal"):
        return _counted(cast(value, rule.via), kind)
    if rule.via is not None:
        return cast(_count(value), kind)
    return _by_digits(value, kind, rule.digits)


def _by_digits(value: Value, kind: pa.DataType, digits: Digits) -> Value:
    """Cast by the rule for digits that the type has no room for."""
    match digits:
        case "read":
            return read_text(value, kind)
        case "written":
            return pc.cast(_write_text(value), kind)
        case "nearest":
            found: Value = nearest(value, kind)
            return found
        case "rounded":
            return _round(value, kind)
        case "cut":
            return _cut_off(value, kind)
        case "kept":
            return _keep(value, kind)


def cast_column(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast the values of a column to its new type, in which no number becomes infinite.

    Raises ArrowInvalid: a value does not fit.
    """
    found = cast(values, kind)
    check_finite(values, found)
    return found


def check_finite(before: pa.Array, after: pa.Array) -> None:
    """Raise ``ArrowInvalid`` if a cast made numbers infinite."""
    if before.type != after.type and math.inf > _infinities(after) > _infinities(before):
        raise pa.ArrowInvalid(f"a number beyond the range of {after.type} would become infinite")


def _infinities(values: pa.Array) -> float:
    """Count the infinite floats in plain or nested values; text can have any number."""
    found = 0.0

    def count(part: pa.Array, kind: pa.DataType) -> pa.Array:
        nonlocal found
        if pt.is_floating(kind):
            found += pc.sum(pc.is_inf(pc.cast(part, pa.float64()))).as_py() or 0
        elif family_of(kind) == "text" or pt.is_dictionary(kind):
            found += math.inf
        return part

    with_leaves(values, count)
    return found


def try_cast(value: Value, kind: pa.DataType) -> Value:
    """Cast the values that can be cast; null for the rest."""
    try:
        return cast(value, kind)
    except pa.ArrowInvalid:
        if isinstance(value, pa.Scalar):
            return scalar_of(None, kind)
    source = value.type
    if family_of(source) == "text" and pt.is_boolean(kind):
        return truth(value)
    if family_of(source) == "text" and pt.is_integer(kind):
        numbers = pc.match_substring_regex(value, WHOLE_NUMBER)
        value = pc.if_else(numbers, value, scalar_of(None, source))
    distinct = pc.unique(value)
    results = ak.concat_arrays([pa.nulls(0, kind), *_halves(distinct, kind)])
    return ak.take(results, pc.index_in(value, value_set=distinct))


def _halves(values: pa.Array, kind: pa.DataType) -> list[pa.Array]:
    """Cast an array in parts: a part that fails is halved, a value that fails becomes null."""
    try:
        return [cast(values, kind)]
    except pa.ArrowInvalid:
        if len(values) == 1:
            return [pa.nulls(1, kind)]
    middle = len(values) // 2
    return [*_halves(values[:middle], kind), *_halves(values[middle:], kind)]


# ---- names of Arrow types, as arrow_cast accepts them

#: the most items of a fixed-size list
_MOST_ITEMS = 2**31 - 1
#: the most bytes of a fixed-size binary value: even nulls take that many
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
    """Return the decimal type with a precision and scale, ``None`` if they are out of range."""
    return pa.decimal128(precision, scale) if 0 < precision <= DIGITS >= abs(scale) else None


def arrow_type(text: str) -> pa.DataType | None:
    """Return the type of a name such as ``Timestamp(Second, Some("UTC"))``; ``None`` if unknown.

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


def arrow_name(kind: pa.DataType) -> str:
    """Return the name that `arrow_type` reads; Arrow's own text for types without one.

    Examples
    --------
    >>> arrow_name(pa.timestamp("s", "UTC")), arrow_name(pa.list_(pa.int8()))
    ('Timestamp(Second, Some("UTC"))', 'List(Int8)')
    """
    if kind in _NAMES:
        return _NAMES[kind]
    if pt.is_timestamp(kind):
        unit, zone = unit_and_zone(kind)
        return f"Timestamp({_UNIT_NAMES[unit]}, " + (f'Some("{zone}"))' if zone else "None)")
    if pt.is_decimal(kind):
        precision, scale = decimal_size(kind)
        return f"Decimal{128 if pt.is_decimal128(kind) else 256}({precision}, {scale})"
    if pt.is_fixed_size_binary(kind):
        return f"FixedSizeBinary({kind.byte_width})"
    if pt.is_fixed_size_list(kind):
        return f"FixedSizeList({kind.list_size}, {arrow_name(item_field(kind).type)})"
    if pt.is_list(kind) or pt.is_large_list(kind):
        name = "List" if pt.is_list(kind) else "LargeList"
        return f"{name}({arrow_name(item_field(kind).type)})"
    return str(kind)


_UNIT_NAMES = {unit: name for name, unit in _UNITS.items()}
_NAMES = {
    **{kind: name for name, kind in reversed(_PLAIN.items())},
    **{pa.duration(unit): f"Duration({name})" for name, unit in _UNITS.items()},
    **{pa.time32(unit): f"Time32({_UNIT_NAMES[unit]})" for unit in ("s", "ms")},
    **{pa.time64(unit): f"Time64({_UNIT_NAMES[unit]})" for unit in ("us", "ns")},
}


# ---- casts to text: values as Lance readers write them

#: from here on, numbers are written with an exponent, by Arrow and in the language
_EXPONENT_OF_ARROW, _EXPONENT = 1e10, 1e16
#: days since 1970 of the years that Arrow writes correctly: -32767 to 32767
_FIRST_DAY, _LAST_DAY = -12_687_428, 11_248_737


def _check_years(value: Value) -> None:
    """Raise an error for dates and timestamps whose years Arrow writes as other years."""
    if pt.is_timestamp(value.type):
        check_local(value)
    days = pc.cast(value if pt.is_date32(value.type) else cut(value, pa.date32()), pa.int32())
    beyond = pc.or_(pc.less(days, _FIRST_DAY), pc.greater(days, _LAST_DAY))
    if (beyond if isinstance(beyond, pa.Scalar) else pc.any(beyond)).as_py():
        raise pa.ArrowInvalid(f"a value of type {value.type} is not within years -32767 to 32767")


def _seconds_text(value: Value, form: str) -> Value:
    """Write a moment in ISO 8601, without trailing zeros of the fraction in groups of three."""
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


def _decimal_text(value: Value) -> Value:
    """Write all digits of decimals: Arrow writes small numbers with an exponent."""
    if isinstance(value, pa.Scalar):
        plain = None if value.as_py() is None else format(value.as_py(), "f")
        return scalar_of(plain, pa.string())
    text = pc.cast(value, pa.string())
    short = pc.fill_null(pc.match_substring(text, "E"), False)
    if not pc.any(short).as_py():
        return text
    digits = [format(one, "f") for one in ak.filter(value, short).to_pylist()]
    return pc.replace_with_mask(text, short, pa.array(digits, pa.string()))


def _list_text(value: Value) -> Value:
    value = _as_array(value)
    texts = pc.coalesce(cast(pc.list_flatten(value), pa.string()), "")
    offsets = np.concatenate(([0], np.cumsum(pc.fill_null(pc.list_value_length(value), 0))))
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)
    joined = pc.binary_join_element_wise("[", pc.binary_join(lists, ", "), "]", "")
    return pc.if_else(pc.is_valid(value), joined, scalar_of(None, pa.string()))


def _write_text(value: Value) -> Value:
    kind = value.type
    if pt.is_timestamp(kind) or pt.is_date(kind):
        _check_years(value)
    if pt.is_timestamp(kind):
        return _moment_text(value)
    if pt.is_date64(kind):
        return _moment_text(pc.cast(value, pa.timestamp("ms")))
    if pt.is_decimal(kind):
        return _decimal_text(value)
    if pt.is_time(kind):
        return _time_text(value)
    if pt.is_floating(kind):
        return _float_text(value)
    if pt.is_list(kind):
        return _list_text(value)
    return pc.cast(value, pa.string())
