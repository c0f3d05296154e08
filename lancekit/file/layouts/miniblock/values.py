"""Value encodings of mini-block chunks, for all chunks of a page at once.

A decoder gets the value buffers of the chunks (`ChunkBuffers`, one for each buffer), how many
values each chunk holds, and which of them are wanted: ``None`` for all, or ascending positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from lancekit.file.encodings import blocks
from lancekit.file.encodings.blocks import ChunkBuffers, kind_of
from lancekit.file.kernels import bits
from lancekit.file.kernels.bitpacking import BLOCK, place_of
from lancekit.file.kernels.bounds import claim
from lancekit.file.kernels.faults import Unsupported, require
from lancekit.file.kernels.fsst_decode import symbol_table
from lancekit.file.kernels.memory import Ints, gather, starts_of, view
from lancekit.file.kernels.values import DecodedValues, Fixed, Lists, Nulls, Variable, select
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["decode_values"]

#: Fewer than one in so many values of the chunks read: each is unpacked on its own.
_FEW = 32

#: The lowest bits, by their number.
_MASKS = np.array([(1 << width) - 1 for width in range(65)], np.uint64)

Decoder = Callable[
    [pb.CompressiveEncoding, Sequence[ChunkBuffers], Ints, Ints | None], DecodedValues
]


def _only(buffers: Sequence[ChunkBuffers], count: int) -> None:
    require(len(buffers) == count, f"a chunk has {len(buffers)} value buffers, not {count}")


def _narrow(raw: DecodedValues, rows: Ints | None) -> DecodedValues:
    return raw if rows is None else select(raw, rows)


def _block(
    decode: blocks.Decoder,
    encoding: pb.CompressiveEncoding,
    buffers: Sequence[ChunkBuffers],
    counts: Ints,
    rows: Ints | None,
) -> DecodedValues:
    """Decode an encoding that is the same in blocks and chunks."""
    _only(buffers, 1)
    return _narrow(decode(encoding, buffers[0], counts), rows)


def _flat(
    encoding: pb.CompressiveEncoding,
    buffers: Sequence[ChunkBuffers],
    counts: Ints,
    rows: Ints | None,
) -> DecodedValues:
    width = int(encoding.flat.bits_per_value) // 8
    if rows is None or width not in {1, 2, 4, 8} or encoding.flat.bits_per_value % 8:
        return _block(blocks.flat, encoding, buffers, counts, rows)
    _only(buffers, 1)
    (piece,) = buffers
    require((counts * width <= piece.lengths).all(), "a chunk's buffer is too short")
    chunk, place = _locate(counts, rows)
    words = view(piece.data, f"u{width}")
    values = words[piece.starts[chunk] // width + place]
    return Fixed(width, values.view(np.uint8), len(rows))


def _locate(counts: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return the chunk of every row, and its place in the chunk."""
    firsts = starts_of(counts)
    chunk = np.searchsorted(firsts, rows, "right") - 1
    return chunk, rows - firsts[chunk]


def _variable(
    encoding: pb.CompressiveEncoding,
    buffers: Sequence[ChunkBuffers],
    counts: Ints,
    rows: Ints | None,
) -> Variable:
    """Offsets, relative to the buffer's start, then bytes."""
    _only(buffers, 1)
    (piece,) = buffers
    offsets = encoding.variable.offsets
    if encoding.variable.HasField("values") or kind_of(offsets) != "flat":
        raise Unsupported("compressed offsets or bytes of strings")
    width = int(offsets.flat.bits_per_value)
    if width not in {32, 64}:
        raise Unsupported(f"strings with {width}-bit offsets")
    dtype = np.dtype(f"<i{width // 8}")
    if rows is not None:
        chunk, place = _locate(counts, rows)
        of_row = piece.some(chunk)
        begin = of_row.words(dtype, place * dtype.itemsize).astype(np.int64)
        end = of_row.words(dtype, (place + 1) * dtype.itemsize).astype(np.int64)
        require(
            ((begin >= 0) & (end >= begin) & (end <= of_row.lengths)).all(),
            "string offsets are out of order",
        )
        data = gather(piece.data, of_row.starts + begin, end - begin)
        return Variable(starts_of(end - begin), data)
    begin = piece.words(dtype, np.zeros(len(counts), np.int64)).astype(np.int64)
    end = piece.words(dtype, counts * dtype.itemsize).astype(np.int64)
    require(
        ((begin >= (counts + 1) * dtype.itemsize) & (end >= begin) & (end <= piece.lengths)).all(),
        "string offsets are out of order",
    )
    sizes = end - begin
    data = gather(piece.data, piece.starts + begin, sizes)
    wide = dtype if int(sizes.sum()) < 2**31 else np.dtype(np.int64)
    out = np.empty(int(counts.sum()) + 1, wide)
    raw = view(piece.head(counts * dtype.itemsize), dtype)
    shifts = (starts_of(sizes)[:-1] - begin).astype(wide)
    if len(counts) > 1 and (counts[:-1] == counts[0]).all():
        last = int(counts[:-1].sum())
        table = (len(counts) - 1, int(counts[0]))
        np.add(raw[:last].reshape(table), shifts[:-1, None], out=out[:last].reshape(table))
        np.add(raw[last:], shifts[-1], out=out[last:-1])
    else:
        np.add(raw, np.repeat(shifts, counts), out=out[:-1])
    out[-1] = sizes.sum()
    return Variable(out, data)


def _fsst(
    encoding: pb.CompressiveEncoding,
    buffers: Sequence[ChunkBuffers],
    counts: Ints,
    rows: Ints | None,
) -> DecodedValues:
    if kind_of(encoding.fsst.values) != "variable":
        raise Unsupported("FSST over another encoding")
    codes = _variable(encoding.fsst.values, buffers, counts, rows)
    return symbol_table(encoding.fsst.symbol_table).decode(codes)


def _inline_bitpacking(
    encoding: pb.CompressiveEncoding,
    buffers: Sequence[ChunkBuffers],
    counts: Ints,
    rows: Ints | None,
) -> DecodedValues:
    """Unpack whole chunks, unless only a few values of each are wanted."""
    if rows is None or len(rows) * _FEW > int(counts.sum()):
        return _block(blocks.inline_bitpacking, encoding, buffers, counts, rows)
    _only(buffers, 1)
    chunk, place = _locate(counts, rows)
    bits_per_value = int(encoding.inline_bitpacking.uncompressed_bits_per_value)
    dtype = blocks.word_type(bits_per_value)
    size = dtype.itemsize
    piece = buffers[0].some(chunk)
    require((place < BLOCK).all(), "a bit-packed chunk of more than 1024 values")
    width = piece.words(dtype, np.zeros(len(rows), np.int64)).astype(np.int64)
    require(
        ((width >= 0) & (width <= bits_per_value)).all()
        and (size + width * BLOCK // 8 <= piece.lengths).all(),
        "an impossible packed width",
    )
    word, shift = place_of(place, width, bits_per_value)
    at = np.where(width > 0, size * (word + 1), 0)  # a width of 0 has no words at all
    values = piece.words(dtype, at).astype(np.uint64) >> shift.astype(np.uint64)
    spill = np.flatnonzero(shift + width > bits_per_value)
    behind = at[spill] + size * (BLOCK // bits_per_value)
    high = piece.some(spill).words(dtype, behind).astype(np.uint64)
    values[spill] |= high << (bits_per_value - shift[spill]).astype(np.uint64)
    values &= _MASKS[width]
    return Fixed(size, values.astype(dtype).view(np.uint8), len(rows))


def _rle(
    encoding: pb.CompressiveEncoding,
    buffers: Sequence[ChunkBuffers],
    counts: Ints,
    rows: Ints | None,
) -> DecodedValues:
    _only(buffers, 2)
    values, runs = buffers
    return _narrow(blocks.expand_runs(encoding, values, runs, counts, clip=True), rows)


def _byte_stream_split(
    encoding: pb.CompressiveEncoding,
    buffers: Sequence[ChunkBuffers],
    counts: Ints,
    rows: Ints | None,
) -> DecodedValues:
    """Byte j of all values of the chunk, for every j."""
    _only(buffers, 1)
    inner = encoding.byte_stream_split.values
    if kind_of(inner) != "flat" or inner.flat.bits_per_value not in {16, 32, 64}:
        raise Unsupported("a byte stream split over another encoding")
    width = int(inner.flat.bits_per_value) // 8
    data = buffers[0].head(counts * width)
    total = int(counts.sum())
    out = np.empty((total, width), np.uint8)
    size = int(counts[0]) if len(counts) else 0
    even = len(counts) - 1 if (counts[:-1] == size).all() else 0
    split = data[: even * size * width].reshape(even, width, size)
    out[: even * size].reshape(even, size, width)[:] = split.transpose(0, 2, 1)
    first = even * size
    for count in counts[even:].tolist():
        part = data[first * width : (first + count) * width]
        out[first : first + count] = part.reshape(width, count).T
        first += count
    return _narrow(Fixed(width, out.reshape(-1), total), rows)


def _general(
    encoding: pb.CompressiveEncoding,
    buffers: Sequence[ChunkBuffers],
    counts: Ints,
    rows: Ints | None,
) -> DecodedValues:
    """Only the first buffer of every chunk is compressed."""
    require(len(buffers) > 0, "a chunk has no value buffer")
    first = blocks.decompress_pieces(encoding.general, buffers[0], counts)
    return decode_values(encoding.general.values, [first, *buffers[1:]], counts, rows)


def _fixed_size_list(
    encoding: pb.CompressiveEncoding,
    buffers: Sequence[ChunkBuffers],
    counts: Ints,
    rows: Ints | None,
) -> DecodedValues:
    message = encoding.fixed_size_list
    size = int(message.items_per_value)
    total = int(counts.sum())
    claim(size * total // 8, f"{total:,} lists of {size:,} items")
    validity = None
    if message.has_validity:
        require(len(buffers) > 0, "a chunk has no validity buffer")
        first, *buffers = buffers
        require(((counts * size + 7) // 8 <= first.lengths).all(), "a chunk's buffer is too short")
        validity = bits.gather_bits(first.data, first.starts, counts * size)
    items = decode_values(message.values, buffers, counts * size, None)
    return _narrow(Lists(size, validity, items, total), rows)


def _packed_struct(
    encoding: pb.CompressiveEncoding,
    buffers: Sequence[ChunkBuffers],
    counts: Ints,
    rows: Ints | None,
) -> DecodedValues:
    """Rows of the fields' bytes."""
    return decode_values(encoding.packed_struct.values, buffers, counts, rows)


def _constant(
    encoding: pb.CompressiveEncoding,
    buffers: Sequence[ChunkBuffers],
    counts: Ints,
    rows: Ints | None,
) -> DecodedValues:
    """Only found below fixed-size lists whose items are all null: there is no value."""
    del buffers
    if encoding.constant.HasField("value"):
        raise Unsupported("a constant inside of a chunk")
    return Nulls(int(counts.sum()) if rows is None else len(rows))


_VALUES: dict[str, Decoder] = {
    "flat": _flat,
    "variable": _variable,
    "constant": _constant,
    "inline_bitpacking": _inline_bitpacking,
    "out_of_line_bitpacking": partial(_block, blocks.out_of_line_bitpacking),
    "fsst": _fsst,
    "rle": _rle,
    "byte_stream_split": _byte_stream_split,
    "general": _general,
    "fixed_size_list": _fixed_size_list,
    "packed_struct": _packed_struct,
}


def decode_values(
    encoding: pb.CompressiveEncoding,
    buffers: Sequence[ChunkBuffers],
    counts: Ints,
    rows: Ints | None = None,
) -> DecodedValues:
    """Decode the values of all chunks, or only those at ascending positions ``rows``."""
    name = kind_of(encoding)
    decoder = _VALUES.get(name)
    if decoder is None:
        raise Unsupported(f"encoding {name!r} of mini-block values")
    return decoder(encoding, buffers, counts, rows)
