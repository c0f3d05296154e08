"""Bit-packed unsigned integers: each block of 1024 is packed to the width of its largest value.

Inline, a word with the width precedes every block.  Out of line, the message has one width for all
blocks (docs/format/data-files.md, 11.3 to 11.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lancekit._file.encodings import flat
from lancekit._file.encodings.buffers import (
    TOO_SHORT,
    Buffers,
    ChunkBuffers,
    Encoding,
    cut,
    located,
    narrowed,
    only,
    require_flat,
    word_type,
)
from lancekit._file.kernels.bitpacking import (
    BLOCK,
    pack,
    pack_blocks,
    place_of,
    unpack,
    unpack_blocks,
    value_at,
)
from lancekit._file.kernels.faults import require
from lancekit._file.kernels.memory import Bytes, Ints, gather, scratch, starts_of, view
from lancekit._file.kernels.values import DecodedValues, Fixed
from lancekit._format.pb import encodings_v21_pb2 as pb

if TYPE_CHECKING:
    from lancekit._file.encodings.request import EncodedValues, Part

#: Maximum runs of equal widths, per width, up to which blocks are unpacked without a copy.
_RUNS = 4

#: Below one requested value in this many, each value is unpacked on its own.
_FEW = 32

#: Masks of the lowest n bits, by n.
_MASKS = np.array([(1 << width) - 1 for width in range(65)], np.uint64)

#: A width that fewer blocks have is raised to the next one, because each width costs NumPy calls.
_FEW_BLOCKS = 16

_STEPS = np.array([1 << width for width in range(64)], np.uint64)

_TOO_MANY = "a bit-packed chunk of more than 1024 values"
_IMPOSSIBLE = "an impossible packed width"


def decode_blocks(encoding: Encoding, pieces: ChunkBuffers, counts: Ints) -> DecodedValues:
    """Decode inline blocks of up to 1024 values each."""
    bits_per_value = int(encoding.inline_bitpacking.uncompressed_bits_per_value)
    dtype = word_type(bits_per_value)
    total = int(counts.sum())
    require((counts <= BLOCK).all(), _TOO_MANY)
    widths = pieces.words(dtype, np.zeros(len(counts), np.int64)).astype(np.int64)
    require(((widths >= 0) & (widths <= bits_per_value)).all(), _IMPOSSIBLE)
    size = dtype.itemsize
    bodies = ChunkBuffers(pieces.data, pieces.starts + size, pieces.lengths - size)
    if not (bodies.lengths < widths * (BLOCK // 8)).any():
        found = _unpacked(bodies.data, dtype, bodies.starts, widths, counts)
        if found is not None:
            return found
    values = scratch(len(counts) * BLOCK * size)
    _unpack_by_width(bodies, widths, values.view(dtype).reshape(-1, BLOCK))
    if (counts[:-1] == BLOCK).all():
        return Fixed(size, values[: total * size], total)
    # blocks of levels may have fewer values
    return Fixed(size, gather(values, np.arange(len(counts)) * BLOCK * size, counts * size), total)


def _unpacked(
    data: Bytes, dtype: np.dtype, starts: Ints, widths: Ints, counts: Ints
) -> Fixed | None:
    """Unpack blocks with the kernel; return ``None`` if it is not loaded or reports a fault."""
    size, total = dtype.itemsize, int(counts.sum())
    call = unpack.ready(total)
    if call is None or (starts % size).any():
        return None
    values = scratch((total + BLOCK) * size)
    done = call(view(data, dtype), starts // size, widths, counts, values.view(dtype))
    return None if done < 0 else Fixed(size, values[: total * size], total)


def _unpack_by_width(bodies: ChunkBuffers, widths: Ints, out: NDArray[np.generic]) -> None:
    used = np.flatnonzero(np.bincount(widths)).tolist()
    borders = [0, *(np.flatnonzero(np.diff(widths)) + 1).tolist(), len(widths)]
    if len(borders) <= _RUNS * len(used):
        for start, stop in pairwise(borders):
            _unpack(bodies.some(slice(start, stop)), int(widths[start]), out[start:stop])
    else:
        for width in used:
            which = widths == width
            part = np.empty((np.count_nonzero(which), BLOCK), out.dtype)
            _unpack(bodies.some(which), width, part)
            out[which] = part


def decode_chunks(
    encoding: Encoding, buffers: Buffers, counts: Ints, rows: Ints | None
) -> DecodedValues:
    """Decode inline chunks; unpack values one by one if only a few are requested."""
    if rows is None or len(rows) * _FEW > int(counts.sum()):
        return narrowed(decode_blocks(encoding, only(buffers), counts), rows)
    chunk, place = located(counts, rows)
    bits_per_value = int(encoding.inline_bitpacking.uncompressed_bits_per_value)
    dtype = word_type(bits_per_value)
    size = dtype.itemsize
    piece = only(buffers).some(chunk)
    require((place < BLOCK).all(), _TOO_MANY)
    width = piece.words(dtype, np.zeros(len(rows), np.int64)).astype(np.int64)
    require(
        ((width >= 0) & (width <= bits_per_value)).all()
        and (size + width * BLOCK // 8 <= piece.lengths).all(),
        _IMPOSSIBLE,
    )
    word, shift = place_of(place, width, bits_per_value)
    at = np.where(width > 0, size * (word + 1), 0)  # a block of width 0 has no words
    values = piece.words(dtype, at).astype(np.uint64) >> shift.astype(np.uint64)
    spill = np.flatnonzero(shift + width > bits_per_value)
    behind = at[spill] + size * (BLOCK // bits_per_value)
    high = piece.some(spill).words(dtype, behind).astype(np.uint64)
    values[spill] |= high << (bits_per_value - shift[spill]).astype(np.uint64)
    values &= _MASKS[width]
    return Fixed(size, values.astype(dtype).view(np.uint8), len(rows))


def decode_block(encoding: Encoding, data: Bytes, count: int) -> Fixed:
    """Decode one inline block."""
    width, words = _block(encoding, data, count)
    size = words.itemsize
    if width == 0:
        return Fixed(size, np.zeros(count * size, np.uint8), count)
    values = unpack_blocks(words.reshape(1, -1), width)
    return Fixed(size, values.reshape(-1).view(np.uint8)[: count * size], count)


def _block(encoding: Encoding, data: Bytes, count: int) -> tuple[int, NDArray[np.unsignedinteger]]:
    """Return the width of one block, and its packed words."""
    dtype = word_type(int(encoding.inline_bitpacking.uncompressed_bits_per_value))
    size = dtype.itemsize
    require(count <= BLOCK, _TOO_MANY)
    require(data.size >= size, TOO_SHORT)
    width = int.from_bytes(data[:size].tobytes(), "little")
    require(width <= 8 * size, _IMPOSSIBLE)
    stop = size + width * BLOCK // 8
    require(stop <= data.size, TOO_SHORT)
    return width, data[size:stop].view(dtype)


def decode_chunk(
    encoding: Encoding, buffers: Sequence[Bytes], count: int, rows: range
) -> DecodedValues:
    """Decode one inline chunk; of a single row, unpack only that value."""
    if len(rows) != 1:
        return cut(decode_block(encoding, only(buffers), count), rows)
    width, words = _block(encoding, only(buffers), count)
    value = value_at(words, rows.start, width) if width else 0
    return Fixed(words.itemsize, np.array([value], words.dtype).view(np.uint8), 1)


def decode_out_of_line(encoding: Encoding, pieces: ChunkBuffers, counts: Ints) -> DecodedValues:
    """Decode blocks of 1024 values with the message's width, then a raw or packed tail."""
    from lancekit._file.encodings.request import Part, interleave

    message = encoding.out_of_line_bitpacking
    bits_per_value = int(message.uncompressed_bits_per_value)
    dtype = word_type(bits_per_value)
    width = require_flat(message.values, "bit packing")
    require(width <= bits_per_value, _IMPOSSIBLE)
    total = int(counts.sum())
    if width == 0:
        return Fixed(dtype.itemsize, np.zeros(total * dtype.itemsize, np.uint8), total)
    block_bytes = width * BLOCK // 8
    full, tail = counts // BLOCK, counts % BLOCK
    tail_bytes = pieces.lengths - full * block_bytes
    raw_tail = (tail > 0) & (tail_bytes == tail * dtype.itemsize)
    require(
        (
            raw_tail
            | ((tail_bytes == block_bytes) & (tail > 0))
            | ((tail == 0) & (tail_bytes >= 0))
        ).all(),
        "a bit-packed buffer of the wrong size",
    )
    packed_blocks = full + ((tail > 0) & ~raw_tail)
    blocks = full + (tail > 0)
    chunk = np.repeat(np.arange(len(counts)), blocks)
    number = np.arange(len(chunk)) - starts_of(blocks)[chunk]
    ends = number == full[chunk]  # the tails
    found = _unpacked(
        pieces.data,
        dtype,
        pieces.starts[chunk] + number * block_bytes,
        np.where(ends & raw_tail[chunk], -1, width),
        np.where(ends, tail[chunk], BLOCK),
    )
    if found is not None:
        return found
    values = unpack_blocks(
        _blocks(pieces.head(packed_blocks * block_bytes), dtype, width), width
    ).reshape(-1)
    # `values` has whole blocks for every chunk: the padding of packed tails is dropped
    size = dtype.itemsize
    from_blocks = np.where(raw_tail, full * BLOCK, counts)
    places = starts_of(packed_blocks * BLOCK)[:-1]
    joined = view(gather(values.view(np.uint8), places * size, from_blocks * size), dtype)
    if not raw_tail.any():
        return Fixed(size, joined.view(np.uint8), total)
    rest = pieces.some(raw_tail)
    lengths = tail[raw_tail] * size
    tails = ChunkBuffers(rest.data, rest.starts + (full * block_bytes)[raw_tail], lengths).head(
        lengths
    )
    if not raw_tail[:-1].any():
        return Fixed(size, np.concatenate((joined.view(np.uint8), tails)), total)
    parts = (
        Part(joined.view(np.uint8), from_blocks * size),
        Part(tails, np.where(raw_tail, tail * size, 0)),
    )
    return Fixed(size, interleave(parts), total)


def out_of_line_message(bits_per_value: int, width: int) -> Encoding:
    """Return the protobuf message of out-of-line bit packing."""
    packed = pb.OutOfLineBitpacking(
        uncompressed_bits_per_value=bits_per_value, values=flat.message(width)
    )
    return pb.CompressiveEncoding(out_of_line_bitpacking=packed)


def widths_of(values: NDArray[np.unsignedinteger]) -> Ints:
    """Return the bit width of the largest value in every block of 1024."""
    full = len(values) // BLOCK
    largest = values[: full * BLOCK].reshape(full, BLOCK).max(axis=1).astype(np.uint64)
    if full * BLOCK < len(values):
        largest = np.append(largest, np.uint64(values[full * BLOCK :].max()))
    return widths_of_largest(largest)


def widths_of_largest(largest: NDArray[np.generic]) -> Ints:
    """Return the bit width of each number."""
    widths: Ints = np.searchsorted(_STEPS, largest.astype(np.uint64), side="right")
    return widths.astype(np.int64, copy=False)


def packed_size(widths: Ints, itemsize: int) -> int:
    """Return the bytes of packed blocks, including the word in front of each."""
    return int(widths.sum()) * BLOCK // 8 + itemsize * len(widths)


def encode(values: NDArray[np.unsignedinteger], widths: Ints) -> EncodedValues:
    """Pack unsigned integers inline, each block of 1024 to its width or slightly more."""
    from lancekit._file.encodings.request import EncodedValues, Part, chunk_counts

    dtype = values.dtype
    counts = chunk_counts(len(values), BLOCK)
    widths = _shared(widths)
    lengths = dtype.itemsize + widths * (BLOCK // 8)
    starts = starts_of(lengths)
    out = np.empty(int(starts[-1]), np.uint8)
    words = out.view(dtype)
    heads = starts[:-1] // dtype.itemsize
    words[heads] = widths
    full = len(values) // BLOCK
    blocks = values[: full * BLOCK].reshape(full, BLOCK)
    for width in np.unique(widths[:full]).tolist():
        which = np.flatnonzero(widths[:full] == width)
        if len(which) == full:
            body = words[: full * (heads[1] if len(heads) > 1 else len(words))]
            body.reshape(full, -1)[:, 1:] = pack_blocks(blocks, width)
        elif width:
            packed = pack_blocks(blocks[which], width)
            words[heads[which][:, None] + 1 + np.arange(packed.shape[1])] = packed
    if full < len(counts):
        last = np.zeros((1, BLOCK), dtype)
        last[0, : len(values) - full * BLOCK] = values[full * BLOCK :]
        words[heads[full] + 1 :] = pack_blocks(last, int(widths[full]))[0]
    encoding = pb.CompressiveEncoding(
        inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=dtype.itemsize * 8)
    )
    return EncodedValues(encoding=encoding, counts=counts, buffers=[[Part(out, lengths)]])


def _shared(widths: Ints) -> Ints:
    """Raise the widths of few blocks to the next width that many blocks have."""
    if len(widths) <= _FEW_BLOCKS:
        return np.full(len(widths), widths.max())
    used, numbers = np.unique(widths, return_counts=True)
    target = used.copy()
    for place in range(len(used) - 2, -1, -1):
        if numbers[place] < _FEW_BLOCKS:
            target[place] = target[place + 1]
    shared: Ints = target[np.searchsorted(used, widths)]
    return shared


def _unpack(pieces: ChunkBuffers, width: int, out: NDArray[np.generic]) -> None:
    """Unpack one block of 1024 values from every piece."""
    if width == 0:
        out[:] = 0
        return
    lanes = BLOCK // (out.dtype.itemsize * 8)
    unpack_blocks(pieces.table(out.dtype, width * lanes), width, out)


def _blocks(packed: Bytes, dtype: np.dtype, width: int) -> NDArray[np.unsignedinteger]:
    words = width * BLOCK // (dtype.itemsize * 8)
    return view(packed, dtype).reshape(packed.nbytes // (words * dtype.itemsize), words)


def encode_out_of_line(levels: Bytes, borders: Ints, width: int) -> list[Part]:
    """Encode the 16-bit levels between borders, all with one width."""
    from lancekit._file.encodings.request import Part, interleave

    starts, counts = borders[:-1], np.diff(borders)
    whole = counts // BLOCK * BLOCK
    tails = counts - whole
    # a tail is packed if that takes fewer bytes than raw words
    raw = width * (BLOCK - tails) >= (16 - width) * tails
    to_pack, as_words = np.where(raw, 0, tails), np.where(raw, tails, 0)
    block_bytes = width * BLOCK // 8
    parts = []
    if whole.any():
        blocks = gather(levels, starts, whole)
        parts.append(Part(_pack_levels(blocks, width), whole // BLOCK * block_bytes))
    if to_pack.any():
        picked = to_pack > 0
        ends = gather(levels, (starts + whole)[picked], to_pack[picked])
        padding = np.where(picked, BLOCK - to_pack, 0)[picked]
        zeros = np.zeros(int(padding.sum()), np.uint8)
        padded = interleave([Part(ends, to_pack[picked]), Part(zeros, padding)])
        parts.append(Part(_pack_levels(padded, width), picked * block_bytes))
    if as_words.any():
        picked = as_words > 0
        ends = gather(levels, (starts + whole)[picked], as_words[picked])
        parts.append(Part(ends.astype("<u2").view(np.uint8), as_words * 2))
    return parts


def _pack_levels(levels: Bytes, width: int) -> Bytes:
    if width == 1 and pack.ready(levels.size) is None:
        return _pack_flags(levels)
    words = pack_blocks(levels.astype("<u2").reshape(-1, BLOCK), width)
    return words.reshape(-1).view(np.uint8)


def _pack_flags(flags: Bytes) -> Bytes:
    """Pack blocks of 1024 flags, one byte each, as 16-bit integers of width 1.

    In a block, value ``128 * s + 64 * o + l`` is bit ``8 * o + s`` of word ``l``.
    """
    block = np.packbits(flags.reshape(-1, 8, 2, 64), axis=1, bitorder="little")
    return np.ascontiguousarray(block.reshape(-1, 2, 64).transpose(0, 2, 1)).reshape(-1)
