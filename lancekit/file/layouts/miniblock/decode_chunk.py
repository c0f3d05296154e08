"""Rows of a single mini-block chunk, which is all that a small table or a small range needs.

`MiniBlockPages` decodes arrays of chunks, some dozens of NumPy calls whatever their number.  With
one chunk, plain integers take the place of the arrays, and only the wanted values are unpacked
where their places are known.  Encodings that are not in the tables here go the general way.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lancekit.file.encodings.blocks import ChunkBuffers, decode_one, kind_of, run_type, word_type
from lancekit.file.kernels import values as raw
from lancekit.file.kernels.bitpacking import BLOCK, unpack_blocks
from lancekit.file.kernels.faults import Unsupported, require
from lancekit.file.kernels.fsst_decode import symbol_table
from lancekit.file.kernels.memory import Bytes
from lancekit.file.kernels.row_selection import Span
from lancekit.file.kernels.values import DecodedValues, Fixed, Variable
from lancekit.file.layouts.miniblock.values import decode_values
from lancekit.file.structure.repdef import Words
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["decode_chunk"]

_TOO_SHORT = "a chunk's buffer is too short"

Values = Callable[[pb.CompressiveEncoding, Sequence[Bytes], int, Span], DecodedValues]
Block = Callable[[pb.CompressiveEncoding, Bytes, int], DecodedValues]


def decode_chunk(
    layout: pb.MiniBlockLayout, data: Bytes, count: int, rows: Span
) -> tuple[DecodedValues, Words | None]:
    """Decode rows of one chunk of a page without lists.

    Parameters
    ----------
    data
        The whole chunk.
    count
        The values that it must hold.
    rows
        Those wanted, counted from the first of the chunk.

    Returns
    -------
    The values, and the definition levels if there are any.

    Raises
    ------
    Damaged, Unsupported
        To be called inside of `located`.
    """
    nullable = layout.HasField("def_compression")
    header = _header(nullable, int(layout.num_buffers), bool(layout.has_large_chunk))
    require(header.size <= 4096 and data.size >= header.size, "a chunk is shorter than its header")
    entries, *lengths = header.unpack(data[: header.size].tobytes())
    place = -(-header.size // 8) * 8
    buffers = []
    for length in lengths:
        buffers.append(data[place : place + length])
        place += -(-length // 8) * 8
    # the padding of the last buffer may be missing
    require(place - 8 < data.size, "a chunk's buffers are longer than the chunk")
    definition = None
    if nullable:
        require(entries == count, "a chunk's levels are not its rows")
        levels = _block(layout.def_compression, buffers.pop(0), count)
        definition = raw.words_of(levels, 2)[rows.start : rows.stop]
    return _values(layout.value_compression, buffers, count, rows), definition


@lru_cache
def _header(nullable: bool, buffers: int, wide: bool) -> struct.Struct:
    """Return the number of levels, the length of each level buffer, and of each value buffer."""
    return struct.Struct(f"<{2 if nullable else 1}H{buffers}{'I' if wide else 'H'}")


def _values(
    encoding: pb.CompressiveEncoding, buffers: Sequence[Bytes], count: int, rows: Span
) -> DecodedValues:
    decode = _VALUES.get(kind_of(encoding))
    if decode is not None:
        return decode(encoding, buffers, count, rows)
    pieces = [ChunkBuffers(data, np.zeros(1, np.int64), np.array([data.size])) for data in buffers]
    decoded = decode_values(encoding, pieces, np.array([count]))
    return raw.select(decoded, slice(rows.start, rows.stop))


def _block(encoding: pb.CompressiveEncoding, data: Bytes, count: int) -> DecodedValues:
    return _BLOCKS.get(kind_of(encoding), decode_one)(encoding, data, count)


def _only(buffers: Sequence[Bytes], count: int) -> None:
    require(len(buffers) == count, f"a chunk has {len(buffers)} value buffers, not {count}")


def _flat(
    encoding: pb.CompressiveEncoding, buffers: Sequence[Bytes], count: int, rows: Span
) -> DecodedValues:
    _only(buffers, 1)
    decoded = _flat_block(encoding, buffers[0], count)
    return decoded if len(rows) == count else raw.select(decoded, slice(rows.start, rows.stop))


def _flat_block(encoding: pb.CompressiveEncoding, data: Bytes, count: int) -> DecodedValues:
    width = int(encoding.flat.bits_per_value)
    if width % 8 or encoding.flat.HasField("data"):
        return decode_one(encoding, data, count)
    width //= 8
    require(count * width <= data.size, _TOO_SHORT)
    return Fixed(width, data[: count * width], count)


def _inline_bitpacking(
    encoding: pb.CompressiveEncoding, buffers: Sequence[Bytes], count: int, rows: Span
) -> DecodedValues:
    _only(buffers, 1)
    return raw.select(_packed(encoding, buffers[0], count), slice(rows.start, rows.stop))


def _packed(encoding: pb.CompressiveEncoding, data: Bytes, count: int) -> Fixed:
    dtype = word_type(int(encoding.inline_bitpacking.uncompressed_bits_per_value))
    size = dtype.itemsize
    require(count <= BLOCK, "a bit-packed chunk of more than 1024 values")
    require(data.size >= size, _TOO_SHORT)
    width = int.from_bytes(data[:size].tobytes(), "little")
    require(width <= 8 * size, "an impossible packed width")
    if width == 0:
        return Fixed(size, np.zeros(count * size, np.uint8), count)
    stop = size + width * BLOCK // 8
    require(stop <= data.size, _TOO_SHORT)
    values = unpack_blocks(data[size:stop].view(dtype).reshape(1, -1), width)
    return Fixed(size, values.reshape(-1).view(np.uint8)[: count * size], count)


def _rle(
    encoding: pb.CompressiveEncoding, buffers: Sequence[Bytes], count: int, rows: Span
) -> DecodedValues:
    _only(buffers, 2)
    values, lengths = buffers
    decoded = _runs(encoding, values, lengths, count, clip=True)
    return raw.select(decoded, slice(rows.start, rows.stop))


def _rle_block(encoding: pb.CompressiveEncoding, data: Bytes, count: int) -> DecodedValues:
    size = int.from_bytes(data[:8].tobytes(), "little")
    require(8 + size <= data.size, "runs of the wrong size")
    return _runs(encoding, data[8 : 8 + size], data[8 + size :], count)


def _runs(
    encoding: pb.CompressiveEncoding,
    values: Bytes,
    lengths: Bytes,
    count: int,
    *,
    clip: bool = False,
) -> Fixed:
    """Repeat run values, as `pieces.expand_runs` does."""
    width, dtype = run_type(encoding.rle)
    runs = values.size // width
    require(lengths.size >= runs, "runs without a length")
    lengths = lengths[:runs]
    total = int(lengths.sum())
    require(total >= count if clip else total == count, "runs do not add up to the chunk's values")
    repeats = lengths
    if total > count:
        repeats = np.diff(lengths.cumsum(dtype=np.int64).clip(max=count), prepend=0)
    repeated = values[: runs * width].view(dtype).repeat(repeats)
    return Fixed(width, repeated.view(np.uint8), count)


def _variable(
    encoding: pb.CompressiveEncoding, buffers: Sequence[Bytes], count: int, rows: Span
) -> Variable:
    _only(buffers, 1)
    (data,) = buffers
    offsets: Any = encoding.variable.offsets
    if encoding.variable.HasField("values") or kind_of(offsets) != "flat":
        raise Unsupported("compressed offsets or bytes of strings")
    width = int(offsets.flat.bits_per_value)
    if width not in {32, 64}:
        raise Unsupported(f"strings with {width}-bit offsets")
    head = (count + 1) * (width // 8)
    require(head <= data.size, _TOO_SHORT)
    wanted = data[:head].view(f"<i{width // 8}")[rows.start : rows.stop + 1]
    first, last = int(wanted[0]), int(wanted[-1])
    require(head <= first <= last <= data.size, "string offsets are out of order")
    return Variable(wanted - wanted[0], data[first:last])


def _fsst(
    encoding: pb.CompressiveEncoding, buffers: Sequence[Bytes], count: int, rows: Span
) -> DecodedValues:
    if kind_of(encoding.fsst.values) != "variable":
        raise Unsupported("FSST over another encoding")
    codes = _variable(encoding.fsst.values, buffers, count, rows)
    return symbol_table(encoding.fsst.symbol_table).decode(codes)


_VALUES: dict[str, Values] = {
    "flat": _flat,
    "inline_bitpacking": _inline_bitpacking,
    "rle": _rle,
    "variable": _variable,
    "fsst": _fsst,
}

_BLOCKS: dict[str, Block] = {
    "flat": _flat_block,
    "inline_bitpacking": _packed,
    "rle": _rle_block,
}
