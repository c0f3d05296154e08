"""Functions of dates, times and timestamps."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit._arrow_values import scalar_of
from lancekit._casts import nearest
from lancekit._format.arrow_parts import unit_and_zone
from lancekit._scan.expressions.kernels.casts import cast
from lancekit._scan.expressions.kernels.function import Function, constant_of, per_value, unary
from lancekit._scan.expressions.kernels.operators import Value, family

_TO_SECOND: Mapping[str, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _fraction(value: Value) -> Value:
    """Return the nanoseconds within the second."""
    parts = pc.millisecond(value), pc.microsecond(value), pc.nanosecond(value)
    scaled = [pc.multiply(p, f) for p, f in zip(parts, (10**6, 10**3, 1), strict=True)]
    return pc.add(pc.add(scaled[0], scaled[1]), scaled[2])


def _within_minute(per_second: int) -> Callable[[Value], Value]:
    """Return a kernel for the time since the start of the minute, in parts of a second."""

    def call(value: Value) -> Value:
        of_seconds = pc.multiply(pc.second(value), per_second)
        return pc.add(of_seconds, pc.divide(_fraction(value), 10**9 // per_second))

    return call


def _epoch(value: Value) -> Value:
    if pt.is_date(value.type):
        value = pc.cast(value, pa.timestamp("s"))
    counts = nearest(pc.cast(value, pa.int64()), pa.float64())
    return pc.divide(counts, float(_TO_SECOND[unit_and_zone(value.type)[0]]))


_PARTS: Mapping[str, Callable[[Value], Value]] = {
    "year": pc.year,
    "isoyear": pc.iso_year,
    "quarter": pc.quarter,
    "month": pc.month,
    "week": pc.iso_week,
    "day": pc.day,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
    "millisecond": _within_minute(10**3),
    "microsecond": _within_minute(10**6),
    "nanosecond": _within_minute(10**9),
    "dow": partial(pc.day_of_week, week_start=7),
    "isodow": partial(pc.day_of_week, count_from_zero=False),
    "doy": pc.day_of_year,
}


def _read(text: Value) -> Value:
    """Parse text as timestamps, in microseconds if a year is out of the range of nanoseconds."""
    try:
        return cast(text, pa.timestamp("ns"))
    except pa.ArrowInvalid:
        return cast(text, pa.timestamp("us"))


def _date_part(part: Value, value: Value) -> Value:
    name = constant_of(part).lower()
    if pt.is_time(value.type):
        unit = value.type.unit
        counts = pc.cast(value, pa.int32() if pt.is_time32(value.type) else pa.int64())
        value = pc.cast(pc.cast(counts, pa.int64()), pa.timestamp(unit))
    elif family(value.type) == "text":
        value = _read(value)
    if name == "epoch":
        return _epoch(value)
    if pt.is_date(value.type):
        value = pc.cast(value, pa.timestamp("ms"))
    return pc.cast(_PARTS[name](value), pa.int32())


_UNITS = ("nanosecond", "microsecond", "millisecond", "second", "minute", "hour")
_LONG_UNITS = ("day", "week", "month", "quarter", "year")


def _date_trunc(part: Value, value: Value) -> Value:
    unit = constant_of(part).lower()
    if unit not in (*_UNITS, *_LONG_UNITS):
        raise ValueError(f"there is no unit {unit!r}")
    if pt.is_date(value.type):
        value = pc.cast(value, pa.timestamp("ns"))
    zone = unit_and_zone(value.type)[1]
    return _floor(value, unit) if zone is None else _floor_in_zone(value, unit, zone)


def _floor(value: Value, unit: str) -> Value:
    return pc.floor_temporal(value, unit=unit)


def _floor_in_zone(value: Value, unit: str, zone: str) -> Value:
    """Return the start of a unit (second, hour, month, ...) in a zone, as an instant.

    Arrow's own kernel converts back from local time, which is ambiguous where an hour occurs twice.
    """
    if unit in _UNITS[:-1]:
        instant = pc.cast(value, pa.timestamp(unit_and_zone(value.type)[0]))
        return pc.cast(_floor(instant, unit), value.type)
    local = pc.local_timestamp(value)
    if unit == "hour":
        return pc.subtract(value, pc.subtract(local, _floor(local, unit)))
    # a day begins at its first moment, which is not midnight where clocks skip it
    return pc.assume_timezone(_floor(local, unit), zone, ambiguous="earliest", nonexistent="latest")


# ---- to and from text and numbers


def _to_timestamp(unit: str, of_number: str) -> Function:
    """Return a function that converts text, or numbers in the unit ``of_number``."""

    def call(value: Value) -> Value:
        if pt.is_floating(value.type):
            value = pc.multiply(value, float(_TO_SECOND[unit] // _TO_SECOND[of_number]))
        elif family(value.type) == "number":
            return cast(cast(value, pa.timestamp(of_number)), pa.timestamp(unit))
        return cast(value, pa.timestamp(unit))

    return unary(call, "")


def _to_unixtime(value: Value) -> Value:
    if pt.is_integer(value.type):
        return pc.cast(value, pa.int64())
    if not pt.is_timestamp(value.type):
        value = cast(value, pa.timestamp("s" if pt.is_date32(value.type) else "us"))
    unit, zone = unit_and_zone(value.type)
    instant = pc.cast(value, pa.timestamp(unit)) if zone else value
    whole = _floor(instant, "second")
    return pc.cast(pc.cast(whole, pa.timestamp("s")), pa.int64())


def _to_char(value: Value, form: Value) -> Value:
    text = constant_of(form)
    if unknown := re.search(r"%(?![YmdHMSyjaAbBeFTDRuwUVGCIp%])", text):
        raise pa.ArrowNotImplementedError(f"the format {text[unknown.start() :]!r} is not known")
    # Arrow writes seconds with a fraction, the language does not
    if pt.is_timestamp(value.type) and value.type.unit != "s":
        unit, zone = unit_and_zone(value.type)
        whole = _floor(pc.cast(value, pa.timestamp(unit)), "second")  # local time is ambiguous
        value = pc.cast(pc.cast(whole, pa.timestamp("s")), pa.timestamp("s", zone))
    return pc.strftime(value, format=text)


def _at(kind: pa.DataType) -> Callable[[int], pa.Scalar]:
    def call(now: int) -> pa.Scalar:
        instant = scalar_of(now, pa.int64()).cast(pa.timestamp("ns"))
        if pt.is_time(kind):
            return scalar_of(now % (86_400 * 10**9), pa.int64()).cast(kind)
        return cast(instant, kind)

    return call


_NOW, _TODAY = _at(pa.timestamp("ns")), _at(pa.date32())

#: functions of the clock, from nanoseconds since 1970; ``current_...`` needs no parentheses
CLOCK: Mapping[str, Callable[[int], pa.Scalar]] = {
    "now": _NOW,
    "current_timestamp": _NOW,
    "current_date": _TODAY,
    "today": _TODAY,
    "current_time": _at(pa.time64("ns")),
}

TIME_FUNCTIONS: Mapping[str, Function] = {
    **dict.fromkeys(("date_part", "datepart"), Function(_date_part, ("text", ""), 2, 2)),
    **dict.fromkeys(("date_trunc", "datetrunc"), Function(_date_trunc, ("text", "moment"), 2, 2)),
    "to_timestamp": _to_timestamp("ns", "s"),
    "to_timestamp_seconds": _to_timestamp("s", "s"),
    "to_timestamp_millis": _to_timestamp("ms", "ms"),
    "to_timestamp_micros": _to_timestamp("us", "us"),
    "to_timestamp_nanos": _to_timestamp("ns", "ns"),
    "to_date": unary(lambda v: cast(v, pa.date32()), ""),
    "make_date": Function(per_value(dt.date, pa.date32()), ("number",), 3, 3),
    "to_unixtime": unary(_to_unixtime, ""),
    "from_unixtime": unary(lambda v: pc.cast(pc.cast(v, pa.int64()), pa.timestamp("s")), "number"),
    **dict.fromkeys(("to_char", "date_format"), Function(_to_char, ("moment", "text"), 2, 2)),
}
