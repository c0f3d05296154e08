"""Casts of values that are not nested, which refuse a value that would change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
from pyarrow import types as pt

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._casts import changed_by_float, cut, family_of, rule_of
from lancekit._format.arrow_parts import child_of, item_field
from lancekit._format.extensions import BLOB_INPUT
from lancekit._scan.expressions.kernels.casts import cast_column
from lancekit.errors import InvalidArgumentError


class LossError(Exception):
    """A value that a cast would change: its position in the array, the value, and the reason.

    ``crowded`` is True if the cast fails only because the array has too many different values.
    """

    def __init__(self, index: int, value: object, reason: str, *, crowded: bool = False) -> None:
        super().__init__(index, value, reason)
        self.index = index
        self.value = value
        self.reason = reason
        self.crowded = crowded


def first(condition: pa.Array) -> int | None:
    """Return the position of the first true value; null counts as false."""
    position = pc.index(pc.fill_null(condition, False), True).as_py()
    return position if position >= 0 else None


def value_at(values: pa.Array, index: int) -> object:
    """Return a value for an error; a moment beyond Python's range as the count of its unit."""
    value = values[index]
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return getattr(value, "value", str(value.type))


def plain_cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast by Arrow's own rules; raise LossError for a value that Arrow refuses."""
    try:
        return ak.cast(values, target)
    except pa.ArrowInvalid as error:
        raise LossError(0, None, str(error).splitlines()[0]) from error


def exact(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast an array; raise LossError for the first value that would change."""
    try:
        result = ak.cast(values, target)
        widens = pt.is_floating(values.type) and values.type.bit_width <= target.bit_width
        if not pt.is_floating(target) or widens:
            return result
    except pa.ArrowInvalid as error:
        at = _first_that_fails(values, target)
        raise LossError(at, value_at(values, at), f"does not fit {target} exactly") from error
    index = first(changed_by_float(values, result))
    if index is not None:
        raise LossError(index, value_at(values, index), f"does not fit {target} exactly")
    return result


def _first_that_fails(values: pa.Array, target: pa.DataType) -> int:
    """Return the position of the first value that a checked cast refuses, by bisection."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            ak.cast(values.slice(low, middle - low), target)
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low


def integer_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast integers to decimals that hold each value."""
    # Arrow refuses a narrow decimal by the integer's type alone, whatever the values are.
    return exact(values.cast(pa.decimal128(20)), target)


def float_to_integer(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast floats to integers; refuse fractions and values that are not finite."""
    index = first(pc.invert(pc.is_finite(values)))
    if index is not None:
        raise LossError(index, value_at(values, index), f"does not fit {target} exactly")
    return exact(values, target)


def to_midnight(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast timestamps to dates; refuse a time of day other than midnight."""
    days: pa.Array = cut(values, pa.date32())
    index = first(pc.not_equal(days.cast(values.type), values))
    if index is not None:
        raise LossError(index, value_at(values, index), "is not at midnight")
    return days.cast(target)


def to_fixed_binary(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast binary values to fixed-size binary; refuse a value of another length."""
    plain = values.cast(pa.large_binary())
    index = first(pc.not_equal(pc.binary_length(plain), target.byte_width))
    if index is not None:
        raise LossError(index, value_at(values, index), f"is not of {target.byte_width} bytes")
    return plain.cast(target)


# ---- blobs

#: the struct type in which blobs are written, without the optional range of an external file
BLOB_STRUCT = pa.struct(list(BLOB_INPUT)[:2])
_BLOB_RANGE = list(BLOB_INPUT)[2:]


def is_blob_struct(kind: object) -> bool:
    """Return True if a type is a struct type in which blobs are written."""
    return bool(kind in (BLOB_STRUCT, BLOB_INPUT))


def bytes_to_blobs(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert binary values to blob structs."""
    parts = {"data": plain_cast(values, pa.large_binary())}
    return _blob_parts(parts, values, target)


def cast_blobs(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast blob structs to the fields of the target; refuse to drop the range of a file."""
    parts = {
        field.name: pc.struct_field(values, [field.name])
        for field in cast("pa.StructType", values.type)
    }
    kept = cast("pa.StructType", target)
    for field in _BLOB_RANGE:
        index = first(parts[field.name].is_valid()) if field.name in parts else None
        if index is not None and kept.get_field_index(field.name) < 0:
            raise LossError(index, value_at(values, index), "is only a part of a file")
    return _blob_parts(parts, values, target)


def _blob_parts(parts: dict[str, pa.Array], values: pa.Array, target: pa.DataType) -> pa.Array:
    fields = list(cast("pa.StructType", target))
    children = [parts.get(f.name, pa.nulls(len(values), f.type)) for f in fields]
    mask = values.is_null() if ak.null_count(values) else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


# ---- casts of columns to another type, as `alter_columns` makes them


def can_convert(old: pa.DataType, new: pa.DataType) -> bool:
    """Return True if a column of one type can be cast to another.

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
    """Cast an array; dictionaries are decoded, and encoded again."""
    if values.type.equals(kind):
        return values
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if not pt.is_dictionary(kind):
        return cast_column(values, kind)
    encoded = convert(values, kind.value_type).dictionary_encode()
    keys = encoded.indices.cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(keys, encoded.dictionary, ordered=kind.ordered)


def converted(
    values: pa.ChunkedArray, field: pa.Field, change: Callable[[pa.Array], pa.Array]
) -> pa.ChunkedArray:
    """Cast a column to the type of a field, with a function that casts each chunk.

    Raises InvalidArgumentError: a value does not fit the new type.
    """
    try:
        chunks = [change(chunk) for chunk in values.chunks]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(
            f"Column {field.name!r} cannot be cast from {values.type} to "
            f"{field.type}: {str(error).splitlines()[0].rstrip('.')}.",
            hint="Change these values first, with update().",
            column=field.name,
        ) from error
    return pa.chunked_array(chunks, field.type)


@dataclass(frozen=True, slots=True)
class Conversion:
    """A cast of a column, or of fields of a struct, each under its old name.

    Can be sent to a worker.
    """

    field: pa.Field
    parts: tuple[tuple[str, Conversion], ...] = ()

    def apply(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the values in the new type; a struct keeps only the fields in `parts`.

        Raises InvalidArgumentError: a value does not fit the new type.
        """
        return converted(values, self.field, self._apply)

    def _apply(self, values: pa.Array) -> pa.Array:
        if not self.parts:
            return convert(values, self.field.type)
        arrays = [part._apply(child_of(values, name)) for name, part in self.parts]
        fields = [part.field for _, part in self.parts]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=values.is_null())
