"""The parts of Arrow's arrays and types, for callers who know what they have by other means.

Where a function asks itself what an array is, `isinstance` tells the type checker, too.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = [
    "child_of",
    "decimal_size",
    "fixed_items",
    "flattened",
    "item_field",
    "items_of",
    "unit_and_zone",
    "unit_of",
    "viewed",
]


def viewed(buffer: pa.Buffer | None, kind: Any = np.uint8) -> NDArray[Any]:
    """Return a buffer as numbers of a NumPy type, not copied; one that is not there holds none."""
    return np.frombuffer(b"" if buffer is None else buffer, kind)


def child_of(array: pa.Array, place: int | str) -> pa.Array:
    """Return a field of structs, without the nulls of the structs themselves."""
    return cast("pa.StructArray", array).field(place)


def items_of(lists: pa.Array) -> pa.Array:
    """Return the items of lists, of fixed-size ones or of maps; of a slice, those around it too."""
    return cast("pa.ListArray", lists).values


def fixed_items(lists: pa.Array) -> pa.Array:
    """Return the items of fixed-size lists; of a slice, its own only."""
    size = cast("pa.FixedSizeListType", lists.type).list_size
    return items_of(lists).slice(lists.offset * size, len(lists) * size)


def flattened(lists: pa.Array) -> pa.Array:
    """Return the items of lists, or of fixed-size ones, without those of lists that are null."""
    return cast("pa.ListArray", lists).flatten()


def item_field(kind: pa.DataType) -> pa.Field:
    """Return the field of the items of a type of lists, fixed-size ones among them."""
    return cast("pa.ListType", kind).value_field


def decimal_size(kind: pa.DataType) -> tuple[int, int]:
    """Return the precision and the scale of a type of decimals."""
    decimals = cast("pa.Decimal128Type", kind)
    return decimals.precision, decimals.scale


def unit_of(kind: pa.DataType) -> str:
    """Return the unit of a type of times, durations or timestamps."""
    return cast("pa.Time64Type", kind).unit


def unit_and_zone(kind: pa.DataType) -> tuple[str, str | None]:
    """Return the unit and the time zone of a type of timestamps."""
    timestamps = cast("pa.TimestampType", kind)
    return timestamps.unit, timestamps.tz
