"""Run-length encoding: values and their repeat counts (docs/format/data-files.md, 11.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lancekit._compiled.kernel import Values, kernel
from lancekit._file.encodings import flat
from lancekit._file.encodings.buffers import (
    Buffer,
    Buffers,
    ChunkBuffers,
    Encoding,
    cut,
    located,
    narrowed,
    require_flat,
)
from lancekit._file.kernels.faults import Unsupported, require
from lancekit._file.kernels.memory import Bytes, Ints, scratch, starts_of
from lancekit._file.kernels.values import DecodedValues, Fixed
from lancekit._format.pb import encodings_v21_pb2 as pb

if TYPE_CHECKING:
    from lancekit._file.encodings.request import EncodedValues, Part

#: Values in a written chunk of runs: a power of two, as in every chunk but the last, and at most
#: `MAX_CHUNK_VALUES` (`request.py`).  Level streams follow the value chunks.  Before 2.2 a chunk
#: has at most 32 KiB, and a page with a larger one is halved (`ChunkOverflow`).  The worst case is
#: a run for each value: 20 KiB of 4-byte values, where 8,192 values would take 40 KiB.  8-byte
#: values would take 36 KiB, but only in a page that has runs elsewhere.  The value is unrelated to
#: other constants of 4,096 in these modules.
CHUNK_VALUES = 4096

#: a run length is stored in one byte
LONGEST_RUN = 255

#: A lookup of one row's run takes as long as writing this many values.
_LOOK_UP = 8

_WRONG_SIZE = "runs of the wrong size"
_NO_LENGTH = "runs without a length"
_WRONG_SUM = "runs do not add up to the chunk's values"


def message(bits_per_value: int) -> Encoding:
    """Return the protobuf message of runs."""
    runs = pb.Rle(values=flat.message(bits_per_value), run_lengths=flat.message(8))
    return pb.CompressiveEncoding(rle=runs)


def check(encoding: Encoding) -> tuple[int, str]:
    """Return the byte width of a run's value, and the NumPy type for repeating it."""
    message, what = encoding.rle, "run-length encoding"
    bits_per_value = require_flat(message.values, what)
    width, odd = divmod(bits_per_value, 8)
    if require_flat(message.run_lengths, what) != 8 or odd or not width:
        raise Unsupported(f"{what} of {bits_per_value}-bit values")
    return width, f"u{width}" if width in {1, 2, 4, 8} else f"V{width}"


def decode_blocks(encoding: Encoding, pieces: ChunkBuffers, counts: Ints) -> DecodedValues:
    """Decode blocks: the size of the run values in bytes, the run values, the lengths."""
    zeros = np.zeros(len(counts), np.int64)
    sizes = pieces.words(np.uint64, zeros).astype(np.int64)
    require((sizes >= 0).all() and (sizes + 8 <= pieces.lengths).all(), _WRONG_SIZE)
    values = ChunkBuffers(pieces.data, pieces.starts + 8, sizes)
    runs = ChunkBuffers(pieces.data, pieces.starts + 8 + sizes, pieces.lengths - 8 - sizes)
    return _expanded(encoding, values, runs, counts)


def decode_chunks(
    encoding: Encoding, buffers: Buffers, counts: Ints, rows: Ints | None
) -> DecodedValues:
    """Decode values of all chunks, which have run values and run lengths in two buffers."""
    values, runs = _two(buffers)
    return _expanded(encoding, values, runs, counts, rows, clip=True)


def decode_block(encoding: Encoding, data: Bytes, count: int) -> DecodedValues:
    """Decode the values of one block."""
    size = int.from_bytes(data[:8].tobytes(), "little")
    require(8 + size <= data.size, _WRONG_SIZE)
    return _expanded_one(encoding, data[8 : 8 + size], data[8 + size :], count)


def decode_chunk(
    encoding: Encoding, buffers: Sequence[Bytes], count: int, rows: range
) -> DecodedValues:
    """Decode a range of values of one chunk."""
    values, lengths = _two(buffers)
    return cut(_expanded_one(encoding, values, lengths, count, clip=True), rows)


def starts_of_runs(values: NDArray[np.generic]) -> Ints:
    """Return the positions of values that differ from their predecessor, and position 0."""
    changes = np.empty(len(values), bool)
    changes[0] = True
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def encode(values: NDArray[np.unsignedinteger], starts: Ints, chunk: int) -> EncodedValues:
    """Encode runs: their values in one buffer, their one-byte lengths in another.

    Runs end with their chunk; longer runs than `LONGEST_RUN` are split.
    """
    from lancekit._file.encodings.request import EncodedValues, Part, chunk_counts

    counts = chunk_counts(len(values), chunk)
    firsts = starts_of(counts)
    starts = _union(starts, firsts[:-1])
    stops, lengths = _in_bytes(np.diff(starts, append=len(values)))
    per_chunk = np.diff(stops[np.searchsorted(starts, firsts)])
    kept: Bytes = np.repeat(values[starts], np.diff(stops)).view(np.uint8)
    width = values.dtype.itemsize
    buffers = [[Part(kept, per_chunk * width)], [Part(lengths, per_chunk)]]
    return EncodedValues(encoding=message(width * 8), counts=counts, buffers=buffers)


def encode_blocks(levels: Bytes, borders: Ints, at_most: int) -> list[Part] | None:
    """Encode the 16-bit levels between borders; ``None`` if that takes over ``at_most`` bytes."""
    from lancekit._file.encodings.request import Part

    changes = np.flatnonzero(levels[1:] != levels[:-1]) + 1
    if 3 * len(changes) > at_most:
        return None
    starts = _union(changes, borders[:-1])
    stops, lengths = _in_bytes(np.diff(starts, append=borders[-1]))
    if 3 * len(lengths) + 8 * (len(borders) - 1) > at_most:
        return None
    values = np.repeat(levels[starts], np.diff(stops)).astype("<u2").view(np.uint8)
    runs = np.diff(stops[np.searchsorted(starts, borders)])
    head = Part((2 * runs).astype("<u8").view(np.uint8), np.full(len(runs), 8))
    return [head, Part(values, runs * 2), Part(lengths, runs)]


def _union(some: Ints, others: Ints) -> Ints:
    """Return the union of two ascending arrays, faster than NumPy's function, which hashes."""
    both = np.concatenate((some, others))
    both.sort(kind="stable")  # merges the sorted halves
    kept: Ints = both[np.append(True, both[1:] != both[:-1])]
    return kept


def _in_bytes(lengths: Ints) -> tuple[Ints, Bytes]:
    """Split runs to one-byte lengths; return the first piece of each run, and all lengths."""
    pieces = -(-lengths // LONGEST_RUN)
    stops = starts_of(pieces)
    stored: Bytes = np.full(int(stops[-1]), LONGEST_RUN, np.uint8)
    stored[stops[1:] - 1] = lengths - (pieces - 1) * LONGEST_RUN
    return stops, stored


def _two(buffers: Sequence[Buffer]) -> Sequence[Buffer]:
    require(len(buffers) == 2, f"a chunk has {len(buffers)} value buffers, not 2")
    return buffers


def _expanded(
    encoding: Encoding,
    values: ChunkBuffers,
    runs: ChunkBuffers,
    counts: Ints,
    rows: Ints | None = None,
    *,
    clip: bool = False,
) -> DecodedValues:
    """Repeat run values, and select ``rows``.

    The runs of every chunk must add up to its count.  With ``clip`` they may exceed it: releases up
    to 8 write the runs whole, although the chunk ends at a power of two, and repeat the last values
    in the next chunk.
    """
    width, dtype = check(encoding)
    per_chunk = values.lengths // width
    require((runs.lengths >= per_chunk).all(), _NO_LENGTH)
    total = int(counts.sum())
    few = rows is not None and _LOOK_UP * len(rows) <= total
    bytes_of_runs = runs.head(per_chunk)
    stored = values.head(per_chunk * width).view(dtype)
    if not few:
        out = repeated(stored, bytes_of_runs, per_chunk, counts, clip=clip)
        if out is not None:
            return narrowed(Fixed(width, out.view(np.uint8), total), rows)
    lengths = bytes_of_runs.astype(np.int64)
    starts = starts_of(lengths)
    borders = starts[starts_of(per_chunk)]
    beyond = np.diff(borders) - counts
    require((beyond >= 0 if clip else beyond == 0).all(), _WRONG_SUM)
    if few and rows is not None:
        chunk, place = located(counts, rows)
        run = np.searchsorted(starts, borders[chunk] + place, "right") - 1
        return Fixed(width, stored[run].view(np.uint8), len(rows))
    if beyond.any():
        left = np.repeat(borders[:-1] + counts, per_chunk) - starts[:-1]
        lengths = np.minimum(lengths, left.clip(min=0))
    whole = np.repeat(stored, lengths)
    return narrowed(Fixed(width, whole.view(np.uint8), total), rows)


def _expanded_one(
    encoding: Encoding, values: Bytes, lengths: Bytes, count: int, *, clip: bool = False
) -> Fixed:
    """Repeat the run values of one chunk; like `_expanded`."""
    width, dtype = check(encoding)
    runs = values.size // width
    require(lengths.size >= runs, _NO_LENGTH)
    lengths = lengths[:runs]
    total = int(lengths.sum())
    require(total >= count if clip else total == count, _WRONG_SUM)
    repeats = lengths
    if total > count:
        repeats = np.diff(lengths.cumsum(dtype=np.int64).clip(max=count), prepend=0)
    whole = values[: runs * width].view(dtype).repeat(repeats)
    return Fixed(width, whole.view(np.uint8), count)


# ---- expansion of runs

#: From this mean run length on, NumPy repeats as fast as the kernel.
_LONG = 64


@kernel("T u1 i8 i8 int =T", over="u1 u2 u4 u8", saves=2)
def repeat(
    values: Values, lengths: Values, runs: Values, counts: Values, clip: int, out: Values
) -> int:
    """Repeat values; each chunk has ``runs`` values, which become ``counts`` values.

    With ``clip`` the runs of a chunk may exceed its count.  ``out`` has room for eight more values.
    """
    run, after = 0, 0
    for chunk in range(counts.size):
        count, stop = counts[np.uint64(chunk)], run + runs[np.uint64(chunk)]
        if stop < run or stop > values.size or stop > lengths.size:
            return -1
        if count < 0 or after + count + 8 > out.size:
            return -1
        end = after + count
        while run < stop:
            length = int(lengths[np.uint64(run)])
            if length > end - after:
                if clip == 0:
                    return -1
                length = end - after
            value = values[np.uint64(run)]
            for at in range(after, after + length, 8):
                for step in range(8):  # excess values are overwritten, or go to the spare room
                    out[np.uint64(at + step)] = value
            after += length
            run += 1
        if after != end:
            return -1
    return 0


def repeated(
    values: NDArray[np.generic], lengths: Bytes, runs: Ints, counts: Ints, *, clip: bool
) -> NDArray[np.generic] | None:
    """Repeat each value as often as its length says, for all chunks, with the kernel.

    ``None`` if the kernel is not loaded, not faster or reports a fault, which NumPy then raises.
    """
    total = int(counts.sum())
    if values.dtype.kind != "u" or total > _LONG * len(values):
        return None
    if (call := repeat.ready(total)) is None:
        return None
    out: NDArray[np.generic] = scratch((total + 8) * values.dtype.itemsize).view(values.dtype)
    return out[:total] if call(values, lengths, runs, counts, clip, out) >= 0 else None
