"""Coercion of dates and timestamps with different units or zones to types that Arrow compares.

Two columns are compared in the coarser of their units, as in Lance readers. A constant is compared
exactly: it never decides the unit of a column.
"""

from __future__ import annotations

from typing import TypeAlias, cast

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit._arrow_values import scalar_of
from lancekit._casts import cut
from lancekit._format.arrow_parts import unit_and_zone

#: as in `operators`, which imports this module
_Value: TypeAlias = pa.Array | pa.Scalar

#: units of time from the coarsest on, with their nanoseconds
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
UNITS = tuple(_NANOSECONDS)


def in_common_zone(left: _Value, right: _Value) -> tuple[_Value, _Value]:
    """Convert two moments to zoned timestamps if one of them is zoned."""
    zones = [v.type.tz for v in (left, right) if pt.is_timestamp(v.type) and v.type.tz]
    if not zones:
        return left, right
    return _in_zone(left, zones[0]), _in_zone(right, zones[0])


def _in_zone(value: _Value, zone: str) -> _Value:
    """Convert a naive timestamp as local time in a zone, and a date as midnight UTC.

    The reference does the same.
    """
    if pt.is_timestamp(value.type) and value.type.tz:
        return value
    if pt.is_date(value.type):
        return pc.cast(pc.cast(value, pa.timestamp("us")), pa.timestamp("us", zone))
    unit = value.type.unit if pt.is_timestamp(value.type) else "us"
    naive = pc.cast(value, pa.timestamp(unit))
    return pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="earliest")


def _in_unit(value: _Value, unit: str) -> _Value:
    """Convert a timestamp to a unit that is not finer: digits are cut off, nothing overflows."""
    kind = pa.timestamp(unit, unit_and_zone(value.type)[1])
    found: _Value = cut(value, kind)
    return found


def in_common_unit(left: _Value, right: _Value) -> tuple[_Value, _Value]:
    """Convert two timestamps to the coarser of their units."""
    unit = min((unit_and_zone(v.type)[0] for v in (left, right)), key=UNITS.index)
    return _in_unit(left, unit), _in_unit(right, unit)


def in_column_unit(left: _Value, right: _Value) -> tuple[_Value, _Value]:
    """Convert a constant to the type of the timestamp column, if that does not change its value."""
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Array):
        return _fitted(left, right.type), right
    if isinstance(right, pa.Scalar) and isinstance(left, pa.Array):
        return left, _fitted(right, left.type)
    return left, right


def _from_date(value: _Value, other: pa.DataType) -> _Value:
    """Convert a date to a timestamp whose unit holds every date, if ``other`` is a timestamp."""
    if not (pt.is_date(value.type) and pt.is_timestamp(other)):
        return value
    return pc.cast(value, pa.timestamp("s" if pt.is_date32(value.type) else "ms"))


def _fitted(value: _Value, column: pa.DataType) -> _Value:
    value = _from_date(value, column)
    if not (pt.is_timestamp(value.type) and pt.is_timestamp(column)):
        return value
    kind = pa.timestamp(unit_and_zone(column)[0], unit_and_zone(value.type)[1])
    try:
        return pc.cast(value, kind)
    except pa.ArrowInvalid:  # out of range, or between two values of the column's unit
        return value


def exact_pair(left: _Value, right: _Value) -> tuple[_Value, _Value]:
    """Convert moments to types that compare exactly if one of them is a constant.

    >>> column, constant = pa.array([1, 1001], "timestamp[ns]"), pa.scalar(1, "timestamp[us]")
    >>> pc.greater(*exact_pair(column, constant)).to_pylist()
    [False, True]
    """
    left, right = in_column_unit(*in_common_zone(left, right))
    if isinstance(left, pa.Array) and isinstance(right, pa.Array):
        return left, right
    left, right = _from_date(left, right.type), _from_date(right, left.type)
    if left.type == right.type or not (pt.is_timestamp(left.type) and pt.is_timestamp(right.type)):
        return left, right
    unit = max((unit_and_zone(v.type)[0] for v in (left, right)), key=UNITS.index)
    try:
        finer = [pc.cast(v, pa.timestamp(unit, unit_and_zone(v.type)[1])) for v in (left, right)]
    except pa.ArrowInvalid:  # too far from 1970 for the finer unit
        return _nanoseconds(left), _nanoseconds(right)
    return finer[0], finer[1]


def _nanoseconds(value: _Value) -> _Value:
    """Return the nanoseconds since 1970 as decimals, which have the range of all timestamps."""
    counts = pc.cast(pc.cast(value, pa.int64()), pa.decimal128(19))
    factor = scalar_of(_NANOSECONDS[unit_and_zone(value.type)[0]], pa.int32())
    return pc.multiply(counts, pc.cast(factor, pa.decimal128(10)))


def members_in_unit(value: _Value, members: pa.Array) -> tuple[_Value, pa.Array]:
    """Convert constants to the type of the timestamps that are looked up in them.

    A constant that equals no value of that unit is left out.
    """
    value, both = in_common_zone(value, members)
    found = cast("pa.Array", both)
    if not pt.is_timestamp(value.type) or value.type == found.type:
        return value, found
    try:
        return value, pc.cast(cast("pa.Array", _from_date(found, value.type)), value.type)
    except pa.ArrowInvalid:
        fitted = [_fitted(found[at], value.type) for at in range(len(members))]
    return value, pa.array([one for one in fitted if one.type == value.type], value.type)
