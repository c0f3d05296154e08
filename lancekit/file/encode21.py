"""Encoding pages of versions 2.1 and 2.2: levels and the structure of a page.

One page is one of: all null; constant (2.2); mini-block, with the values of `values21`; full-zip
for values of 256 bytes and more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancekit.file import bits
from lancekit.file.chunks import Part, interleave, join_chunks, level_part
from lancekit.file.memory import Bytes, starts_of
from lancekit.file.messages21 import flat, fsl_encoding, variable
from lancekit.file.plain import (
    Encoded,
    byte_width,
    fixed_bytes,
    is_variable,
    string_buffers,
    taken_apart,
    validity_bits,
)
from lancekit.file.values21 import MAX_CHUNK_VALUES, MiniValues, long_values, mini_values
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["encode_page"]

#: Values this long go to full-zip pages.
_LARGE = 256

_MAX_INLINE = 32


def encode_page(
    array: pa.Array, *, large: bool, options: Mapping[str, str] | None = None
) -> Encoded:
    """Encode at least one row.

    Parameters
    ----------
    array
        Values of one leaf column; extension types already unwrapped.
    large
        Version 2.2: 32-bit chunk sizes, constants.
    options
        The column's metadata.
    """
    if array.null_count == len(array):
        return _constant(array, None)
    validity = validity_bits(array)
    if large and validity is None:
        equal = _equal(array)
        if equal is not None:
            return equal
    mini: MiniValues | None
    if _longest(array) >= _LARGE:
        mini = None
        if is_variable(array.type):
            mini = long_values(array, validity, large=large, options=options or {})
        if mini is None:
            return _full_zip(array, validity)
    else:
        mini = mini_values(
            array, validity, large=large, max_values=MAX_CHUNK_VALUES, options=options or {}
        )
    return _mini_block(mini, validity, large)


def _layers(validity: Bytes | None) -> list[Any]:
    return [pb.ALL_VALID_ITEM if validity is None else pb.NULLABLE_ITEM]


def _longest(array: pa.Array) -> int:
    """Return the bytes of the longest value."""
    if is_variable(array.type):
        return int(np.diff(string_buffers(array)[0]).max())
    if pa.types.is_fixed_size_list(array.type):
        item = array.type.value_type
        width = byte_width(item)
        return 0 if width is None else array.type.list_size * width
    return byte_width(array.type) or 0


# ---- constants


def _constant(array: pa.Array, inline: bytes | None, scalar: bytes | None = None) -> Encoded:
    layout = pb.ConstantLayout(inline_value=inline)
    layout.layers.append(pb.NULLABLE_ITEM if array.null_count else pb.ALL_VALID_ITEM)
    buffers = () if scalar is None else (scalar,)
    return Encoded(len(array), pb.PageLayout(constant=layout), buffers)


def _equal(array: pa.Array) -> Encoded | None:
    """Encode values without nulls that are all the same."""
    if is_variable(array.type):
        return _equal_strings(array)
    if pa.types.is_boolean(array.type):
        ones = int(np.bitwise_count(fixed_bytes(array)).sum())
        return _constant(array, bytes([ones > 0])) if ones in {0, len(array)} else None
    width = byte_width(array.type)
    if width is None:
        return None
    data = fixed_bytes(array)
    rows = data.view(f"u{width}") if width in {1, 2, 4, 8} else data.reshape(-1, width)
    if not _all_equal(rows):
        return None
    value = data[:width].tobytes()
    if width <= _MAX_INLINE:
        return _constant(array, value)
    return _constant(array, None, _scalar(value))


def _equal_strings(array: pa.Array) -> Encoded | None:
    offsets, data = string_buffers(array)
    length = int(offsets[1])
    if not _all_equal(np.diff(offsets)) or (length and not _all_equal(data.reshape(-1, length))):
        return None
    ends = np.array([0, length], offsets.dtype).tobytes()
    return _constant(array, None, _scalar(ends, data[:length].tobytes()))


def _scalar(*buffers: bytes) -> bytes:
    """Return a scalar that is too long to be inline."""
    sizes = np.array([len(buffers), *map(len, buffers)], "<u4").tobytes()
    return b"".join((sizes, *buffers))


def _all_equal(values: NDArray[Any]) -> bool:
    """Return whether all values are the first, looking at two others before at all."""
    first = values[0]
    return bool(
        (values[-1] == first).all()
        and (values[len(values) // 2] == first).all()
        and (values == first).all()
    )


# ---- mini-block


def _mini_block(values: MiniValues, validity: Bytes | None, large: bool) -> Encoded:
    rows = int(values.counts.sum())
    layout = pb.MiniBlockLayout(
        value_compression=values.encoding,
        layers=_layers(validity),
        num_buffers=len(values.buffers),
        num_items=rows,
        has_large_chunk=large,
    )
    levels = None
    if validity is not None:
        compression, levels = level_part(validity, values.counts)
        layout.def_compression.CopyFrom(compression)
    stored: tuple[Any, ...] = join_chunks(values.counts, levels, values.buffers, large=large)
    if values.dictionary is not None:
        items, count, data = values.dictionary
        layout.dictionary.CopyFrom(items)
        layout.num_dictionary_items = count
        stored = (*stored, data)
    return Encoded(rows, pb.PageLayout(mini_block=layout), stored)


# ---- full-zip


def _full_zip(array: pa.Array, validity: Bytes | None) -> Encoded:
    if is_variable(array.type):
        offsets, data = string_buffers(array)
        return _full_zip_variable(offsets, data, validity)
    if not pa.types.is_fixed_size_list(array.type):
        width = byte_width(array.type) or 0
        return _full_zip_fixed(fixed_bytes(array).reshape(-1, width), validity, flat(width * 8))
    parts = taken_apart(array)
    table = parts.data.reshape(len(array), -1)
    flags = [
        np.packbits(
            bits.unpack(level.validity, len(array) * level.items).reshape(len(array), -1),
            axis=1,
            bitorder="little",
        )
        for level in parts.levels
        if level.validity is not None
    ]
    table = np.hstack((*flags, table)) if flags else table
    return _full_zip_fixed(table, validity, fsl_encoding(parts))


def _full_zip_fixed(
    table: Bytes, validity: Bytes | None, encoding: pb.CompressiveEncoding
) -> Encoded:
    """Encode a table of shape (rows, bytes of a value)."""
    rows, width = table.shape
    layout = pb.FullZipLayout(
        bits_def=int(validity is not None),
        bits_per_value=width * 8,
        num_items=rows,
        num_visible_items=rows,
        value_compression=encoding,
        layers=_layers(validity),
    )
    if validity is not None:
        zipped = np.empty((rows, width + 1), np.uint8)
        zipped[:, 0] = 1 - bits.unpack(validity, rows)
        zipped[:, 1:] = table
        table = zipped
    return Encoded(rows, pb.PageLayout(full_zip=layout), (np.ascontiguousarray(table),))


def _full_zip_variable(offsets: NDArray[Any], data: Bytes, validity: Bytes | None) -> Encoded:
    rows = len(offsets) - 1
    prefix = offsets.dtype.itemsize
    lengths = np.diff(offsets)
    control = int(validity is not None)
    headers = np.empty((rows, control + prefix), np.uint8)
    headers[:, control:] = lengths.view(np.uint8).reshape(rows, prefix)
    sizes = np.full(rows, control + prefix, np.int64)
    header_bytes = headers.reshape(-1)
    if validity is not None:  # a null is its control word only
        null = bits.unpack(validity, rows) == 0
        headers[:, 0] = null
        sizes[null] = control
        keep = np.ones(headers.shape, bool)
        keep[null, control:] = False
        header_bytes = headers[keep]
    zipped = interleave([Part(header_bytes, sizes), Part(data, lengths.astype(np.int64))])
    starts = starts_of(sizes + lengths)
    index_type = next(t for t in ("<u1", "<u2", "<u4", "<u8") if starts[-1] <= np.iinfo(t).max)
    layout = pb.FullZipLayout(
        bits_def=control,
        bits_per_offset=prefix * 8,
        num_items=rows,
        num_visible_items=rows,
        value_compression=variable(prefix * 8),
        layers=_layers(validity),
    )
    return Encoded(rows, pb.PageLayout(full_zip=layout), (zipped, starts.astype(index_type)))
