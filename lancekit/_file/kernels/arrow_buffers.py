"""Conversion of Arrow arrays to plain buffers without array offsets, for writing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from google.protobuf.message import Message
from numpy.typing import NDArray

from lancekit import _arrow_compute as pc
from lancekit import _arrow_kernels as ak
from lancekit._arrow_values import flags_of
from lancekit._file.kernels import bits
from lancekit._file.kernels.memory import Bytes, Offsets
from lancekit._file.kernels.values import storage_type
from lancekit._format.arrow_parts import child_of, fixed_items, items_of, viewed

if TYPE_CHECKING:
    from collections.abc import Buffer


@dataclass(frozen=True, slots=True)
class Encoded:
    """Encoded page: its buffers and the protobuf message that describes them."""

    rows: int
    message: Message
    buffers: tuple[Buffer, ...] = ()


#: Type ids: a set lookup is faster than the predicates of ``pyarrow.types``.
_VARIABLE = frozenset(
    kind.id for kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
)
_FIXED = frozenset(
    kind.id
    for kind in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64()),
        *(pa.time32("s"), pa.time64("us"), pa.timestamp("s"), pa.duration("s")),
        *(pa.decimal128(1), pa.decimal256(1), pa.binary(1)),
    )
)


def is_variable(kind: pa.DataType) -> bool:
    """Return True for string and binary types."""
    return kind.id in _VARIABLE


def byte_width(kind: pa.DataType) -> int | None:
    """Return the bytes of one value, or ``None`` unless it has a fixed number of whole bytes."""
    kind = storage_type(kind)
    return int(kind.byte_width) if kind.id in _FIXED else None


def validity_bits(array: pa.Array) -> Bytes | None:
    """Return the validity bitmap, shifted to start at bit 0, or ``None`` without nulls."""
    if array.null_count == 0:
        return None
    if pa.types.is_null(array.type):
        return np.zeros(-(-len(array) // 8), np.uint8)
    bitmap = viewed(array.buffers()[0])
    return _clear_tail_bits(bits.slice_bits(bitmap, array.offset, len(array)), len(array))


def null_flags(array: pa.Array) -> NDArray[np.bool_] | None:
    """Return a flag for each value, True if it is null, or ``None`` without nulls."""
    if array.null_count == 0:
        return None
    if pa.types.is_null(array.type):
        return np.ones(len(array), bool)
    bitmap = viewed(array.buffers()[0])
    flags: NDArray[np.bool_] = (
        bits.unpack(bits.slice_bits(bitmap, array.offset, len(array)), len(array)) == 0
    )
    return flags


def list_offsets(array: pa.Array) -> Offsets:
    """Return the offsets of lists into their items: one more than there are lists."""
    dtype: type[np.signedinteger] = np.int64 if pa.types.is_large_list(array.type) else np.int32
    stored = array.buffers()[1]
    if stored is None or stored.size == 0:
        return np.zeros(1, dtype)
    return np.frombuffer(stored, dtype)[array.offset : array.offset + len(array) + 1]


def list_items(array: pa.Array, lengths: NDArray[np.integer]) -> pa.Array:
    """Return the items of lists, without the items of lists whose given length is 0."""
    offsets = list_offsets(array)
    first, last = int(offsets[0]), int(offsets[-1])
    items = items_of(array).slice(first, last - first)
    if int(lengths.sum(dtype=np.int64)) == last - first:
        return items
    return ak.filter(items, np.repeat(lengths > 0, np.diff(offsets)))


def fixed_bytes(array: pa.Array) -> Bytes:
    """Return the values of a fixed-width array, booleans as bits; null slots keep any content."""
    data = array.buffers()[1]
    width = byte_width(array.type)
    if width is None:
        bitmap = viewed(data)
        return _clear_tail_bits(bits.slice_bits(bitmap, array.offset, len(array)), len(array))
    whole: Bytes = viewed(data)
    return whole[array.offset * width : (array.offset + len(array)) * width]


def _clear_tail_bits(bitmap: Bytes, count: int) -> Bytes:
    """Clear the bits after the last value, which belong to other rows."""
    if count % 8 and bitmap[-1] >> (count % 8):
        bitmap = bitmap.copy()
        bitmap[-1] &= (1 << count % 8) - 1
    return bitmap


def string_buffers(array: pa.Array) -> tuple[Offsets, Bytes]:
    """Return offsets that start at 0 (one more than values) and the bytes that they delimit.

    Null values get length 0.
    """
    _, offset_buffer, data = array.buffers()
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offsets: Offsets = viewed(offset_buffer, np.int64 if wide else np.int32)
    offsets = offsets[array.offset : array.offset + len(array) + 1]
    content = viewed(data)
    content = content[int(offsets[0]) : int(offsets[-1])]
    if offsets[0]:
        offsets = offsets - offsets[0]
    if array.null_count and _nulls_hold_bytes(array, offsets):
        # take copies no bytes of null values
        return string_buffers(ak.take(array, np.arange(len(array))))
    return offsets, content


def _nulls_hold_bytes(array: pa.Array, offsets: Offsets) -> bool:
    null = flags_of(pc.is_null(array))
    return bool(((offsets[1:] > offsets[:-1]) & null).any())


@dataclass(frozen=True, slots=True)
class ListLevel:
    """Nesting level of fixed-size lists: its dimension, and the validity of its items.

    `items` is the number of items in a row of the column.
    """

    dimension: int
    items: int
    validity: Bytes | None


@dataclass(frozen=True, slots=True)
class ListParts:
    """Fixed-size lists, possibly nested: levels from the outside in, and the innermost items."""

    levels: tuple[ListLevel, ...]
    item_bits: int
    data: Bytes

    @property
    def bits_per_row(self) -> int:
        """Bits of one row, without validity."""
        return self.levels[-1].items * self.item_bits


def split_lists(array: pa.Array) -> ListParts:
    """Split fixed-size lists into levels and items; return zeros if all items are null."""
    levels: list[ListLevel] = []
    rows = len(array)
    while isinstance(array, pa.FixedSizeListArray):
        size = array.type.list_size
        items = fixed_items(array)
        array = items.storage if isinstance(items, pa.ExtensionArray) else items
        per_row = size * (levels[-1].items if levels else 1)
        levels.append(ListLevel(size, per_row, validity_bits(array)))
    width = byte_width(array.type)
    bits_per_item = 1 if width is None else width * 8
    if array.null_count == len(array):
        data = np.zeros(-(-rows * levels[-1].items * bits_per_item // 8), np.uint8)
    else:
        data = fixed_bytes(array)
    return ListParts(tuple(levels), bits_per_item, data)


def packed_rows(array: pa.Array) -> tuple[NDArray[np.uint8], list[int]]:
    """Return a packed struct's rows, of shape (rows, bytes), and the bytes of each field."""
    columns = []
    for index in range(array.type.num_fields):
        child = child_of(array, index)
        if pa.types.is_fixed_size_list(child.type):
            data = split_lists(child).data
        else:
            data = fixed_bytes(child)
        columns.append(data.reshape(len(array), -1))
    return np.hstack(columns), [column.shape[1] for column in columns]
