"""Flat values: back to back, with a fixed number of bits (docs/format/data-files.md, 11.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lancekit._file.encodings.buffers import (
    TOO_SHORT,
    Buffers,
    ChunkBuffers,
    Encoding,
    cut,
    located,
    narrowed,
    only,
)
from lancekit._file.kernels import bits
from lancekit._file.kernels.faults import Unsupported, require
from lancekit._file.kernels.memory import Bytes, Ints, view
from lancekit._file.kernels.values import Bits, DecodedValues, Fixed
from lancekit._format.pb import encodings_v21_pb2 as pb

if TYPE_CHECKING:
    from lancekit._file.encodings.request import EncodedValues, EncodingRequest


def message(bits_per_value: int) -> Encoding:
    """Return the protobuf message of flat values."""
    return pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=bits_per_value))


def check(encoding: Encoding) -> int:
    """Return the bytes of a value, or 0 for single bits."""
    if encoding.flat.HasField("data"):
        raise Unsupported("compression inside of a flat encoding")
    width = int(encoding.flat.bits_per_value)
    if width == 1:
        return 0
    if width % 8:
        raise Unsupported(f"a flat encoding of {width} bits")
    return width // 8


def decode_blocks(encoding: Encoding, pieces: ChunkBuffers, counts: Ints) -> DecodedValues:
    """Decode all values of all blocks."""
    width, total = check(encoding), int(counts.sum())
    if not width:
        require(((counts + 7) // 8 <= pieces.lengths).all(), TOO_SHORT)
        return Bits(bits.gather_bits(pieces.data, pieces.starts, counts), total)
    return Fixed(width, pieces.head(counts * width), total)


def decode_chunks(
    encoding: Encoding, buffers: Buffers, counts: Ints, rows: Ints | None
) -> DecodedValues:
    """Decode values of all chunks; copy only the requested rows."""
    width, piece = check(encoding), only(buffers)
    if rows is None or not width:
        return narrowed(decode_blocks(encoding, piece, counts), rows)
    return Fixed(width, take(width, piece, counts, rows), len(rows))


def take(width: int, piece: ChunkBuffers, counts: Ints, rows: Ints) -> Bytes:
    """Copy values, or fixed-size lists, of ``width`` bytes at the positions ``rows``."""
    require((counts * width <= piece.lengths).all(), TOO_SHORT)
    if not len(rows):
        return np.empty(0, np.uint8)
    chunk, place = located(counts, rows)
    if width in {1, 2, 4, 8}:  # buffers are aligned to 8 bytes
        words = view(piece.data, f"u{width}")
        taken: Bytes = words[piece.starts[chunk] // width + place].view(np.uint8)
        return taken
    # overlapping elements, one for each byte at which a value can begin
    slots: NDArray[np.void] = np.ndarray(piece.data.size - width + 1, f"V{width}", piece.data, 0, 1)
    lists: Bytes = slots[piece.starts[chunk] + place * width].view(np.uint8)
    return lists


def decode_block(encoding: Encoding, data: Bytes, count: int) -> DecodedValues:
    """Decode the values of one block."""
    width = check(encoding)
    if not width:
        return decode_blocks(encoding, ChunkBuffers.of(data), np.array([count]))
    require(count * width <= data.size, TOO_SHORT)
    return Fixed(width, data[: count * width], count)


def decode_chunk(
    encoding: Encoding, buffers: Sequence[Bytes], count: int, rows: range
) -> DecodedValues:
    """Decode a range of values of one chunk."""
    return cut(decode_block(encoding, only(buffers), count), rows)


def encode(data: Bytes, rows: int, bits_per_row: int, request: EncodingRequest) -> EncodedValues:
    """Encode values without compression."""
    from lancekit._file.encodings.request import EncodedValues, split

    counts = request.chunk_counts(rows, bits_per_row)
    part = split(data, counts, bits_per_row)
    return EncodedValues(encoding=message(bits_per_row), counts=counts, buffers=[[part]])
