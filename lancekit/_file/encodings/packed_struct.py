"""Packed structs: the fixed-width fields of a row back to back, in one column.

See docs/format/data-files.md, 11.11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancekit._file.encodings import flat
from lancekit._file.kernels import values as raw
from lancekit._file.kernels.faults import Damaged, Unsupported
from lancekit._file.kernels.memory import Bytes, as_bytes
from lancekit._format.pb import encodings_v21_pb2 as pb

if TYPE_CHECKING:
    from lancekit._file.encodings.request import EncodedValues, EncodingRequest


def message(widths: Sequence[int]) -> pb.CompressiveEncoding:
    """Return the protobuf message of packed structs whose fields have these byte widths."""
    packed = pb.PackedStruct(
        bits_per_value=[width * 8 for width in widths], values=flat.message(8 * sum(widths))
    )
    return pb.CompressiveEncoding(packed_struct=packed)


def encode(values: pa.Array, request: EncodingRequest) -> EncodedValues:
    """Encode structs that have only fixed-width fields."""
    from lancekit._file.kernels.arrow_buffers import packed_rows

    table, widths = packed_rows(values)
    stored = flat.encode(table.reshape(-1), len(values), table.shape[1] * 8, request)
    return replace(stored, encoding=message(widths))


def width_of(kind: pa.DataType) -> int:
    """Return the bytes of one value of a fixed-width type."""
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * width_of(kind.value_type)
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
        return int(kind.byte_width)
    if pa.types.is_primitive(kind) and kind.bit_width % 8 == 0:
        return int(kind.bit_width) // 8
    raise Unsupported(f"a field of type {kind} in a packed struct of fixed width")


def struct_array(kind: pa.DataType, children: list[pa.Array], count: int) -> pa.Array:
    """Return a struct array without nulls."""
    return pa.Array.from_buffers(kind, count, [None], children=children)


def values_to_arrow(values: raw.DecodedValues, kind: pa.DataType) -> pa.Array:
    """Convert values to an array of exactly type ``kind``; structs are decoded as rows of bytes."""
    if not pa.types.is_struct(kind):
        return raw.to_arrow(values, kind)
    fields = [kind.field(place).type for place in range(kind.num_fields)]
    widths = [width_of(field) for field in fields]
    if not isinstance(values, raw.Fixed) or values.width != sum(widths):
        raise Damaged(f"packed structs of another width than {kind}")
    count = values.count
    table = values.data[: count * values.width].reshape(count, values.width)
    children = []
    place = 0
    for field, width in zip(fields, widths, strict=True):
        part = as_bytes(np.ascontiguousarray(table[:, place : place + width]).reshape(-1))
        children.append(raw.to_arrow(_fixed(part, field, count), field))
        place += width
    return struct_array(kind, children, count)


def _fixed(data: Bytes, kind: pa.DataType, count: int) -> raw.DecodedValues:
    """Return fixed-width values, nested like their type."""
    if pa.types.is_fixed_size_list(kind):
        size = int(kind.list_size)
        return raw.Lists(size, None, _fixed(data, kind.value_type, count * size), count)
    return raw.Fixed(width_of(kind), data, count)
