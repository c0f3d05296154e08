"""Dates, times and durations of Python, NumPy and pandas as Arrow arrays, without loss.

Python counts microseconds, Arrow ignores the nanoseconds of pandas objects by default, and NumPy
has other units.  This module splits each value into microseconds and remaining nanoseconds.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit import _arrow_compute as pc
from lancekit._format.arrow_parts import unit_and_zone
from lancekit._pipeline.casts.values import LossError
from lancekit.errors import InvalidTypeError

#: NumPy units of a fixed length, from weeks down to nanoseconds
_UNITS = {"W", "D", "h", "m", "s", "ms", "us", "ns"}
#: NumPy units of whole days whose length varies
_CALENDAR_UNITS = {"Y", "M"}
_Time: TypeAlias = np.datetime64 | np.timedelta64


def time_array(values: Sequence[dt.time | None]) -> pa.Array:
    """Return times of day as ``time64``; refuse a time with a time zone."""
    for at, value in enumerate(values):
        if value is not None and value.tzinfo is not None:
            raise LossError(at, value, "has a time zone, which columns of times cannot store")
    return pa.array(values, pa.time64("us"))


def moment_array(values: Sequence[object]) -> pa.Array:
    """Return datetimes, possibly mixed with dates, as timestamps of one time zone or of none.

    The unit is microseconds, or nanoseconds if a value has some.  If all values are NumPy days,
    the type is ``date32``.
    """
    if _have_unit(values, "D"):
        blank = np.datetime64("NaT", "D")
        days = np.array([blank if value is None else value for value in values])
        return pa.array(in_arrow_units(days))
    wholes, rests = _split_all(values, _moment)
    zone = _zone(wholes, values)
    return _join_parts(wholes, rests, lambda unit: pa.timestamp(unit, zone))


def span_array(values: Sequence[object]) -> pa.Array:
    """Return timedeltas as durations in microseconds, or in nanoseconds if a value has some."""
    wholes, rests = _split_all(values, _span)
    return _join_parts(wholes, rests, pa.duration)


def _have_unit(values: Sequence[object], unit: str) -> bool:
    return all(
        value is None
        or (isinstance(value, np.datetime64) and (np.isnat(value) or _unit(value) == unit))
        for value in values
    )


def _unit(value: _Time) -> str:
    unit, count = np.datetime_data(value.dtype)
    return unit if count == 1 else f"{count}{unit}"


def _split_all(
    values: Sequence[object], split: Callable[[object], tuple[object, int]]
) -> tuple[list[object], list[int] | None]:
    """Return each value in microseconds, and its further nanoseconds if any value has some."""
    plain = {dt.datetime, dt.timedelta, type(None)}
    if set(map(type, values)) <= plain:
        return list(values), None
    parts = [(None, 0) if value is None else split(value) for value in values]
    rests = [rest for _, rest in parts]
    return [whole for whole, _ in parts], rests if any(rests) else None


def _moment(value: Any) -> tuple[object, int]:
    if isinstance(value, np.datetime64):
        return _numpy_parts(value, "M8[us]", _UNITS | _CALENDAR_UNITS)
    if not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day), 0
    return value, getattr(value, "nanosecond", 0)


def _span(value: object) -> tuple[object, int]:
    if isinstance(value, np.timedelta64):
        return _numpy_parts(value, "m8[us]", _UNITS)
    return value, getattr(value, "nanoseconds", 0)


def _numpy_parts(value: _Time, micros: str, units: set[str]) -> tuple[object, int]:
    if np.isnat(value):
        return None, 0
    if _unit(value) not in units:
        raise TypeError(f"its unit is {_unit(value)}")
    whole = value.astype(micros)
    rest = 0
    if _unit(value) == "ns":
        rest = int((value - whole.astype(value.dtype)).astype(np.int64))
    elif whole.astype(value.dtype) != value:
        raise OverflowError("it is beyond the range of microseconds")
    if rest < 0:  # NumPy truncates durations towards zero
        whole, rest = whole - np.timedelta64(1, "us"), rest + 1000
    return whole.item(), rest


def _zone(moments: Sequence[Any], values: Sequence[object]) -> str | None:
    """Return the zone of the first moment; raise LossError if only some moments have a zone."""
    known = [moment for moment in moments if moment is not None]
    if not known:
        return None
    aware = known[0].tzinfo is not None
    if len({moment.tzinfo is None for moment in known}) > 1:
        both = enumerate(moments)
        at = next(at for at, m in both if m is not None and (m.tzinfo is not None) != aware)
        has, others = ("no", "have one") if aware else ("a", "have none")
        raise LossError(at, values[at], f"has {has} time zone, and others {others}")
    if not aware:
        return None
    try:
        kind = pa.array([known[0].replace(tzinfo=known[0].tzinfo)]).type
        zone = str(unit_and_zone(kind)[1])
    except (pa.ArrowException, ValueError, TypeError):
        return "UTC"  # a zone without a name; the instants are the same
    return zone


def _join_parts(
    wholes: Sequence[object], rests: Sequence[int] | None, kind: Callable[[str], pa.DataType]
) -> pa.Array:
    micros = pa.array(wholes, kind("us"))
    if rests is None:
        return micros
    # the cast refuses values beyond the range of nanoseconds
    nanos = pc.add_checked(micros.cast(kind("ns")).cast(pa.int64()), pa.array(rests, pa.int64()))
    return nanos.cast(kind("ns"))


# ---- NumPy moments and durations in units that Arrow supports

#: by dtype kind and NumPy unit: the Arrow unit, and the most Arrow units in one NumPy unit
_NUMPY_UNITS: dict[str, dict[str, tuple[str, int]]] = {
    "M": {
        "Y": ("D", 366),
        "M": ("D", 31),
        "W": ("D", 7),
        "D": ("D", 1),
        "h": ("s", 3600),
        "m": ("s", 60),
    },
    "m": {"W": ("s", 604800), "D": ("s", 86400), "h": ("s", 3600), "m": ("s", 60)},
}
for _units in _NUMPY_UNITS.values():
    _units |= {unit: (unit, 1) for unit in ("s", "ms", "us", "ns")}

#: the range of days since 1970 in Arrow, 32 bits; other units have 64
_MOST = {"D": 1 << 31}


def in_arrow_units(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return ``datetime64`` or ``timedelta64`` values unchanged, in a unit that Arrow supports.

    Examples
    --------
    >>> in_arrow_units(np.array([5], "M8[10s]"))
    array(['1970-01-01T00:00:50'], dtype='datetime64[s]')

    Raises InvalidTypeError: no Arrow unit holds the values, such as picoseconds.
    Raises LossError: a value is beyond the range of the unit; the error has the first one.
    """
    kind = values.dtype.kind
    unit, count = np.datetime_data(cast("NDArray[_Time]", values).dtype)
    if unit not in _NUMPY_UNITS[kind]:
        what = "moments" if kind == "M" else "spans"
        raise InvalidTypeError(
            f"Arrow has no {what} in units of {unit}.",
            hint=f"Round them to a supported unit: values.astype('{kind}8[us]').",
        )
    new, each = _NUMPY_UNITS[kind][unit]
    most = _MOST.get(new, 1 << 63) // (each * count) - 1
    plain = cast("NDArray[_Time]", np.ma.getdata(values))
    numbers = plain.astype(np.int64)
    beyond = np.argwhere(((numbers > most) | (numbers < -most)) & ~np.isnat(plain))
    if len(beyond):
        place = tuple(beyond[0].tolist())
        width = "days of 32 bits" if new == "D" else f"{new} of 64 bits"
        raise LossError(place[0], plain[place], f"is beyond the range of {width}")
    return values if (unit, count) == (new, 1) else values.astype(f"{kind}8[{new}]")
