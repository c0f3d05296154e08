"""Encoding fixed-width values of mini-block chunks: bit packing, runs, byte streams."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancekit.file.encodings.chunk_buffers import Part, chunk_counts
from lancekit.file.encodings.messages import flat
from lancekit.file.encodings.request import EncodedValues
from lancekit.file.kernels.bitpacking import BLOCK, pack_blocks
from lancekit.file.kernels.memory import Bytes, Ints, starts_of
from lancekit.format.pb import encodings_v21_pb2 as pb

__all__ = ["byte_streams", "pack", "packed_size", "run_starts", "runs", "widths_of"]

_LONGEST_RUN = 255

#: Fewer blocks than this share the next larger width: each width is a round of NumPy calls.
_FEW_BLOCKS = 16


def widths_of(values: NDArray[Any]) -> Ints:
    """Return the bits that the largest value of every block of 1024 needs."""
    full = len(values) // BLOCK
    largest = values[: full * BLOCK].reshape(full, BLOCK).max(axis=1).astype(np.uint64)
    if full * BLOCK < len(values):
        largest = np.append(largest, np.uint64(values[full * BLOCK :].max()))
    steps = np.array([1 << width for width in range(64)], np.uint64)
    widths: Ints = np.searchsorted(steps, largest, side="right").astype(np.int64)
    return widths


def packed_size(widths: Ints, itemsize: int) -> int:
    """Return the bytes of packed blocks: each behind a word that holds its width."""
    return int(widths.sum()) * BLOCK // 8 + itemsize * len(widths)


def pack(values: NDArray[Any], widths: Ints) -> EncodedValues:
    """Pack unsigned integers, every block of 1024 to its width or a little more."""
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
    """Raise the widths that few blocks have to the next that many have."""
    if len(widths) <= _FEW_BLOCKS:
        return np.full(len(widths), widths.max())
    used, numbers = np.unique(widths, return_counts=True)
    target = used.copy()
    for place in range(len(used) - 2, -1, -1):
        if numbers[place] < _FEW_BLOCKS:
            target[place] = target[place + 1]
    shared: Ints = target[np.searchsorted(used, widths)]
    return shared


def run_starts(values: NDArray[Any]) -> Ints:
    """Return where a value differs from the one before it; the first one does."""
    changes = np.empty(len(values), bool)
    changes[0] = True
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def runs(values: NDArray[Any], starts: Ints, chunk: int) -> EncodedValues:
    """Encode runs: their values in one buffer, their lengths, of one byte each, in another.

    Runs end with their chunk; those of more than 255 values are several.
    """
    counts = chunk_counts(len(values), chunk)
    firsts = starts_of(counts)
    starts = np.union1d(starts, firsts[:-1])
    lengths = np.diff(starts, append=len(values))
    pieces = -(-lengths // _LONGEST_RUN)
    total = starts_of(pieces)
    stored = np.full(int(total[-1]), _LONGEST_RUN, np.uint8)
    stored[total[1:] - 1] = lengths - (pieces - 1) * _LONGEST_RUN
    per_chunk = np.diff(total[np.searchsorted(starts, firsts)])
    kept: Bytes = np.repeat(values[starts], pieces).view(np.uint8)
    width = values.dtype.itemsize
    encoding = pb.CompressiveEncoding(rle=pb.Rle(values=flat(width * 8), run_lengths=flat(8)))
    buffers = [[Part(kept, per_chunk * width)], [Part(stored, per_chunk)]]
    return EncodedValues(encoding=encoding, counts=counts, buffers=buffers)


def byte_streams(data: Bytes, width: int, chunk: int) -> EncodedValues:
    """Encode values byte by byte: byte 0 of all values of a chunk, then byte 1, and so on."""
    rows = len(data) // width
    counts = chunk_counts(rows, chunk)
    full = (len(counts) - 1) * chunk
    head = data[: full * width].reshape(-1, chunk, width).transpose(0, 2, 1).reshape(-1)
    tail = data[full * width :].reshape(-1, width).T.reshape(-1)
    encoding = pb.CompressiveEncoding(byte_stream_split=pb.ByteStreamSplit(values=flat(width * 8)))
    part = Part(np.concatenate((head, tail)), counts * width)
    return EncodedValues(encoding=encoding, counts=counts, buffers=[[part]])
