"""Casts of columns from one type to another of its kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as pt

from lancekit._casts.rules import family_of, rule_of
from lancekit._format.arrow_parts import child_of, item_field
from lancekit._scan.expressions.kernels.casts import cast
from lancekit.errors import InvalidArgumentError

__all__ = ["Conversion", "can_convert", "convert", "converted"]


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
    if family_of(old) == family_of(new) == "list":
        return can_convert(item_field(old).type, item_field(new).type)
    rule = rule_of(old, new)
    return rule is not None and rule.alter


def _values_of(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pt.is_dictionary(kind) else kind


def convert(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array; dictionaries are taken apart and made anew."""
    if values.type.equals(kind):
        return values
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if not pt.is_dictionary(kind):
        return cast(values, kind)
    encoded = convert(values, kind.value_type).dictionary_encode()
    keys = encoded.indices.cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(keys, encoded.dictionary, ordered=kind.ordered)


def converted(
    values: pa.ChunkedArray, field: pa.Field, change: Callable[[pa.Array], pa.Array]
) -> pa.ChunkedArray:
    """Return values of a column as the type of a field, which a function makes of each chunk.

    Raises
    ------
    InvalidArgumentError
        A value does not fit the new type.
    """
    try:
        chunks = [change(chunk) for chunk in values.chunks]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(
            f"Column {field.name!r} cannot be cast from {values.type} to "
            f"{field.type}: {str(error).splitlines()[0]}.",
            hint="Change these values first, with update().",
            column=field.name,
        ) from error
    return pa.chunked_array(chunks, field.type)


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
        return converted(values, self.field, self._apply)

    def _apply(self, values: pa.Array) -> pa.Array:
        if not self.parts:
            return convert(values, self.field.type)
        arrays = [part._apply(child_of(values, name)) for name, part in self.parts]
        fields = [part.field for _, part in self.parts]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=values.is_null())
