"""Decoding of values in any encoding, of all chunks of a page or of one chunk.

Each encoding's module decodes its own values; encodings that wrap another one are combined here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lancekit._file.encodings import (
    bitpacking,
    byte_stream_split,
    fixed_size_list,
    flat,
    fsst,
    general,
    rle,
    variable,
)
from lancekit._file.encodings.buffers import (
    Buffers,
    ChunkBuffers,
    Encoding,
    cut,
    kind_of,
    narrowed,
    only,
)
from lancekit._file.kernels.faults import Unsupported, require
from lancekit._file.kernels.memory import Bytes, Ints
from lancekit._file.kernels.values import DecodedValues, Fixed, Lists, Nulls

Blocks = Callable[[Encoding, ChunkBuffers, Ints], DecodedValues]
Chunks = Callable[[Encoding, Buffers, Ints, Ints | None], DecodedValues]
Block = Callable[[Encoding, Bytes, int], DecodedValues]
Chunk = Callable[[Encoding, Sequence[Bytes], int, range], DecodedValues]


def decode_blocks(encoding: Encoding, pieces: ChunkBuffers, counts: Ints) -> DecodedValues:
    """Decode blocks of levels or of a dictionary, one for each chunk."""
    name = kind_of(encoding)
    decode = _BLOCKS.get(name)
    if decode is None:
        raise Unsupported(f"encoding {name!r} for levels or dictionaries")
    return decode(encoding, pieces, counts)


def decode_block(encoding: Encoding, data: Bytes, count: int) -> DecodedValues:
    """Decode a single block of ``count`` values."""
    decode = _BLOCK.get(kind_of(encoding))
    if decode is not None:
        return decode(encoding, data, count)
    return decode_blocks(encoding, ChunkBuffers.of(data), np.array([count]))


def decode_chunks(
    encoding: Encoding, buffers: Buffers, counts: Ints, rows: Ints | None = None
) -> DecodedValues:
    """Decode the values of all chunks, or only those at ascending positions ``rows``."""
    name = kind_of(encoding)
    decode = _CHUNKS.get(name)
    if decode is None:
        raise Unsupported(f"encoding {name!r} of mini-block values")
    return decode(encoding, buffers, counts, rows)


def decode_chunk(
    encoding: Encoding, buffers: Sequence[Bytes], count: int, rows: range
) -> DecodedValues:
    """Decode a range of rows of one chunk."""
    decode = _CHUNK.get(kind_of(encoding))
    if decode is not None:
        return decode(encoding, buffers, count, rows)
    pieces = [ChunkBuffers.of(data) for data in buffers]
    return cut(decode_chunks(encoding, pieces, np.array([count])), rows)


def _general_blocks(encoding: Encoding, pieces: ChunkBuffers, counts: Ints) -> DecodedValues:
    message = encoding.general
    return decode_blocks(message.values, general.decompressed(message, pieces, counts), counts)


def _general(
    encoding: Encoding, buffers: Buffers, counts: Ints, rows: Ints | None
) -> DecodedValues:
    require(len(buffers) > 0, "a chunk has no value buffer")
    first = general.decompressed(encoding.general, buffers[0], counts)
    return decode_chunks(encoding.general.values, [first, *buffers[1:]], counts, rows)


def _fixed_size_list(
    encoding: Encoding, buffers: Buffers, counts: Ints, rows: Ints | None
) -> DecodedValues:
    message = encoding.fixed_size_list
    size = int(message.items_per_value)
    validity, below = fixed_size_list.take_validity(message, buffers, counts)
    if rows is not None and validity is None and kind_of(message.values) == "flat":
        width = flat.check(message.values)
        if size * width:  # copies whole lists, without decoding the others
            data = flat.take(size * width, only(below), counts, rows)
            return Lists(size, None, Fixed(width, data, size * len(rows)), len(rows))
    items = decode_chunks(message.values, below, counts * size)
    return narrowed(Lists(size, validity, items, int(counts.sum())), rows)


def _constant(
    encoding: Encoding, buffers: Buffers, counts: Ints, rows: Ints | None
) -> DecodedValues:
    """Decode a constant, which only occurs below fixed-size lists with only null items."""
    del buffers
    if encoding.constant.HasField("value"):
        raise Unsupported("a constant inside of a chunk")
    return Nulls(int(counts.sum()) if rows is None else len(rows))


_BLOCKS: dict[str, Blocks] = {
    "flat": flat.decode_blocks,
    "inline_bitpacking": bitpacking.decode_blocks,
    "out_of_line_bitpacking": bitpacking.decode_out_of_line,
    "rle": rle.decode_blocks,
    "variable": variable.decode_blocks,
    "general": _general_blocks,
}

_BLOCK: dict[str, Block] = {
    "flat": flat.decode_block,
    "inline_bitpacking": bitpacking.decode_block,
    "rle": rle.decode_block,
}

_CHUNKS: dict[str, Chunks] = {
    "flat": flat.decode_chunks,
    "variable": variable.decode_chunks,
    "constant": _constant,
    "inline_bitpacking": bitpacking.decode_chunks,
    "out_of_line_bitpacking": lambda encoding, buffers, counts, rows: narrowed(
        bitpacking.decode_out_of_line(encoding, only(buffers), counts), rows
    ),
    "fsst": fsst.decode_chunks,
    "rle": rle.decode_chunks,
    "byte_stream_split": byte_stream_split.decode_chunks,
    "general": _general,
    "fixed_size_list": _fixed_size_list,
    # each row has the bytes of all fields
    "packed_struct": lambda encoding, *rest: decode_chunks(encoding.packed_struct.values, *rest),
}

_CHUNK: dict[str, Chunk] = {
    "flat": flat.decode_chunk,
    "inline_bitpacking": bitpacking.decode_chunk,
    "rle": rle.decode_chunk,
    "variable": variable.decode_chunk,
    "fsst": fsst.decode_chunk,
}
