"""The types of statements: Arrow's, in the form that both engines have.

An engine sees unsigned and half-wide numbers, dictionaries and nanoseconds as Spark does
(`lancekit._spark.frames.types`), so that it makes no difference which one works.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

__all__ = ["BIGINT", "DOUBLE", "INSTANT", "TEXT", "TIMESTAMP", "common", "decimal_of", "family"]

BIGINT, DOUBLE, TEXT = pa.int64(), pa.float64(), pa.string()
TIMESTAMP, INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")

_FAMILIES: Mapping[pa.DataType, str] = {
    pa.null(): "null",
    pa.bool_(): "condition",
    **dict.fromkeys([pa.int8(), pa.int16(), pa.int32(), pa.int64()], "integer"),
    pa.float32(): "fraction",
    pa.float64(): "fraction",
    pa.string(): "text",
    pa.binary(): "bytes",
    pa.date32(): "date",
    TIMESTAMP: "timestamp",
    INSTANT: "instant",
}


def family(kind: pa.DataType) -> str:
    """Return what sort of values a type has.

    Examples
    --------
    >>> family(pa.int8()), family(pa.decimal128(5, 2)), family(pa.list_(pa.int8()))
    ('integer', 'decimal', 'other')
    """
    return "decimal" if pt.is_decimal128(kind) else _FAMILIES.get(kind, "other")


def decimal_of(kind: Any) -> pa.DataType:
    """Return the widest decimal type with the digits behind the point of a decimal type."""
    return pa.decimal128(38, kind.scale)


def common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type in which values of two types meet, ``None`` if there is none.

    Examples
    --------
    >>> common(pa.int8(), pa.int32()), common(pa.int8(), pa.float32())
    (DataType(int32), DataType(double))
    >>> common(pa.int8(), pa.string()) is None
    True
    """
    if one == other:
        return one
    families = {family(one), family(other)}
    if "null" in families:
        return other if family(one) == "null" else one
    if families == {"integer"}:
        return max(one, other, key=lambda kind: kind.bit_width)
    if families <= {"integer", "fraction"} or families == {"decimal", "fraction"}:
        return DOUBLE
    if "decimal" in families and families <= {"integer", "decimal"}:
        scales: list[int] = [kind.scale for kind in (one, other) if pt.is_decimal(kind)]
        return pa.decimal128(38, max(scales)) if max(scales) <= 18 else None
    return TIMESTAMP if families == {"date", "timestamp"} else None
