"""Parts of Arrow arrays and types, with the types that callers know but type checkers do not.

Functions that test the kind of an array use `isinstance`, which type checkers understand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray
from pyarrow import types as pt

if TYPE_CHECKING:
    from collections.abc import Buffer

IsKind: TypeAlias = Callable[[pa.DataType], bool]

#: tests of list types, with functions that build the type for another item field
_LISTS: tuple[tuple[IsKind, Callable[[Any, pa.Field], pa.DataType]], ...] = (
    (pt.is_list, lambda _, field: pa.list_(field)),
    (pt.is_large_list, lambda _, field: pa.large_list(field)),
    (pt.is_fixed_size_list, lambda kind, field: pa.list_(field, kind.list_size)),
    (
        pt.is_map,
        lambda kind, field: pa.map_(field.type.field(0), field.type.field(1), kind.keys_sorted),
    ),
)


def one_of(*tests: IsKind) -> IsKind:
    """Return a test that is True for a type if one of the tests is."""
    return lambda kind: any(test(kind) for test in tests)


def with_leaves(
    array: pa.Array,
    change: Callable[[pa.Array, pa.DataType], pa.Array],
    kind: pa.DataType | None = None,
) -> pa.Array:
    """Apply a function to every non-nested part of nested values.

    array: lists, structs, maps, or plain values.  Nothing is copied if nothing changes.
    change: gets a part and its type in ``kind``; returns the part, possibly with another type.
    kind: a type with the shape of the array's type, by default the array's own.
    """
    kind = array.type if kind is None else kind
    if isinstance(array, pa.StructArray):
        fields = [array.type.field(at) for at in range(array.type.num_fields)]
        parts = [child_of(array, at) for at in range(len(fields))]
        new = [with_leaves(part, change, kind.field(at).type) for at, part in enumerate(parts)]
        if all(one is other for one, other in zip(new, parts, strict=True)):
            return array
        fields = [f.with_type(part.type) for f, part in zip(fields, new, strict=True)]
        return pa.StructArray.from_arrays(new, fields=fields, mask=array.is_null())
    if not any(is_kind(array.type) for is_kind, _ in _LISTS):
        return change(array, kind)
    items = items_of(array)
    changed = with_leaves(items, change, items_type(kind))
    if changed is items:
        return array
    field = pa.field("entries", changed.type, False) if pt.is_map(kind) else item_field(array.type)
    lists = with_children(array.type, [field.with_type(changed.type)])
    return with_other_items(array, lists, changed)


def with_children(kind: pa.DataType, children: list[pa.Field]) -> pa.DataType:
    """Replace the child fields of a struct, list or map type; return other types unchanged."""
    if pt.is_struct(kind):
        return pa.struct(children)
    make = next((make for is_kind, make in _LISTS if is_kind(kind)), None)
    return kind if make is None else make(kind, children[0])


def with_other_items(lists: pa.Array, kind: pa.DataType, items: pa.Array) -> pa.Array:
    """Return lists of the same lengths with other items; ``kind`` is the new type."""
    buffers = lists.buffers()[: 1 if pt.is_fixed_size_list(lists.type) else 2]
    return pa.Array.from_buffers(kind, len(lists), buffers, -1, lists.offset, [items])


def viewed(buffer: pa.Buffer | None, kind: DTypeLike = np.uint8) -> NDArray[Any]:
    """View a buffer as numbers of a NumPy type; a missing buffer is empty."""
    return np.frombuffer(b"" if buffer is None else buffer, kind)


def strings_of(
    offsets: NDArray[np.generic], data: Buffer, kind: pa.DataType | None = None
) -> pa.Array:
    """Return strings from offsets and their bytes, by default as large binary."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind or pa.large_binary(), len(offsets) - 1, buffers)


def string_parts(strings: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the offsets and the bytes of large strings; the first offset may not be 0."""
    if not len(strings):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    _, ends, data = strings.buffers()
    return viewed(ends, np.int64)[strings.offset :][: len(strings) + 1], viewed(data)


def child_of(array: pa.Array, place: int | str) -> pa.Array:
    """Return a child of structs; its validity does not include the structs' own nulls."""
    return cast("pa.StructArray", array).field(place)


def items_of(lists: pa.Array) -> pa.Array:
    """Return all items of lists, fixed-size lists or maps; a slice does not reduce them."""
    return cast("pa.ListArray", lists).values


def fixed_items(lists: pa.Array) -> pa.Array:
    """Return the items of fixed-size lists; a slice has only its own."""
    size = cast("pa.FixedSizeListType", lists.type).list_size
    return items_of(lists).slice(lists.offset * size, len(lists) * size)


def flattened(lists: pa.Array) -> pa.Array:
    """Return the items of lists or fixed-size lists, without the items of null lists."""
    return cast("pa.ListArray", lists).flatten()


def item_field(kind: pa.DataType) -> pa.Field:
    """Return the item field of a list or fixed-size list type."""
    return cast("pa.ListType", kind).value_field


def vector_hint(path: str, kind: pa.DataType) -> str:
    """Return how to convert a column of lists of floats to vectors; "" for other types."""
    if not (pt.is_list(kind) or pt.is_large_list(kind)) or not pt.is_floating(
        item_field(kind).type
    ):
        return ""
    change = f"{{'path': {path!r}, 'data_type': pa.list_(pa.float32(), n)}}"
    return f"If all lists have the same length n, convert them: ds.alter_columns({change})."


def items_type(kind: pa.DataType) -> pa.DataType:
    """Return the item type of a list type, or the entry type of a map type."""
    if pt.is_map(kind):
        return pa.struct([kind.key_field, kind.item_field])
    return kind.field(0).type


def decimal_size(kind: pa.DataType) -> tuple[int, int]:
    """Return precision and scale of a decimal type."""
    decimals = cast("pa.Decimal128Type", kind)
    return decimals.precision, decimals.scale


def unit_of(kind: pa.DataType) -> str:
    """Return the unit of a time, duration or timestamp type."""
    return cast("pa.Time64Type", kind).unit


def unit_and_zone(kind: pa.DataType) -> tuple[str, str | None]:
    """Return unit and time zone of a timestamp type."""
    timestamps = cast("pa.TimestampType", kind)
    return timestamps.unit, timestamps.tz
