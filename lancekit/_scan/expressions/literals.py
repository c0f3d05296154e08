"""Literals of the filter language, and their coercion to the types of columns."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import array_of, scalar_of
from lancekit._format.arrow_parts import decimal_size, unit_and_zone
from lancekit._scan.expressions.kernels.casts import cast
from lancekit._scan.expressions.kernels.operators import family
from lancekit._scan.expressions.kernels.reading import DIGITS, ROOM
from lancekit._scan.expressions.syntax import show
from lancekit.errors import PredicateError

_INT64_MAX = (1 << 63) - 1

#: from this many digits on, a number fits no integer type
_LONG_NUMBER = 100


def number(text: str) -> int | Decimal:
    """Parse a number literal; Python refuses to read integers of thousands of digits."""
    whole = text.lstrip("-").isdigit() and len(text) < _LONG_NUMBER
    return int(text) if whole else Decimal(text)


def negated(value: int | Decimal) -> int | Decimal:
    """Return a number with the other sign; ``-`` rounds decimals and drops the sign of a zero."""
    return value.copy_negate() if isinstance(value, Decimal) else -value


def natural(value: Any) -> pa.Scalar:
    """Return a literal in its own type, for use without a column that decides the type."""
    match value:
        case Decimal():
            return scalar_of(_double(value))
        case bool() | None | str() | bytes():
            return scalar_of(value)
        case _ if -(1 << 63) <= value <= _INT64_MAX:
            return scalar_of(value, pa.int64())
        case _ if 0 < value < 1 << 64:
            return scalar_of(value, pa.uint64())
    return scalar_of(_double(value))


def _double(value: int | Decimal) -> float:
    """Return the nearest double; infinite if the number is beyond the range of doubles."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def moment(text: str, kind: pa.DataType) -> pa.Scalar:
    """Parse the text of a date or timestamp for a column of this type.

    With an offset it is an instant; without, it is local time in the column's zone.
    """
    if pt.is_date(kind):
        is_midnight = not text[10:].strip("T :0.Z")
        return pc.cast(scalar_of(text[:10] if is_midnight else text), kind)
    unit, zone = unit_and_zone(kind)
    if finer := re.search(r"(\.\d{3,9})", text):
        # digits beyond the unit are cut off
        text = text.replace(finer[1], finer[1][: 1 + DIGITS[unit]].rstrip("."))
    try:
        naive = pc.cast(scalar_of(text), pa.timestamp(unit))
    except pa.ArrowInvalid:
        instant = pc.cast(scalar_of(text), pa.timestamp(unit, "UTC"))
        return pc.cast(instant, pa.timestamp(unit, zone or "UTC"))
    if zone:
        return pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="earliest")
    return naive


#: units for a timestamp that does not fit the column's unit
_OWN_UNITS = ("us", "ns")


def exact_moment(text: str, kind: pa.DataType) -> pa.Scalar:
    """Parse the text of a date or timestamp exactly: in the given type, or a unit that can hold it.

    A timestamp with more digits than the type's unit, or out of its range, gets another unit. It is
    never cut off when it is compared with a column.
    """
    if pt.is_date(kind):
        return moment(text, kind)
    unit, zone = unit_and_zone(kind)
    fraction = re.search(r"\.(\d*?)0*(?!\d)", text)
    digits = len(fraction[1]) if fraction else 0
    units = [u for u in (unit, *_OWN_UNITS) if DIGITS[u] >= digits]
    for one in units[:-1]:
        with contextlib.suppress(pa.ArrowInvalid):  # out of the range of that unit
            return moment(text, pa.timestamp(one, zone))
    return moment(text, pa.timestamp(units[-1] if units else "ns", zone))


_DAY, _TIME = r"^\d{4}-\d\d-\d\d", r"([ T]\d\d:\d\d:\d\d%s)?"


def moments(texts: Sequence[str], kind: pa.DataType) -> pa.Array | None:
    """Parse texts as ``moment`` does; ``None`` if one is not in the common ISO form."""
    array = array_of(texts, pa.string())
    unit, zone, rest = "", None, ""
    if not pt.is_date(kind):
        unit, zone = unit_and_zone(kind)
        digits = DIGITS[unit]
        rest = _TIME % (rf"(\.\d{{1,{digits}}})?" if digits else "")
    if not pc.all(pc.match_substring_regex(array, f"{_DAY}{rest}$")).as_py():
        return None
    if not zone:
        return pc.cast(array, kind)
    naive = pc.cast(array, pa.timestamp(unit))
    return pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="earliest")


def _floating(value: int | Decimal, kind: pa.DataType) -> pa.Scalar:
    """Round a number to a width; half floats are returned as floats, which compute their values."""
    number = scalar_of(_double(value), pa.float64())
    if not pt.is_float16(kind):
        return pc.cast(number, kind)
    half = pc.cast(pc.cast(number, kind), pa.float32())
    return half if math.isfinite(half.as_py()) else pc.cast(number, pa.float32())


def _decimal(value: int | Decimal, kind: pa.DataType) -> pa.Scalar:
    """Keep a decimal's own scale, so that 1.105 is not cut to fit a column with scale 2."""
    exact = scalar_of(Decimal(value))
    if decimal_size(exact.type)[1] <= decimal_size(kind)[1] and not pt.is_decimal256(kind):
        try:
            found: pa.Scalar = ak.cast_decimals(exact, kind)
        except pa.ArrowInvalid:  # out of the column's range
            return exact
        return found
    return exact


def exact_decimal(value: int | Decimal, kind: pa.DataType) -> pa.Scalar:
    """Return a number as a decimal of a type; halves are rounded away from zero.

    More digits before the point than the type has are an ``ArrowInvalid``.

    >>> exact_decimal(Decimal("-0.125"), pa.decimal128(38, 2))
    <pyarrow.Decimal128Scalar: Decimal('-0.13')>
    """
    last = Decimal(1).scaleb(-decimal_size(kind)[1])
    try:
        return scalar_of(ROOM.quantize(Decimal(value), last), kind)
    except (InvalidOperation, pa.ArrowInvalid) as error:
        raise pa.ArrowInvalid(f"{value} is not a value of type {kind}") from error


def _text_as(value: str, kind: pa.DataType) -> pa.Scalar:
    return cast(scalar_of(value), kind)


# (Python type of the literal) -> {type family of the column: the coercion}
_RULES: Mapping[type, Mapping[str, Callable[[Any, pa.DataType], pa.Scalar]]] = {
    int: {"integer": scalar_of, "floating": _floating, "decimal": _decimal},
    Decimal: {"floating": _floating, "decimal": _decimal},
    str: {"text": scalar_of, "moment": exact_moment, "time": _text_as},
    bool: {"boolean": scalar_of},
    bytes: {"bytes": scalar_of},
}

# (Python type of the literal, family of the other operand): the coercion where types may differ
_LOOSE: Mapping[tuple[type, str], Callable[[Any, pa.DataType], pa.Scalar]] = {
    (Decimal, "decimal"): _decimal,
    (int, "decimal"): _decimal,
    (int, "day"): lambda value, kind: pc.cast(scalar_of(value, pa.int32()), kind),
    (str, "integer"): _text_as,
    (str, "floating"): _text_as,
    (str, "decimal"): _text_as,
    (str, "boolean"): _text_as,
    (str, "time"): _text_as,
    (str, "moment"): exact_moment,
    (str, "day"): moment,
    (str, "bytes"): lambda value, kind: scalar_of(value.encode(), kind),
}


def loosely(value: object, kind: pa.DataType, other: str) -> pa.Scalar:
    """Coerce a literal to a type that combines with the other operand's type.

    kind, other: the type of the other operand, and its name for errors.

    Raises PredicateError: a text cannot be read as a value of that type.
    """
    if value is None:
        return scalar_of(None, kind)
    take = _LOOSE.get((type(value), "day" if pt.is_date32(kind) else _taker(kind)))
    if take is None:
        return natural(value)
    try:
        return take(value, kind)
    except (pa.ArrowException, OverflowError, ValueError) as error:
        raise PredicateError(f"{show(value)} cannot be read as {kind}, like {other}.") from error


def _taker(kind: pa.DataType) -> str:
    """Return the key of a type in the tables of coercions: its family, or its kind of number."""
    for name, test in (
        ("integer", pt.is_integer),
        ("floating", pt.is_floating),
        ("decimal", pt.is_decimal),
    ):
        if test(kind):
            return name
    return family(kind)


def as_type(value: Any, kind: pa.DataType, column: str) -> pa.Scalar:
    """Coerce a literal to the type of the column that it is compared or computed with.

    Raises PredicateError: the column's type cannot hold the value: wrong kind or out of range.
    """
    if value is None:
        return scalar_of(None, kind)
    take = _RULES[type(value)].get(_taker(kind))
    try:
        if take is not None:
            return take(value, kind)
    except (pa.ArrowInvalid, OverflowError, ValueError):
        pass
    wider = "double" if isinstance(value, Decimal) else "bigint"
    number = family(natural(value).type) == "number"
    hint = (
        f"To compare with such a number: CAST({column} AS {wider})."
        if number and (pt.is_integer(kind) or family(kind) == "text") and abs(value) <= _INT64_MAX
        else ""
    )
    raise PredicateError(
        f"{show(value)} is not a value of the column {column!r}, which is {kind}.",
        hint=hint,
        column=column,
        type=str(kind),
        value=value,
    )


# ---- many literals


def at_once(values: Sequence[object], other: pa.DataType, *, strict: bool) -> pa.Array | None:
    """Coerce many literals of one Python type; ``None`` if they must be coerced one by one."""
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return None
    make = _AT_ONCE.get((kinds.pop(), _sort(other), strict))
    try:
        return make(values, other) if make is not None else None
    except (pa.ArrowInvalid, OverflowError):
        return None  # a literal does not fit; coercing one by one finds it


def _sort(kind: pa.DataType) -> str:
    """Return the key of a type in `_AT_ONCE`; empty for types that are coerced one by one."""
    if pt.is_large_string(kind) or pt.is_decimal256(kind) or pt.is_float16(kind):
        return ""
    return _taker(kind)


def _as_doubles(values: Sequence[int | Decimal], kind: pa.DataType) -> pa.Array:
    return pc.cast(pa.array(list(map(float, values)), pa.float64()), kind)


def _as_decimals(values: Sequence[int | Decimal], kind: pa.DataType) -> pa.Array | None:
    exact = list(map(Decimal, values))
    if max(-int(value.as_tuple().exponent) for value in exact) > decimal_size(kind)[1]:
        return None
    return pa.array(exact, kind)


# (type of the literals, family of the other operand, whether strict): the coercion
_AT_ONCE: Mapping[
    tuple[type, str, bool], Callable[[Sequence[Any], pa.DataType], pa.Array | None]
] = {
    (int, "integer", True): array_of,
    (int, "integer", False): lambda values, _kind: array_of(values, pa.int64()),
    (int, "floating", True): _as_doubles,
    (int, "floating", False): lambda values, _kind: array_of(values, pa.int64()),
    (Decimal, "floating", True): _as_doubles,
    (Decimal, "floating", False): lambda values, _kind: _as_doubles(values, pa.float64()),
    (bytes, "bytes", True): array_of,
    (bytes, "bytes", False): lambda values, _kind: pa.array(values, pa.binary()),
    **{(kind, "decimal", flag): _as_decimals for kind in (int, Decimal) for flag in (True, False)},
    **{(str, "text", strict): array_of for strict in (True, False)},
    **{(str, "moment", strict): moments for strict in (True, False)},
}
