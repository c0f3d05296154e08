"""Plain strings: offsets, then bytes (docs/format/data-files.md, 11.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lancekit._file.encodings import flat
from lancekit._file.encodings.buffers import (
    TOO_SHORT,
    Buffers,
    ChunkBuffers,
    Encoding,
    located,
    only,
    require_flat,
)
from lancekit._file.kernels.faults import Unsupported, require
from lancekit._file.kernels.memory import Bytes, Ints, Offsets, gather, starts_of, view
from lancekit._file.kernels.values import DecodedValues, Variable
from lancekit._format.pb import encodings_v21_pb2 as pb

if TYPE_CHECKING:
    from lancekit._file.encodings.request import EncodedValues, EncodingRequest

_OUT_OF_ORDER = "string offsets are out of order"
_SHORT_BLOCK = "a block of strings is too short"


def message(bits_per_offset: int) -> Encoding:
    """Return the protobuf message of plain strings."""
    return pb.CompressiveEncoding(variable=pb.Variable(offsets=flat.message(bits_per_offset)))


def check(encoding: Encoding) -> int:
    """Return the byte width of the offsets in chunks."""
    compressed = "compressed offsets or bytes of strings"
    if encoding.variable.HasField("values"):
        raise Unsupported(compressed)
    width = require_flat(encoding.variable.offsets, compressed)
    if width not in {32, 64}:
        raise Unsupported(f"strings with {width}-bit offsets")
    return width // 8


def decode_blocks(encoding: Encoding, pieces: ChunkBuffers, counts: Ints) -> DecodedValues:
    """Decode a block of strings: bits of an offset, position of the bytes, offsets, bytes."""
    del encoding  # the buffer itself states the width of its offsets
    require(len(counts) == 1, "a block of strings in chunks")
    count = int(counts[0])
    begin = int(pieces.starts[0])
    data = pieces.data[begin : begin + int(pieces.lengths[0])]
    require(data.size >= 8, _SHORT_BLOCK)
    width = int(data[:4].view("<u4")[0]) if begin % 4 == 0 else int.from_bytes(data[:4], "little")
    if width not in {32, 64}:
        raise Unsupported(f"a block of strings with {width}-bit offsets")
    size = width // 8
    require(data.size >= 2 * size, _SHORT_BLOCK)
    body = int.from_bytes(data[size : 2 * size].tobytes(), "little")
    stop = (2 + count + 1) * size
    require(stop <= body <= data.size, _SHORT_BLOCK)
    offsets = np.frombuffer(data[2 * size : stop].tobytes(), f"<i{size}")
    return Variable(offsets, data[body:])


def decode_chunks(
    encoding: Encoding, buffers: Buffers, counts: Ints, rows: Ints | None
) -> Variable:
    """Decode strings of all chunks; offsets count from the start of their buffer."""
    piece = only(buffers)
    dtype = np.dtype(f"<i{check(encoding)}")
    if rows is not None:
        chunk, place = located(counts, rows)
        of_row = piece.some(chunk)
        begin = of_row.words(dtype, place * dtype.itemsize).astype(np.int64)
        end = of_row.words(dtype, (place + 1) * dtype.itemsize).astype(np.int64)
        require(((begin >= 0) & (end >= begin) & (end <= of_row.lengths)).all(), _OUT_OF_ORDER)
        data = gather(piece.data, of_row.starts + begin, end - begin)
        return Variable(starts_of(end - begin), data)
    begin = piece.words(dtype, np.zeros(len(counts), np.int64)).astype(np.int64)
    end = piece.words(dtype, counts * dtype.itemsize).astype(np.int64)
    require(
        ((begin >= (counts + 1) * dtype.itemsize) & (end >= begin) & (end <= piece.lengths)).all(),
        _OUT_OF_ORDER,
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


def decode_chunk(encoding: Encoding, buffers: Sequence[Bytes], count: int, rows: range) -> Variable:
    """Decode strings of one chunk."""
    data, width = only(buffers), check(encoding)
    head = (count + 1) * width
    require(head <= data.size, TOO_SHORT)
    wanted = data[:head].view(f"<i{width}")[rows.start : rows.stop + 1]
    first, last = int(wanted[0]), int(wanted[-1])
    require(head <= first <= last <= data.size, _OUT_OF_ORDER)
    return Variable(wanted - wanted[0], data[first:last])


def encode(
    offsets: Offsets, data: Bytes, limit: int, most: int, request: EncodingRequest
) -> EncodedValues:
    """Encode chunk-relative offsets, then bytes; no chunk exceeds ``most`` bytes if possible."""
    from lancekit._file.encodings.request import EncodedValues, Part, chunk_counts, chunk_size

    rows = len(offsets) - 1
    width = offsets.dtype.itemsize
    size = chunk_size(mean_size(offsets), limit, request.max_values, smallest=2)
    # one power of two for the page, small enough for its largest chunk
    while size > 2 and largest_chunk(offsets, size) > most:
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
    padding = -(places + content) % 8  # readers expect whole offsets, so padding counts as content
    parts = [
        Part(relative.view(np.uint8), places),
        Part(data, content),
        Part(np.zeros(int(padding.sum()), np.uint8), padding),
    ]
    return EncodedValues(encoding=message(width * 8), counts=counts, buffers=[parts])


def encode_block(offsets: Offsets, data: Bytes) -> bytes:
    """Encode strings as one self-describing buffer."""
    width = offsets.dtype.itemsize
    head = np.array([width * 8, width * (len(offsets) + 2)], offsets.dtype)
    return b"".join((head.tobytes(), offsets.tobytes(), data.tobytes()))


def mean_size(offsets: NDArray[np.generic]) -> float:
    """Return the mean bytes of a string, including its offset."""
    return float(offsets[-1]) / (len(offsets) - 1) + offsets.dtype.itemsize


def largest_chunk(offsets: NDArray[np.generic], size: int) -> int:
    """Return the bytes of the largest chunk of ``size`` strings, including its offsets."""
    borders = np.append(offsets[::size], offsets[-1])
    return int(np.diff(borders).max()) + (size + 1) * offsets.dtype.itemsize
