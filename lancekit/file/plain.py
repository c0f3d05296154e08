"""Taking Arrow arrays apart for writing: plain buffers without offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit.file import bits
from lancekit.file.memory import Bytes
from lancekit.file.raw import storage_type

__all__ = ["Encoded", "byte_width", "fixed_bytes", "is_variable", "string_buffers", "validity_bits"]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A page ready to be written: its buffers and the message that describes them."""

    rows: int
    message: Any
    buffers: tuple[Any, ...] = ()


def is_variable(kind: pa.DataType) -> bool:
    """Return whether values are strings or binary."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def byte_width(kind: pa.DataType) -> int | None:
    """Return the bytes of one value, ``None`` for types that are not whole bytes."""
    kind = storage_type(kind)
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
        return int(kind.byte_width)
    if pa.types.is_primitive(kind) and not pa.types.is_boolean(kind):
        return int(kind.bit_width) // 8
    return None


def validity_bits(array: pa.Array) -> Bytes | None:
    """Return the validity bitmap moved to bit 0; ``None`` if there are no nulls."""
    if array.null_count == 0:
        return None
    bitmap = np.frombuffer(array.buffers()[0], np.uint8)
    return _ending_clean(bits.slice_bits(bitmap, array.offset, len(array)), len(array))


def fixed_bytes(array: pa.Array) -> Bytes:
    """Return the values of a fixed-width array, booleans as bits; null slots are as they come."""
    data = array.buffers()[1]
    width = byte_width(array.type)
    if width is None:
        bitmap = np.frombuffer(data, np.uint8)
        return _ending_clean(bits.slice_bits(bitmap, array.offset, len(array)), len(array))
    whole: Bytes = np.frombuffer(data, np.uint8)
    return whole[array.offset * width : (array.offset + len(array)) * width]


def _ending_clean(bitmap: Bytes, count: int) -> Bytes:
    """Clear the bits behind the last value: they belong to other rows."""
    if count % 8 and bitmap[-1] >> (count % 8):
        bitmap = bitmap.copy()
        bitmap[-1] &= (1 << count % 8) - 1
    return bitmap


def string_buffers(array: pa.Array) -> tuple[NDArray[Any], Bytes]:
    """Return offsets that start at 0, one more than values, and the bytes they delimit.

    Null values are empty.
    """
    _, offset_buffer, data = array.buffers()
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offsets: NDArray[Any] = np.frombuffer(offset_buffer, np.int64 if wide else np.int32)
    offsets = offsets[array.offset : array.offset + len(array) + 1]
    content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    content = content[int(offsets[0]) : int(offsets[-1])]
    if offsets[0]:
        offsets = offsets - offsets[0]
    if array.null_count and _nulls_hold_bytes(array, offsets):
        # take copies values only, and leaves nothing behind nulls
        return string_buffers(array.take(pa.array(np.arange(len(array)))))
    return offsets, content


def _nulls_hold_bytes(array: pa.Array, offsets: NDArray[Any]) -> bool:
    null = array.is_null().to_numpy(zero_copy_only=False)
    return bool(((offsets[1:] > offsets[:-1]) & null).any())
