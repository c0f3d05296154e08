"""Encoding pages of version 2.0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lancekit.file import bits
from lancekit.file.plain import (
    Encoded,
    byte_width,
    fixed_bytes,
    is_variable,
    string_buffers,
    validity_bits,
)
from lancekit.format.pb import encodings_v20_pb2 as pb

__all__ = ["encode_page"]


def encode_page(array: pa.Array) -> Encoded:
    """Encode at least one row; extension types already unwrapped."""
    buffers: list[Any] = []
    message = _strings(array, buffers) if is_variable(array.type) else _nullable(array, buffers)
    return Encoded(len(array), message, tuple(buffers))


def _flat(bits_per_value: int, data: Any, buffers: list[Any]) -> pb.ArrayEncoding:
    buffers.append(data)
    place = pb.Buffer(buffer_index=len(buffers) - 1)
    return pb.ArrayEncoding(flat=pb.Flat(bits_per_value=bits_per_value, buffer=place))


def _no_nulls(values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(nullable=pb.Nullable(no_nulls=pb.Nullable.NoNulls(values=values)))


def _nullable(array: pa.Array, buffers: list[Any]) -> pb.ArrayEncoding:
    if array.null_count == len(array):
        return pb.ArrayEncoding(nullable=pb.Nullable(all_nulls=pb.Nullable.AllNulls()))
    validity = validity_bits(array)
    if validity is None:
        return _no_nulls(_values(array, buffers))
    flags = _flat(1, validity, buffers)
    some = pb.Nullable.SomeNulls(validity=flags, values=_values(array, buffers))
    return pb.ArrayEncoding(nullable=pb.Nullable(some_nulls=some))


def _values(array: pa.Array, buffers: list[Any]) -> pb.ArrayEncoding:
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        items = array.values.slice(array.offset * size, len(array) * size)
        lists = pb.FixedSizeList(dimension=size, items=_nullable(items, buffers))
        return pb.ArrayEncoding(fixed_size_list=lists)
    width = byte_width(array.type)
    return _flat(1 if width is None else width * 8, fixed_bytes(array), buffers)


def _strings(array: pa.Array, buffers: list[Any]) -> pb.ArrayEncoding:
    offsets, data = string_buffers(array)
    ends = offsets[1:].astype(np.uint64)
    adjustment = int(offsets[-1]) + 1
    validity = validity_bits(array)
    if validity is not None:
        ends[bits.unpack(validity, len(array)) == 0] += np.uint64(adjustment)
    indices = _no_nulls(_flat(64, ends, buffers))
    content = _flat(8, data, buffers)
    return pb.ArrayEncoding(
        binary=pb.Binary(indices=indices, bytes=content, null_adjustment=adjustment)
    )
