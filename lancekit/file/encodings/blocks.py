"""The same buffer of many chunks: decoders work on all chunks of a page at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancekit.file.encodings.chunk_buffers import Part, interleave
from lancekit.file.kernels import bits
from lancekit.file.kernels.bitpacking import BLOCK, unpack_blocks
from lancekit.file.kernels.compression import SCHEMES, ZSTD_MAGIC, decompress_all, decompress_each
from lancekit.file.kernels.faults import Unsupported, require
from lancekit.file.kernels.memory import Bytes, Ints, gather, scratch, starts_of, view
from lancekit.file.kernels.values import Bits, DecodedValues, Fixed, Variable
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["ChunkBuffers", "decode_blocks", "decode_one", "kind_of", "run_type", "word_type"]

#: Chunks packed to one width are unpacked where they lie, if they lie in so few runs each.
_RUNS = 4


@dataclass(frozen=True, slots=True)
class ChunkBuffers:
    """One buffer of each of several chunks, all inside ``data``, ascending."""

    data: Bytes
    starts: Ints
    lengths: Ints

    def __post_init__(self) -> None:
        if len(self.starts):
            left = self.data.size - self.starts - self.lengths
            require(  # none of the three is negative
                (self.starts | self.lengths | left).min() >= 0,
                "a chunk's buffer reaches outside of its page",
            )

    def head(self, lengths: Ints) -> Bytes:
        """Return the first ``lengths`` bytes of every piece, back to back."""
        require((lengths <= self.lengths).all(), "a chunk's buffer is too short")
        return gather(self.data, self.starts, lengths)

    def table(self, dtype: Any, count: int) -> NDArray[Any]:
        """Return the first ``count`` words of every piece as a row each; no copy if it can be."""
        size = np.dtype(dtype).itemsize
        require((count * size <= self.lengths).all(), "a chunk's buffer is too short")
        if len(self.starts):
            steps = self.starts[1:] - self.starts[:-1]
            first, step = int(self.starts[0]), int(steps[0]) if len(steps) else 0
            if (first | step) % size == 0 and (steps == step).all():
                shape = (len(self.starts), count)
                return np.ndarray(shape, dtype, self.data, first, (step, size))
        return view(self.head(np.full(len(self.starts), count * size)), dtype).reshape(-1, count)

    def words(self, dtype: Any, at: Ints) -> NDArray[Any]:
        """Return the word of ``dtype`` at byte position ``at`` of every piece."""
        size = np.dtype(dtype).itemsize
        require((at + size <= self.lengths).all(), "a chunk's buffer is too short")
        index = self.starts + at
        if (index % size == 0).all():
            words: NDArray[Any] = view(self.data, dtype)[index // size]
            return words
        parts = self.data[index[:, None] + np.arange(size)]
        unaligned: NDArray[Any] = np.ascontiguousarray(parts).view(dtype).ravel()
        return unaligned

    def some(self, which: Any) -> ChunkBuffers:
        """Return the pieces of some chunks."""
        return ChunkBuffers(self.data, self.starts[which], self.lengths[which])


def kind_of(encoding: pb.CompressiveEncoding) -> str:
    """Return the name of the encoding; `Damaged` if none is set."""
    name = encoding.WhichOneof("compression")
    require(name is not None, "a buffer has no encoding")
    return str(name)


def word_type(bits_per_value: int) -> Any:
    """Return the unsigned integer type of 8, 16, 32 or 64 bits."""
    if bits_per_value not in {8, 16, 32, 64}:
        raise Unsupported(f"bit packing of {bits_per_value}-bit values")
    return np.dtype(f"<u{bits_per_value // 8}")


def flat(encoding: pb.CompressiveEncoding, pieces: ChunkBuffers, counts: Ints) -> DecodedValues:
    """Values back to back."""
    if encoding.flat.HasField("data"):
        raise Unsupported("compression inside of a flat encoding")
    width = int(encoding.flat.bits_per_value)
    total = int(counts.sum())
    if width == 1:
        require(((counts + 7) // 8 <= pieces.lengths).all(), "a chunk's buffer is too short")
        return Bits(bits.gather_bits(pieces.data, pieces.starts, counts), total)
    if width % 8:
        raise Unsupported(f"a flat encoding of {width} bits")
    return Fixed(width // 8, pieces.head(counts * (width // 8)), total)


def inline_bitpacking(
    encoding: pb.CompressiveEncoding, pieces: ChunkBuffers, counts: Ints
) -> DecodedValues:
    """Up to 1024 values per chunk, behind a word that holds their packed width."""
    bits_per_value = int(encoding.inline_bitpacking.uncompressed_bits_per_value)
    dtype = word_type(bits_per_value)
    total = int(counts.sum())
    require((counts <= BLOCK).all(), "a bit-packed chunk of more than 1024 values")
    widths = pieces.words(dtype, np.zeros(len(counts), np.int64)).astype(np.int64)
    require(((widths >= 0) & (widths <= bits_per_value)).all(), "an impossible packed width")
    size = dtype.itemsize
    bodies = ChunkBuffers(pieces.data, pieces.starts + size, pieces.lengths - size)
    values = scratch(len(counts) * BLOCK * size)
    out = values.view(dtype).reshape(-1, BLOCK)
    used = np.flatnonzero(np.bincount(widths)).tolist()
    borders = [0, *(np.flatnonzero(np.diff(widths)) + 1).tolist(), len(widths)]
    if len(borders) <= _RUNS * len(used):
        for start, stop in pairwise(borders):
            _unpack(bodies.some(slice(start, stop)), int(widths[start]), out[start:stop])
    else:
        for width in used:
            which = widths == width
            part = np.empty((np.count_nonzero(which), BLOCK), dtype)
            _unpack(bodies.some(which), width, part)
            out[which] = part
    if (counts[:-1] == BLOCK).all():
        return Fixed(size, values[: total * size], total)
    # levels of chunks may hold fewer values
    return Fixed(size, gather(values, np.arange(len(counts)) * BLOCK * size, counts * size), total)


def _unpack(pieces: ChunkBuffers, width: int, out: NDArray[Any]) -> None:
    """Unpack one block of 1024 values from every piece."""
    if width == 0:
        out[:] = 0
        return
    lanes = BLOCK // (out.dtype.itemsize * 8)
    unpack_blocks(pieces.table(out.dtype, width * lanes), width, out)


def _blocks(packed: Bytes, dtype: Any, width: int) -> NDArray[Any]:
    words = width * BLOCK // (dtype.itemsize * 8)
    return view(packed, dtype).reshape(packed.nbytes // (words * dtype.itemsize), words)


def out_of_line_bitpacking(
    encoding: pb.CompressiveEncoding, pieces: ChunkBuffers, counts: Ints
) -> DecodedValues:
    """Blocks of 1024 values of one width that the message names, then a tail, raw or packed."""
    message = encoding.out_of_line_bitpacking
    bits_per_value = int(message.uncompressed_bits_per_value)
    dtype = word_type(bits_per_value)
    if kind_of(message.values) != "flat":
        raise Unsupported("bit packing over another encoding")
    width = int(message.values.flat.bits_per_value)
    require(width <= bits_per_value, "an impossible packed width")
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
    values = unpack_blocks(
        _blocks(pieces.head(packed_blocks * block_bytes), dtype, width), width
    ).reshape(-1)
    # every chunk fills whole blocks of `values`; what a packed tail pads is left out again
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


def rle(encoding: pb.CompressiveEncoding, pieces: ChunkBuffers, counts: Ints) -> DecodedValues:
    """Run values behind their size in bytes, then run lengths of one byte each."""
    zeros = np.zeros(len(counts), np.int64)
    sizes = pieces.words(np.uint64, zeros).astype(np.int64)
    require((sizes >= 0).all() and (sizes + 8 <= pieces.lengths).all(), "runs of the wrong size")
    values = ChunkBuffers(pieces.data, pieces.starts + 8, sizes)
    runs = ChunkBuffers(pieces.data, pieces.starts + 8 + sizes, pieces.lengths - 8 - sizes)
    return expand_runs(encoding, values, runs, counts)


def run_type(message: pb.Rle) -> tuple[int, str]:
    """Return the bytes of a run's value, and the type by which it is repeated."""
    if kind_of(message.values) != "flat" or kind_of(message.run_lengths) != "flat":
        raise Unsupported("run-length encoding over another encoding")
    width, odd = divmod(int(message.values.flat.bits_per_value), 8)
    if message.run_lengths.flat.bits_per_value != 8 or odd or not width:
        raise Unsupported(f"run-length encoding of {8 * width + odd}-bit values")
    return width, f"u{width}" if width in {1, 2, 4, 8} else f"V{width}"


def expand_runs(
    encoding: pb.CompressiveEncoding,
    values: ChunkBuffers,
    runs: ChunkBuffers,
    counts: Ints,
    *,
    clip: bool = False,
) -> DecodedValues:
    """Repeat run values; the runs of every chunk must add up to its count.

    With ``clip`` they may reach beyond it: releases up to 8 end a chunk at a power of two, but
    its runs where the last of them ends, and begin the next chunk with the same values again.
    """
    width, dtype = run_type(encoding.rle)
    per_chunk = values.lengths // width
    require((runs.lengths >= per_chunk).all(), "runs without a length")
    lengths = runs.head(per_chunk).astype(np.int64)
    starts = starts_of(lengths)
    borders = starts[starts_of(per_chunk)]
    beyond = np.diff(borders) - counts
    require(
        (beyond >= 0 if clip else beyond == 0).all(), "runs do not add up to the chunk's values"
    )
    if beyond.any():
        left = np.repeat(borders[:-1] + counts, per_chunk) - starts[:-1]
        lengths = np.minimum(lengths, left.clip(min=0))
    total = int(counts.sum())
    repeated = np.repeat(values.head(per_chunk * width).view(dtype), lengths)
    return Fixed(width, repeated.view(np.uint8), total)


def variable(encoding: pb.CompressiveEncoding, pieces: ChunkBuffers, counts: Ints) -> DecodedValues:
    """One buffer of strings: bits per offset, where the bytes start, offsets from 0, bytes."""
    del encoding  # the buffer says itself how wide its offsets are
    require(len(counts) == 1, "a block of strings in chunks")
    count = int(counts[0])
    begin = int(pieces.starts[0])
    data = pieces.data[begin : begin + int(pieces.lengths[0])]
    require(data.size >= 8, "a block of strings is too short")
    width = int(data[:4].view("<u4")[0]) if begin % 4 == 0 else int.from_bytes(data[:4], "little")
    if width not in {32, 64}:
        raise Unsupported(f"a block of strings with {width}-bit offsets")
    size = width // 8
    require(data.size >= 2 * size, "a block of strings is too short")
    body = int.from_bytes(data[size : 2 * size].tobytes(), "little")
    stop = (2 + count + 1) * size
    require(stop <= body <= data.size, "a block of strings is too short")
    offsets = np.frombuffer(data[2 * size : stop].tobytes(), f"<i{size}")
    return Variable(offsets, data[body:])


def general(encoding: pb.CompressiveEncoding, pieces: ChunkBuffers, counts: Ints) -> DecodedValues:
    """Each piece compressed as a whole."""
    message = encoding.general
    return decode_blocks(message.values, decompress_pieces(message, pieces, counts), counts)


#: Bytes that a compressed buffer may have besides its values: its padding.
_PADDING = 64


def _most_bytes(encoding: pb.CompressiveEncoding, counts: Ints) -> Ints | None:
    """Return how long the first buffer of so many values may be; ``None`` if they do not tell."""
    name = kind_of(encoding)
    message = getattr(encoding, name)
    if name in ("packed_struct", "byte_stream_split"):
        return _most_bytes(message.values, counts)
    if name == "fixed_size_list":
        items = counts * int(message.items_per_value)
        return (items + 7) // 8 if message.has_validity else _most_bytes(message.values, items)
    blocks = (counts + BLOCK - 1) // BLOCK
    if name == "flat":
        return (counts * int(message.bits_per_value) + 7) // 8
    if name in ("inline_bitpacking", "out_of_line_bitpacking"):
        return (blocks * BLOCK + 1) * int(message.uncompressed_bits_per_value) // 8
    if name == "rle":  # a run has at least one value, and a byte for its length
        return 8 + counts * (int(message.values.flat.bits_per_value) // 8 + 1)
    return None


def decompress_pieces(message: pb.General, pieces: ChunkBuffers, counts: Ints) -> ChunkBuffers:
    """Return the pieces uncompressed, each the first buffer of so many values."""
    most = _most_bytes(message.values, counts)
    if most is not None:
        most = most + _PADDING
    scheme = SCHEMES.get(message.compression.scheme)
    if scheme is None:
        raise Unsupported(f"compression scheme {message.compression.scheme}")
    if scheme == "zstd" and _bare_frames(pieces):
        mosts = [None] * len(pieces.starts) if most is None else most.tolist()
        stops = pieces.starts + pieces.lengths
        places = zip(pieces.starts.tolist(), stops.tolist(), mosts, strict=True)
        units = decompress_each(scheme, pieces.data, places)
        data, sizes = np.concatenate(units), np.array([unit.size for unit in units], np.int64)
    else:
        data, sizes = decompress_all(scheme, pieces.data, pieces.starts, pieces.lengths, most)
    return ChunkBuffers(data, starts_of(sizes)[:-1], sizes)


def _bare_frames(pieces: ChunkBuffers) -> bool:
    """Return whether Zstd frames come without their uncompressed sizes."""
    first = pieces.data[pieces.starts[0] : pieces.starts[0] + 4] if len(pieces.starts) else b""
    return bytes(first) == ZSTD_MAGIC


Decoder = Callable[[pb.CompressiveEncoding, ChunkBuffers, Ints], DecodedValues]

_BLOCKS: dict[str, Decoder] = {
    "flat": flat,
    "inline_bitpacking": inline_bitpacking,
    "out_of_line_bitpacking": out_of_line_bitpacking,
    "rle": rle,
    "variable": variable,
    "general": general,
}


def decode_blocks(
    encoding: pb.CompressiveEncoding, pieces: ChunkBuffers, counts: Ints
) -> DecodedValues:
    """Decode block-encoded buffers, levels or a dictionary, of all chunks at once."""
    name = kind_of(encoding)
    decoder = _BLOCKS.get(name)
    if decoder is None:
        raise Unsupported(f"encoding {name!r} for levels or dictionaries")
    return decoder(encoding, pieces, counts)


def decode_one(encoding: pb.CompressiveEncoding, data: Bytes, count: int) -> DecodedValues:
    """Decode a single block-encoded buffer of ``count`` values."""
    piece = ChunkBuffers(data, np.zeros(1, np.int64), np.array([data.size]))
    return decode_blocks(encoding, piece, np.array([count]))
