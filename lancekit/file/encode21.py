"""Encoding pages of versions 2.1 and 2.2: the layout that is fastest to write and read.

One page is one of: all null; constant (2.2); mini-block with a dictionary, bit-packed, flat or
variable values; full-zip for values of 256 bytes and more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancekit.file import bits
from lancekit.file.bitpacking import BLOCK, bits_needed, pack_blocks
from lancekit.file.chunks import Part, chunk_counts, flat, interleave, join_chunks, level_part
from lancekit.file.memory import Bytes, Ints, starts_of
from lancekit.file.plain import (
    Encoded,
    byte_width,
    fixed_bytes,
    is_variable,
    string_buffers,
    validity_bits,
)
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["encode_page"]

#: Values this long go to full-zip pages.
_LARGE = 256

#: Bytes of values in a chunk, for 16-bit and 32-bit chunk sizes.
_CHUNK = {False: 8192, True: 16384}

_MAX_CHUNK_VALUES = 1 << 15
_MAX_INLINE = 32


def encode_page(array: pa.Array, *, large: bool) -> Encoded:
    """Encode at least one row.

    Parameters
    ----------
    array
        Values of one leaf column; extension types already unwrapped.
    large
        Version 2.2: 32-bit chunk sizes, constants.
    """
    if array.null_count == len(array):
        return _constant(array, None)
    validity = validity_bits(array)
    if pa.types.is_fixed_size_list(array.type):
        return _lists(array, validity, large)
    if is_variable(array.type):
        return _strings(array, validity, large)
    if byte_width(array.type) is None:
        return _booleans(array, validity, large)
    return _fixed(array, validity, large)


def _layers(validity: Bytes | None) -> list[Any]:
    return [pb.ALL_VALID_ITEM if validity is None else pb.NULLABLE_ITEM]


# ---- constants


def _constant(array: pa.Array, inline: bytes | None, scalar: bytes | None = None) -> Encoded:
    layout = pb.ConstantLayout(inline_value=inline)
    layout.layers.append(pb.NULLABLE_ITEM if array.null_count else pb.ALL_VALID_ITEM)
    buffers = () if scalar is None else (scalar,)
    return Encoded(len(array), pb.PageLayout(constant=layout), buffers)


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


def _mini_block(
    validity: Bytes | None,
    counts: Ints,
    encoding: pb.CompressiveEncoding,
    buffers: list[list[Part]],
    large: bool,
    dictionary: tuple[pb.CompressiveEncoding, int, bytes] | None = None,
) -> Encoded:
    rows = int(counts.sum())
    layout = pb.MiniBlockLayout(
        value_compression=encoding,
        layers=_layers(validity),
        num_buffers=len(buffers),
        num_items=rows,
        has_large_chunk=large,
    )
    levels = None
    if validity is not None:
        compression, levels = level_part(validity, counts)
        layout.def_compression.CopyFrom(compression)
    stored: tuple[Any, ...] = join_chunks(counts, levels, buffers, large=large)
    if dictionary is not None:
        items, count, data = dictionary
        layout.dictionary.CopyFrom(items)
        layout.num_dictionary_items = count
        stored = (*stored, data)
    return Encoded(rows, pb.PageLayout(mini_block=layout), stored)


def _chunk_size(bytes_per_value: float, large: bool) -> int:
    """Return the power of two of values that fit into a chunk; at least 8, so that bits align."""
    fitting = int(_CHUNK[large] / bytes_per_value)
    return min(_MAX_CHUNK_VALUES, max(8, 1 << max(0, fitting.bit_length() - 1)))


def _split(data: Bytes, counts: Ints, bits_per_value: int) -> Part:
    return Part(data, (counts * bits_per_value + 7) // 8)


def _booleans(array: pa.Array, validity: Bytes | None, large: bool) -> Encoded:
    values = fixed_bytes(array)
    if large and validity is None:
        ones = int(np.bitwise_count(values).sum())
        if ones in {0, len(array)}:
            return _constant(array, bytes([ones > 0]))
    counts = chunk_counts(len(array), _MAX_CHUNK_VALUES)
    return _mini_block(validity, counts, flat(1), [[_split(values, counts, 1)]], large)


def _fixed(array: pa.Array, validity: Bytes | None, large: bool) -> Encoded:
    width = byte_width(array.type) or 0
    data = fixed_bytes(array)
    if large and validity is None and _all_equal(_rows(data, width)):
        value = data[:width].tobytes()
        if width <= _MAX_INLINE:
            return _constant(array, value)
        return _constant(array, None, _scalar(value))
    if width >= _LARGE:
        return _full_zip_fixed(data.reshape(-1, width), validity, flat(width * 8))
    if _packable(array.type):
        values: NDArray[Any] = data.view(f"<u{width}")
        if validity is not None:
            values = values * bits.unpack(validity, len(array))  # null slots may hold anything
        packed = _bit_packed(values, validity, large)
        if packed is not None:
            return packed
    counts = chunk_counts(len(array), _chunk_size(width, large))
    parts = [[_split(data, counts, width * 8)]]
    return _mini_block(validity, counts, flat(width * 8), parts, large)


def _rows(data: Bytes, width: int) -> NDArray[Any]:
    return data.view(f"u{width}") if width in {1, 2, 4, 8} else data.reshape(-1, width)


def _packable(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def _bit_packed(
    values: NDArray[Any],
    validity: Bytes | None,
    large: bool,
    dictionary: tuple[pb.CompressiveEncoding, int, bytes] | None = None,
) -> Encoded | None:
    """Encode unsigned integers packed to the page's width, if that halves them."""
    dtype = values.dtype
    width = bits_needed(int(values.max()))
    counts = chunk_counts(len(values), BLOCK)
    each = dtype.itemsize + width * BLOCK // 8
    if dictionary is None and 2 * each * len(counts) > values.nbytes:
        return None
    out = np.zeros((len(counts), each), np.uint8)
    out[:, : dtype.itemsize] = np.frombuffer(dtype.type(width).tobytes(), np.uint8)
    full = len(values) // BLOCK
    body = out[:, dtype.itemsize :]
    blocks = pack_blocks(values[: full * BLOCK].reshape(full, BLOCK), width)
    body[:full] = blocks.view(np.uint8).reshape(full, width * BLOCK // 8)
    if full < len(counts):
        last = np.zeros((1, BLOCK), dtype)
        last[0, : len(values) - full * BLOCK] = values[full * BLOCK :]
        body[full:] = pack_blocks(last, width).view(np.uint8)
    encoding = pb.CompressiveEncoding(
        inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=dtype.itemsize * 8)
    )
    part = Part(out.reshape(-1), np.full(len(counts), each))
    return _mini_block(validity, counts, encoding, [[part]], large, dictionary)


# ---- strings


def _variable(bits_per_offset: int) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(variable=pb.Variable(offsets=flat(bits_per_offset)))


def _strings(array: pa.Array, validity: Bytes | None, large: bool) -> Encoded:
    encoded = _dictionary(array, validity, large)
    if encoded is not None:
        return encoded
    offsets, data = string_buffers(array)
    lengths = np.diff(offsets)
    longest = int(lengths.max())
    if large and validity is None and _all_equal(lengths):
        equal = longest == 0 or _all_equal(data.reshape(-1, longest))
        if equal:
            ends = np.array([0, longest], offsets.dtype).tobytes()
            return _constant(array, None, _scalar(ends, data[:longest].tobytes()))
    if longest >= _LARGE:
        return _full_zip_variable(offsets, data, validity)
    return _mini_strings(offsets, data, validity, large)


def _mini_strings(
    offsets: NDArray[Any], data: Bytes, validity: Bytes | None, large: bool
) -> Encoded:
    rows = len(offsets) - 1
    width = offsets.dtype.itemsize
    size = _chunk_size(width + len(data) / rows, large)
    # one power of two for the page, such that its largest chunk fits too
    while size > 8 and _largest_chunk(offsets, size) > 2 * _CHUNK[large]:
        size //= 2
    counts = chunk_counts(rows, size)
    firsts = starts_of(counts)
    full = len(counts) - 1
    relative = np.empty(rows + len(counts), offsets.dtype)
    if full:
        table = np.lib.stride_tricks.as_strided(
            offsets, (full, size + 1), (size * width, width), writeable=False
        )
        shift = (size + 1) * width - table[:, :1]
        np.add(table, shift, out=relative[: full * (size + 1)].reshape(full, size + 1))
    last = offsets[firsts[-2] :]
    np.add(last, (len(last)) * width - last[0], out=relative[full * (size + 1) :])
    places = (counts + 1) * width
    borders = offsets[firsts].astype(np.int64)
    content = borders[1:] - borders[:-1]
    padding = -(places + content) % 8  # readers want whole offsets, so it counts as content
    parts = [
        Part(relative.view(np.uint8), places),
        Part(data, content),
        Part(np.zeros(int(padding.sum()), np.uint8), padding),
    ]
    return _mini_block(validity, counts, _variable(width * 8), [parts], large)


def _largest_chunk(offsets: NDArray[Any], size: int) -> int:
    borders = np.append(offsets[::size], offsets[-1])
    return int(np.diff(borders).max()) + (size + 1) * offsets.dtype.itemsize


#: How many values are looked at to see whether a dictionary may pay.
_SAMPLE = 1024


def _dictionary(array: pa.Array, validity: Bytes | None, large: bool) -> Encoded | None:
    """Encode strings as indices into the distinct ones, if those are few."""
    if len(array) < _SAMPLE // 8:
        return None
    step = max(1, len(array) // _SAMPLE)
    sample = array.take(pa.array(np.arange(0, len(array), step)))
    if pc.count_distinct(sample).as_py() * 4 > len(sample):
        return None
    coded = array.dictionary_encode()
    items = coded.dictionary
    if len(items) * 2 > len(array) or (len(items) == 1 and large and validity is None):
        return None
    offsets, data = string_buffers(items)
    width = offsets.dtype.itemsize
    head = np.array([width * 8, width * (len(items) + 3)], offsets.dtype)
    block = b"".join((head.tobytes(), offsets.tobytes(), data.tobytes()))
    indices = coded.indices
    if indices.null_count:
        indices = indices.fill_null(0)
    values = fixed_bytes(indices).view("<u4")
    return _bit_packed(values, validity, large, (_variable(width * 8), len(items), block))


# ---- fixed-size lists


def _lists(array: pa.Array, validity: Bytes | None, large: bool) -> Encoded:
    size = array.type.list_size
    items = array.values.slice(array.offset * size, len(array) * size)
    item_validity = validity_bits(items)
    width = byte_width(items.type)
    bits_per_row = size * (1 if width is None else width * 8)
    encoding = pb.CompressiveEncoding(
        fixed_size_list=pb.FixedSizeList(
            items_per_value=size,
            values=flat(1 if width is None else width * 8),
            has_validity=item_validity is not None,
        )
    )
    data = _zeros(bits_per_row * len(array)) if items.null_count == len(items) else None
    if data is None:
        data = fixed_bytes(items)
    if width is not None and size * width >= _LARGE:
        table = data.reshape(len(array), -1)
        if item_validity is not None:
            flags = bits.unpack(item_validity, len(items)).reshape(len(array), size)
            table = np.hstack((np.packbits(flags, axis=1, bitorder="little"), table))
        return _full_zip_fixed(table, validity, encoding)
    counts = chunk_counts(len(array), _chunk_size(bits_per_row / 8, large))
    buffers = [[_split(data, counts, bits_per_row)]]
    if item_validity is not None:
        buffers.insert(0, [_split(item_validity, counts, size)])
    return _mini_block(validity, counts, encoding, buffers, large)


def _zeros(bit_count: int) -> Bytes:
    return np.zeros(-(-bit_count // 8), np.uint8)


# ---- full-zip


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
        value_compression=_variable(prefix * 8),
        layers=_layers(validity),
    )
    return Encoded(rows, pb.PageLayout(full_zip=layout), (zipped, starts.astype(index_type)))
