"""Casts of columns from one type to another of its kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lancekit.errors import InvalidArgumentError
from lancekit.format.arrow_parts import child_of, item_field

__all__ = ["Conversion", "can_convert", "convert"]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind))


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pt.is_date(kind) or pt.is_timestamp(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))


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
    if pt.is_dictionary(old) or pt.is_dictionary(new):
        return can_convert(_values_of(old), _values_of(new))
    if pt.is_fixed_size_list(old) and pt.is_fixed_size_list(new) and old.list_size != new.list_size:
        return False
    if _is_list(old) and _is_list(new):
        return can_convert(item_field(old).type, item_field(new).type)
    return any(source(old) and target(new) for source, target in _CASTS)


def _values_of(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pt.is_dictionary(kind) else kind


def convert(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array; dictionaries are taken apart and made anew."""
    if values.type.equals(kind):
        return values
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if not pt.is_dictionary(kind):
        return pc.cast(values, kind, safe=_is_checked(kind))
    encoded = convert(values, kind.value_type).dictionary_encode()
    keys = encoded.indices.cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(keys, encoded.dictionary, ordered=kind.ordered)


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
            return convert(values, self.field.type)
        arrays = [part._apply(child_of(values, name)) for name, part in self.parts]
        fields = [part.field for _, part in self.parts]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=values.is_null())


def _is_checked(kind: pa.DataType) -> bool:
    """Return whether a value that changes is an error: fractions of time are cut off."""
    while pt.is_nested(kind):
        kind = kind.field(0).type
    return not (pt.is_floating(kind) or pt.is_temporal(kind))
