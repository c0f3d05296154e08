"""Casts from text: numbers, booleans, and moments in the forms of ISO 8601 and JSON.

Texts in columns are parsed like literals. With an offset, a moment is an instant; a type without a
zone gets its time in UTC. Without an offset, it is local time in the type's zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import cast

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import scalar_of
from lancekit._casts import rounded
from lancekit._format.arrow_parts import decimal_size, unit_and_zone, unit_of
from lancekit._scan.expressions.kernels.operators import Value

#: booleans: prefixes of these words that are not ambiguous
_TRUE = ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1")
_FALSE = ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0")

WHOLE_NUMBER = r"^[+-]?\d+$"
#: fraction digits of a second
DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_CLOCK = r"\d\d:\d\d(:\d\d(\.\d+)?)?"
_OFFSET = r"\s*([Zz]|[+-]\d\d(:?\d\d)?)"


def read_text(value: Value, kind: pa.DataType) -> Value:
    """Parse text as values of a type; text that is no such value is an ``ArrowInvalid``."""
    read = next((rule for test, rule in _READERS if test(kind)), None)
    return pc.cast(value, kind) if read is None else read(value, kind)


def truth(value: Value) -> Value:
    """Parse booleans; other text gives null."""
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


def _boolean(value: Value, kind: pa.DataType) -> Value:
    result = truth(value)
    _check_nulls(value, result, kind)
    return result


def _integer(value: Value, kind: pa.DataType) -> Value:
    """Parse digits after a sign, as the reference does: Arrow takes 0x1f, and no plus."""
    hexadecimal = pc.or_(pc.match_substring(value, "x"), pc.match_substring(value, "X"))
    digits = pc.if_else(hexadecimal, scalar_of(None, value.type), value)
    _check_nulls(value, digits, kind)
    try:
        return pc.cast(digits, kind)
    except pa.ArrowInvalid:
        signs = r"^\+(\d)|^-(0+)$"  # Arrow refuses -0 for unsigned integers
        return pc.cast(pc.replace_substring_regex(digits, signs, r"\1\2"), kind)


# ---- moments


def _without(value: Value, kind: pa.DataType) -> Value:
    """Remove surrounding blanks, and digits finer than the unit of a type."""
    digits = DIGITS[unit_of(kind)]
    kept = rf"(\.\d{{{digits}}})\d+" if digits else r"()\.\d+"
    trimmed = pc.utf8_trim_whitespace(value)
    return pc.replace_substring_regex(trimmed, pattern=kept, replacement=r"\1")


def _timestamp(value: Value, kind: pa.DataType) -> Value:
    try:
        return pc.cast(value, kind)
    except pa.ArrowInvalid:
        text = _without(value, kind)
    unit, zone = unit_and_zone(kind)
    has_offset = pc.match_substring_regex(text, rf"[T ]{_CLOCK}{_OFFSET}$")
    none = scalar_of(None, text.type)
    local = pc.cast(pc.if_else(has_offset, none, text), pa.timestamp(unit))
    instant = pc.cast(pc.if_else(has_offset, text, none), pa.timestamp(unit, "UTC"))
    if zone:
        local = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    found: Value = pc.coalesce(pc.cast(instant, kind), local)
    return found


def _date(value: Value, kind: pa.DataType) -> Value:
    """Parse the date of a text, which may be followed by a time of day and an offset."""
    try:
        return pc.cast(value, kind)
    except pa.ArrowInvalid:
        whole = rf"^\s*(\d{{4}}-\d\d-\d\d)([T ]{_CLOCK}({_OFFSET})?)?\s*$"
    date = pc.replace_substring_regex(value, pattern=whole, replacement=r"\1")
    # the time of day must be valid, too
    clock = pc.replace_substring_regex(_without(value, pa.timestamp("us")), f"{_OFFSET}$", "")
    timed = pc.match_substring_regex(value, rf"[T ]{_CLOCK}")
    pc.cast(pc.if_else(timed, clock, scalar_of(None, clock.type)), pa.timestamp("us"))
    return pc.cast(date, kind)


def _time(value: Value, kind: pa.DataType) -> Value:
    text = pc.cast(_without(value, kind), pa.string())
    moment = pc.binary_join_element_wise("1970-01-01", text, " ")
    # hours alone are not a time: they stay without a date, and the cast refuses them
    moment = pc.if_else(pc.match_substring(text, ":"), moment, text)
    return pc.cast(pc.cast(moment, pa.timestamp(unit_of(kind))), kind)


# ---- decimals

#: digits of the widest decimals that Arrow rounds correctly, and of the fraction that it gets
_DIGITS, _FRACTION = 38, 19
#: Python's decimals also accept underscores, digits of all scripts and NaN
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
#: a context with room for the digits of the widest decimals, before and after the point
ROOM = Context(prec=160, rounding=ROUND_HALF_UP)


def _decimal(value: Value, kind: pa.DataType) -> Value:
    """Parse a decimal with all of its digits, and round halves away from zero.

    Arrow wraps around numbers with too many digits before the point, so it only gets texts that are
    too short for that.
    """
    if isinstance(value, pa.Scalar):
        only = _decimal(pa.array([value.as_py()], value.type), kind)
        return cast("pa.Array", only)[0]
    text = pc.utf8_trim_whitespace(value)
    scale = decimal_size(kind)[1]
    longest = pc.max(pc.binary_length(text)).as_py() or 0
    if pc.any(pc.or_(*(pc.match_substring(text, e) for e in "eE"))).as_py():
        return _digit_by_digit(text, kind)
    if longest + scale <= _DIGITS:
        try:
            return pc.cast(pc.cast(text, pa.decimal128(_DIGITS, scale)), kind)
        except pa.ArrowInvalid:  # more digits than the scale has
            pass
    if scale < _FRACTION and longest + _FRACTION <= _DIGITS:
        try:
            wide = pc.cast(text, pa.decimal128(_DIGITS, _FRACTION))
            found: Value = ak.cast_decimals(rounded(wide, scale, "half_towards_infinity"), kind)
        except pa.ArrowInvalid:
            return _digit_by_digit(text, kind)
        return found
    return _digit_by_digit(text, kind)


def _digit_by_digit(text: pa.Array, kind: pa.DataType) -> pa.Array:
    last = Decimal(1).scaleb(-decimal_size(kind)[1])

    def one(written: str | None) -> Decimal | None:
        if written is None:
            return None
        try:
            number = Decimal(written if _NUMBER.fullmatch(written) else "none")
            return ROOM.quantize(number, last)
        except InvalidOperation as error:
            raise pa.ArrowInvalid(f"{written!r} is not a value of type {kind}") from error

    return pa.array(map(one, text.to_pylist()), kind)


_READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Value, pa.DataType], Value]], ...]
_READERS = (
    (pt.is_boolean, _boolean),
    (pt.is_integer, _integer),
    (pt.is_timestamp, _timestamp),
    (pt.is_date, _date),
    (pt.is_time, _time),
    (pt.is_decimal, _decimal),
)
