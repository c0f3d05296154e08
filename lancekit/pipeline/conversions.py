"""Casts of columns from one type to another of its kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lancekit.errors import InvalidArgumentError

__all__ = ["Conversion", "can_convert"]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind))


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pt.is_date(kind) or pt.is_timestamp(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind))


Test = Callable[[Any], Any]

#: from which types to which, as in the reference
_CASTS: tuple[tuple[Test, Test], ...] = (
    (pt.is_integer, pt.is_integer),
    (pt.is_floating, pt.is_floating),
    (pt.is_decimal, pt.is_decimal),
    (_is_text, _is_text),
    (_is_bytes, _is_bytes),
    (_is_moment, _is_moment),
    (pt.is_timestamp, pt.is_time),
    (pt.is_time, pt.is_time),
)


def can_convert(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether a column of one type can be cast to another.

    Examples
    --------
    >>> can_convert(pa.int64(), pa.int8()), can_convert(pa.int64(), pa.string())
    (True, False)
    """
    if old.equals(new):
        return True
    if _is_list(old) and _is_list(new):
        return can_convert(old.value_type, new.value_type)
    if pt.is_fixed_size_list(old) and pt.is_fixed_size_list(new):
        return old.list_size == new.list_size and can_convert(old.value_type, new.value_type)
    return any(source(old) and target(new) for source, target in _CASTS)


@dataclass(frozen=True, slots=True)
class Conversion:
    """A cast of a column, or of parts of a struct: each part by the name that it had.

    Can be sent to a worker.
    """

    field: pa.Field
    parts: tuple[tuple[str, Conversion], ...] = ()

    def apply(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the values in the new type; of a struct, only the parts that are cast.

        Raises
        ------
        InvalidArgumentError
            A value does not fit the new type.
        """
        try:
            chunks = [self._apply(chunk) for chunk in values.chunks]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidArgumentError(
                f"Column {self.field.name!r} cannot be cast from {values.type} to "
                f"{self.field.type}: {str(error).splitlines()[0]}.",
                hint="Change these values first, with update().",
                column=self.field.name,
            ) from error
        return pa.chunked_array(chunks, self.field.type)

    def _apply(self, values: pa.Array) -> pa.Array:
        if not self.parts:
            return pc.cast(values, self.field.type, safe=_is_checked(self.field.type))
        arrays = [part._apply(values.field(name)) for name, part in self.parts]
        fields = [part.field for _, part in self.parts]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=values.is_null())


def _is_checked(kind: pa.DataType) -> bool:
    """Return whether a value that changes is an error: fractions of time are cut off."""
    while pt.is_nested(kind):
        kind = kind.field(0).type
    return not (pt.is_floating(kind) or pt.is_temporal(kind))
